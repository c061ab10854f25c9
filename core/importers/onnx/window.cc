#include "core/importers/onnx/window.h"

namespace gpueta::onnx_import {
namespace {

// Attribute `name` with one positive integer for each of `count` axes; 1 each
// if absent.
std::optional<std::vector<std::int64_t>> ReadPositive(NodeView& node, std::string_view name, std::size_t count) {
  std::vector<std::int64_t> values = node.Ints(name);
  if (values.empty()) values.assign(count, 1);
  if (values.size() != count) {
    node.Malformed("attribute {} has {} values for {} spatial axes", name, values.size(), count);
    return std::nullopt;
  }
  for (std::int64_t value : values) {
    if (value >= 1) continue;
    node.Malformed("attribute {} holds {}, must be at least 1", name, value);
    return std::nullopt;
  }
  return values;
}

// Pads so that the output has ceil(size/stride) elements; the odd one goes to
// the end for SAME_UPPER, to the beginning for SAME_LOWER.
void PadSame(Window& window, const SymInt& size, bool upper) {
  const SymInt total = Max((CeilDiv(size, window.stride) - 1) * window.stride + window.span() - size, 0);
  const SymInt half = FloorDiv(total, 2);
  window.pad_begin = upper ? half : total - half;
  window.pad_end = total - window.pad_begin;
}

bool ReadPads(NodeView& node, std::vector<Window>& windows) {
  const std::vector<std::int64_t> pads = node.Ints("pads");
  if (pads.empty()) return true;
  if (pads.size() != 2 * windows.size()) {
    node.Malformed("attribute pads has {} values for {} spatial axes", pads.size(), windows.size());
    return false;
  }
  for (std::size_t i = 0; i < windows.size(); ++i) {
    windows[i].pad_begin = pads[i];
    windows[i].pad_end = pads[i + windows.size()];
    if (pads[i] >= 0 && pads[i + windows.size()] >= 0) continue;
    node.Malformed("attribute pads holds a negative value");
    return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Window>> ReadWindows(NodeView& node, const Shape& kernel, const Shape& input) {
  const std::size_t axes = kernel.size();
  const auto strides = ReadPositive(node, "strides", axes);
  const auto dilations = ReadPositive(node, "dilations", axes);
  if (!strides.has_value() || !dilations.has_value()) return std::nullopt;
  std::vector<Window> windows(axes);
  for (std::size_t i = 0; i < axes; ++i) {
    windows[i].kernel = kernel[i];
    windows[i].stride = (*strides)[i];
    windows[i].dilation = (*dilations)[i];
  }
  const std::string auto_pad = node.String("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    for (std::size_t i = 0; i < axes; ++i) PadSame(windows[i], input[i], auto_pad == "SAME_UPPER");
  } else if (auto_pad == "NOTSET" || auto_pad.empty()) {
    if (!ReadPads(node, windows)) return std::nullopt;
  } else if (auto_pad != "VALID") {
    node.Malformed("attribute auto_pad is \"{}\"", Printable(auto_pad));
    return std::nullopt;
  }
  return windows;
}

SymInt OutputSize(NodeView& node, const Window& window, const SymInt& size, bool round_up) {
  const SymInt steps = size + window.pad_begin + window.pad_end - window.span();
  if (steps.constant().value_or(0) < 0) {
    node.Mismatch("a window of {} elements does not fit into an axis of {}", window.span().ToString(), size.ToString());
  }
  if (!round_up) return FloorDiv(steps, window.stride) + 1;
  // Window i starts at i·stride − pad_begin, which must be below size.
  return Min(CeilDiv(steps, window.stride) + 1, CeilDiv(size + window.pad_begin, window.stride));
}

}  // namespace gpueta::onnx_import
