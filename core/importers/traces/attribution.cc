#include "core/importers/traces/attribution.h"

#include <algorithm>
#include <numeric>

#include "core/importers/traces/aten_ops.h"

namespace gpueta {
namespace {

// Operators deeper than this count as called from here: no framework nests so,
// and walks up the calls stay short.
constexpr std::size_t kMaxNesting = 256;

double EndOf(const OpCall& call) { return call.start_us + call.duration_us; }

}  // namespace

Attribution::Attribution(const Trace& trace) : trace_(trace) {
  const std::vector<OpCall>& calls = trace.calls;
  order_.resize(calls.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (calls[a].thread != calls[b].thread) return calls[a].thread < calls[b].thread;
    if (calls[a].start_us != calls[b].start_us) return calls[a].start_us < calls[b].start_us;
    return calls[a].duration_us > calls[b].duration_us;
  });
  places_.resize(calls.size());
  parents_.assign(calls.size(), kNoCall);
  owners_.assign(calls.size(), kNoCall);
  has_children_.assign(calls.size(), false);
  linear_.assign(calls.size(), false);
  for (int linear = 0; linear < 2; ++linear) {
    kernels_[linear].resize(trace.signatures.size());
    asked_[linear].assign(trace.signatures.size(), false);
  }
  std::vector<std::uint32_t> open;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::uint32_t index = order_[i];
    const OpCall& call = calls[index];
    places_[index] = static_cast<std::uint32_t>(i);
    const auto thread = threads_.try_emplace(call.thread, i, i).first;
    thread->second.second = i + 1;
    while (!open.empty() && (calls[open.back()].thread != call.thread || EndOf(calls[open.back()]) <= call.start_us)) {
      open.pop_back();
    }
    if (!open.empty()) {
      const std::uint32_t parent = open.back();
      parents_[index] = parent;
      owners_[index] = owners_[parent];
      has_children_[parent] = true;
      linear_[index] = linear_[parent] || trace.signatures[calls[parent].signature].name == "aten::linear";
    }
    if (owners_[index] == kNoCall && KernelsOfSignature(call.signature, linear_[index]).has_value()) {
      owners_[index] = index;
    }
    if (call.external_id != 0) by_external_id_.try_emplace(call.external_id, index);
    if (open.size() < kMaxNesting) open.push_back(index);
  }
}

const std::optional<std::vector<Kernel>>& Attribution::KernelsOfSignature(std::uint32_t signature, bool linear) {
  const int which = linear ? 1 : 0;
  if (!asked_[which][signature]) {
    asked_[which][signature] = true;
    kernels_[which][signature] = KernelsOf(trace_.signatures[signature], linear);
  }
  return kernels_[which][signature];
}

const std::vector<Kernel>& Attribution::KernelsOfCall(std::uint32_t call) const {
  return *kernels_[linear_[call] ? 1 : 0][trace_.calls[call].signature];
}

std::uint32_t Attribution::CallOf(const DeviceKernel& kernel) const {
  if (const auto found = by_external_id_.find(kernel.external_id);
      kernel.external_id != 0 && found != by_external_id_.end()) {
    return found->second;
  }
  const auto thread = threads_.find(kernel.launch_thread);
  if (kernel.launch_thread == kNoThread || thread == threads_.end()) return kNoCall;
  const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(thread->second.first);
  const auto end = order_.begin() + static_cast<std::ptrdiff_t>(thread->second.second);
  const auto after = std::upper_bound(begin, end, kernel.launch_us, [this](double time, std::uint32_t call) {
    return time < trace_.calls[call].start_us;
  });
  if (after == begin) return kNoCall;
  std::uint32_t call = *(after - 1);
  while (call != kNoCall && EndOf(trace_.calls[call]) < kernel.launch_us) call = parents_[call];
  return call;
}

std::uint32_t Attribution::OwnerOf(const DeviceKernel& kernel) const {
  const std::uint32_t call = CallOf(kernel);
  return call == kNoCall ? kNoCall : owners_[call];
}

}  // namespace gpueta
