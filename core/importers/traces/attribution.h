// Which operator each kernel of a trace belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/importers/traces/trace.h"

namespace gpueta {

inline constexpr std::uint32_t kNoCall = UINT32_MAX;

// Operators call one another. The owner of a call is the outermost around it
// (or itself) whose kernels are known: aten::convolution of what the library
// calls beneath it.
class Attribution {
 public:
  // The trace must outlive it.
  explicit Attribution(const Trace& trace);

  // Indices of calls by thread and start.
  const std::vector<std::uint32_t>& order() const { return order_; }
  std::uint32_t OwnerOf(std::uint32_t call) const { return owners_[call]; }
  // The owner of the call that launched a kernel; kNoCall if there is none.
  std::uint32_t OwnerOf(const DeviceKernel& kernel) const;
  // The innermost call that launched it.
  std::uint32_t CallOf(const DeviceKernel& kernel) const;
  // Whether it calls no operator of its own.
  bool IsLeaf(std::uint32_t call) const { return !has_children_[call]; }
  // What an owner computes.
  const std::vector<Kernel>& KernelsOfCall(std::uint32_t call) const;

 private:
  const std::optional<std::vector<Kernel>>& KernelsOfSignature(std::uint32_t signature, bool linear);

  const Trace& trace_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> places_;   // of calls in order_
  std::vector<std::uint32_t> parents_;  // kNoCall: none
  std::vector<std::uint32_t> owners_;
  std::vector<bool> has_children_;
  std::vector<bool> linear_;                                    // within aten::linear
  std::vector<std::optional<std::vector<Kernel>>> kernels_[2];  // by linear, then signature
  std::vector<bool> asked_[2];
  std::unordered_map<std::int64_t, std::uint32_t> by_external_id_;
  std::unordered_map<std::uint32_t, std::pair<std::size_t, std::size_t>> threads_;  // ranges of order_
};

}  // namespace gpueta
