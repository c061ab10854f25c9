// Which table answers a question.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/device/spec.h"
#include "core/ops/table_key.h"
#include "core/predict/compiled_table.h"

namespace gpueta {

// A table, and what stands between it and the question.
struct Route {
  const CompiledTable* table = nullptr;  // nullptr: the roofline
  bool own = false;                      // the device's, not the transfer profile's
  bool exact = false;                    // own table, this very key
  bool repeats = false;                  // own table, this key but for the timing: its measured kernels are asked, too
  Timing timing = Timing::kKernel;       // of the answer
  float widening = 1;                    // of the interval in ln(latency)
  // A table of 16-bit kernels that answers for kernels of fewer bits. What such
  // kernels reach of what their widths and rates promise depends on their code.
  enum class Narrowing : std::uint8_t {
    kNone,
    kWeights,   // weights alone
    kOperands,  // both operands: the activations have to be rounded first
  };
  Narrowing narrowing = Narrowing::kNone;

  // The same table for answers of another timing than it was searched for.
  Route For(Timing answer) const;
};

// The routes of one device.
class Routes {
 public:
  // Either may be null; both must outlive this. `of_slice`: `own` is of the whole
  // device that this one is a slice of. Its tables stand in for the slice's own,
  // as evidence from outside. `spec`: what the device has units for.
  Routes(const CompiledProfile* own, const CompiledProfile* transfer, const DeviceSpec& spec, bool of_slice = false);

  // `label_hash` is LabelHash(kernel). No table means the roofline.
  Route Find(const Kernel& kernel, std::uint64_t label_hash, std::optional<Timing> timing) const;

 private:
  template <class Unlike>
  Route Search(const TableKey& asked, bool any_timing, Unlike unlike) const;

  const CompiledProfile* own_;
  const CompiledProfile* transfer_;
  // By type: 8-bit operands that run no faster than 16-bit ones are widened on the
  // way in, so that only weights are narrow.
  std::array<bool, kAllDTypes.size()> widened_{};
  bool of_slice_;
  // Routes by op, phase, dtype and timing, for caches of keys and values in
  // the dtype itself: a search through the tables takes as long as evaluating.
  std::vector<Route> found_;
};

}  // namespace gpueta
