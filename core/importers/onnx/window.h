// Sliding windows of convolutions and poolings.
#pragma once

#include <optional>
#include <vector>

#include "core/importers/onnx/node_view.h"

namespace gpueta::onnx_import {

// Along one spatial axis. Padding may depend on symbols (auto_pad).
struct Window {
  SymInt kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  SymInt pad_begin = 0;
  SymInt pad_end = 0;

  // Input elements that one output element spans.
  SymInt span() const { return (kernel - 1) * dilation + 1; }
};

// The windows over the spatial dims `input` with kernels of size `kernel`, from
// the attributes strides, dilations, pads and auto_pad. nullopt after a
// Malformed attribute.
std::optional<std::vector<Window>> ReadWindows(NodeView& node, const Shape& kernel, const Shape& input);

// floor((size + pads − span)/stride) + 1; rounded up instead, if asked, except
// that no window may start in the trailing padding. Mismatch for a window that
// does not fit into the padded input.
SymInt OutputSize(NodeView& node, const Window& window, const SymInt& size, bool round_up = false);

}  // namespace gpueta::onnx_import
