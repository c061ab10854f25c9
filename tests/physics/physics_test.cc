// What must hold of every shipped profile, whatever was measured: latencies obey
// the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "core/device/machine_of.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"
#include "core/profile/profile.h"
#include "core/sampling/sampling.h"

namespace gpueta {
namespace {

constexpr std::size_t kShapes = 400;

struct Device {
  std::shared_ptr<const CompiledProfile> profile;
  std::unique_ptr<Predictor> predictor;
};

std::vector<Device> Devices() {
  std::vector<Device> devices;
  std::vector<LoadedProfile> all = LoadProfileDirectory(DefaultProfileDirectory()).value();
  for (LoadedProfile& loaded : all) {
    if (loaded.profile.transfer) continue;
    Device device{std::make_shared<const CompiledProfile>(std::move(loaded)), nullptr};
    const DeviceSpec& spec = device.profile->loaded().profile.spec;
    device.predictor = std::make_unique<Predictor>(spec, device.profile, nullptr);
    devices.push_back(std::move(device));
  }
  return devices;
}

// Calls check(device, table, kernels within the hull of the table's dims).
template <class Check>
void ForEachTable(Op op, const Check& check) {
  for (const Device& device : Devices()) {
    for (const Table& table : device.profile->loaded().profile.tables) {
      if (table.key.op != op || table.rows < 500) continue;
      std::vector<Kernel> inside;
      std::vector<Kernel> shapes = GenerateShapes(op, table.key.dtype, 8 * kShapes, 1).value();
      for (Kernel& kernel : shapes) {
        if (auto* attention = std::get_if<Attention>(&kernel.work)) {
          if (attention->phase != table.key.phase) continue;
          attention->kv_dtype = table.key.kv_dtype;
        }
        bool in_hull = true;
        for (std::size_t d = 0; d < table.dim_min.size(); ++d) {
          const auto value = static_cast<double>(GetDim(kernel, static_cast<int>(d)));
          in_hull = in_hull && value >= table.dim_min[d] && value <= table.dim_max[d];
        }
        if (in_hull && inside.size() < kShapes) inside.push_back(kernel);
      }
      SCOPED_TRACE(device.profile->loaded().profile.device + ", " + Describe(table.key));
      check(device, table, inside);
    }
  }
}

double Us(const Device& device, const Table& table, const Kernel& kernel) {
  return device.predictor->EstimateKernel(kernel, {.timing = table.key.timing})->latency_us.p50;
}

TEST(PhysicsTest, ProductsAreNeverFasterThanTheDevice) {
  // Clocks and bandwidths of real cards lie a little above the data sheet's.
  constexpr double kAboveDataSheet = 1.1;
  ForEachTable(Op::kGemm, [](const Device& device, const Table& table, const std::vector<Kernel>& kernels) {
    const Machine<double> machine = MachineOf(device.predictor->spec(), table.key);
    for (const Kernel& kernel : kernels) {
      const Counts counts = CountsOf(kernel);
      const double compute = static_cast<double>(counts.flops.value()) / machine.peak;
      // What fits into the cache may already lie there.
      const double memory =
          std::max(static_cast<double>(counts.bytes().value()) - machine.l2, 0.0) / machine.bandwidth;
      EXPECT_GT(Us(device, table, kernel) * kAboveDataSheet, std::max(compute, memory)) << Describe(kernel);
    }
  });
}

// More work never takes clearly less time: libraries change kernels, so that a
// larger shape may be a little faster.
void ExpectMonotone(Op op, std::vector<int> dims, double tolerance) {
  ForEachTable(op, [&](const Device& device, const Table& table, const std::vector<Kernel>& kernels) {
    int checked = 0, fell = 0;
    for (const Kernel& kernel : kernels) {
      const double us = Us(device, table, kernel);
      for (int dim : dims) {
        Kernel larger = kernel;
        if (2 * GetDim(kernel, dim) > table.dim_max[static_cast<std::size_t>(dim)]) continue;
        SetDim(larger, dim, 2 * GetDim(kernel, dim));
        if (!Validate(larger).ok()) continue;
        ++checked;
        const double ratio = Us(device, table, larger) / us;
        if (ratio < 1 - tolerance) {
          ++fell;
          ADD_FAILURE() << Describe(kernel) << ": twice dim " << dim << " takes " << ratio << " of the time";
        }
      }
    }
    printf("%d checked %d fell\n", checked, fell);
  });
}

TEST(PhysicsTest, LargerProductsTakeLonger) { ExpectMonotone(Op::kGemm, {1, 2, 3}, 0.1); }
TEST(PhysicsTest, LargerAttentionTakesLonger) { ExpectMonotone(Op::kAttention, {0}, 0.1); }
TEST(PhysicsTest, MoreTokensTakeLonger) { ExpectMonotone(Op::kMoe, {0}, 0.1); }

TEST(PhysicsTest, NeighboursTakeAboutAsLong) {
  ForEachTable(Op::kGemm, [](const Device& device, const Table& table, const std::vector<Kernel>& kernels) {
    for (const Kernel& kernel : kernels) {
      const auto m = GetDim(kernel, 1);
      if (m < 512) continue;
      Kernel next = kernel;
      SetDim(next, 1, m + m / 100);
      EXPECT_NEAR(Us(device, table, next) / Us(device, table, kernel), 1, 0.25) << Describe(kernel);
    }
  });
}

TEST(PhysicsTest, AHundredTimesLargerStaysNearTheRoofline) {
  ForEachTable(Op::kGemm, [](const Device& device, const Table& table, const std::vector<Kernel>& kernels) {
    if (kernels.empty()) return;
    Kernel huge = kernels.front();
    const double batch = static_cast<double>(GetDim(huge, 0));
    for (int dim : {1, 2, 3}) SetDim(huge, dim, static_cast<std::int64_t>(table.dim_max[static_cast<std::size_t>(dim)]));
    SetDim(huge, 1, 100 * GetDim(huge, 1));
    SetDim(huge, 0, 1);
    (void)batch;
    const double roofline =
        device.predictor->EstimateKernel(huge, {.timing = table.key.timing, .estimator = "roofline"})->latency_us.p50;
    const double ratio = Us(device, table, huge) / roofline;
    printf("%s %s ratio %.3f\n", device.predictor->spec().slug.c_str(), Describe(table.key).c_str(), ratio);
    EXPECT_GT(ratio, 0.9);
    EXPECT_LT(ratio, 2);
  });
}

}  // namespace
}  // namespace gpueta
