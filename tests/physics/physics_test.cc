// What must hold of every shipped profile, whatever was measured: latencies obey
// the device.
#include <fmt/format.h>
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

bool IsMeasured(const Device& device, const Table& table, const Kernel& kernel) {
  return device.predictor->EstimateKernel(kernel, {.timing = table.key.timing})->provenance == Provenance::kMeasured;
}

TEST(PhysicsTest, ProductsAreNeverFasterThanTheDevice) {
  constexpr double kRounding = 1e-5;
  ForEachTable(Op::kGemm, [&](const Device& device, const Table& table, const std::vector<Kernel>& kernels) {
    const Machine<double> machine = MachineOf(device.predictor->spec(), table.key);
    for (const Kernel& kernel : kernels) {
      const Counts counts = CountsOf(kernel);
      const double compute = static_cast<double>(counts.flops.value()) / machine.peak;
      // What fits into the cache may already lie there.
      const double memory = std::max(static_cast<double>(counts.bytes().value()) - machine.l2, 0.0) / machine.bandwidth;
      EXPECT_GE(Us(device, table, kernel) * kAboveDataSheet * (1 + kRounding), std::max(compute, memory))
          << Describe(kernel);
    }
  });
}

// Counts how many of some answers break a rule.
struct Tally {
  int checked = 0;
  int broken = 0;
  std::string example;

  void Add(bool ok, const std::string& what) {
    ++checked;
    if (ok) return;
    ++broken;
    example = what;
  }
  void ExpectAtMost(double share) const {
    EXPECT_GT(checked, 20);
    EXPECT_LE(broken, share * checked) << "of " << checked << ", for example " << example;
  }
};

// Libraries change kernels, so that now and then a larger shape is faster, and
// measured rows show it. It is rare, and hardly ever by half.
void ExpectMonotone(Op op, const std::vector<int>& dims) {
  constexpr double kWaveStep = 0.1, kRare = 0.1;
  constexpr double kMuch = 0.5, kHardlyEver = 0.02;
  ForEachTable(op, [&](const Device& device, const Table& table, const std::vector<Kernel>& kernels) {
    Tally a_little, much;
    for (const Kernel& kernel : kernels) {
      if (IsMeasured(device, table, kernel)) continue;  // as it was, outlier or not
      const double us = Us(device, table, kernel);
      for (int dim : dims) {
        Kernel larger = kernel;
        SetDim(larger, dim, 2 * GetDim(kernel, dim));
        if (static_cast<double>(GetDim(larger, dim)) > table.dim_max[static_cast<std::size_t>(dim)]) continue;
        const double ratio = Us(device, table, larger) / us;
        const std::string what = fmt::format("{}: twice {} takes {:.2f} of the time", Describe(kernel),
                                             DimNamesOf(op).names[static_cast<std::size_t>(dim)], ratio);
        a_little.Add(ratio >= 1 - kWaveStep, what);
        much.Add(ratio >= 1 - kMuch, what);
      }
    }
    a_little.ExpectAtMost(kRare);
    much.ExpectAtMost(kHardlyEver);
  });
}

TEST(PhysicsTest, LargerProductsTakeLonger) { ExpectMonotone(Op::kGemm, {1, 2, 3}); }
TEST(PhysicsTest, LargerBatchesOfAttentionTakeLonger) { ExpectMonotone(Op::kAttention, {0}); }
TEST(PhysicsTest, MoreTokensTakeLonger) { ExpectMonotone(Op::kMoe, {0}); }

// Where sweeps were measured in powers of two and multiples of 8, what lies
// between must not jump.
void ExpectContinuous(Op op, int dim, double most_ln, double rare) {
  constexpr std::int64_t kSmallest = 8;  // a step of one is large below
  ForEachTable(op, [&](const Device& device, const Table& table, const std::vector<Kernel>& kernels) {
    Tally steps;
    for (const Kernel& kernel : kernels) {
      const std::int64_t here = GetDim(kernel, dim);
      Kernel next = kernel;
      SetDim(next, dim, here + std::max<std::int64_t>(here / 100, 1));
      if (here < kSmallest || static_cast<double>(GetDim(next, dim)) > table.dim_max[static_cast<std::size_t>(dim)])
        continue;
      if (IsMeasured(device, table, kernel) || IsMeasured(device, table, next)) continue;
      const double ratio = Us(device, table, next) / Us(device, table, kernel);
      steps.Add(std::abs(std::log(ratio)) < most_ln,
                fmt::format("{}: with {} of {} it takes {:.2f} of the time", Describe(kernel), GetDim(next, dim),
                            DimNamesOf(op).names[static_cast<std::size_t>(dim)], ratio));
    }
    steps.ExpectAtMost(rare);
  });
}

// Steps are one more row of tiles, a wave that begins, or another kernel.
TEST(PhysicsTest, OnePerCentMoreRowsOfAProductAreNoJump) { ExpectContinuous(Op::kGemm, 1, 0.25, 0.03); }
TEST(PhysicsTest, OneMoreSequenceIsNoJump) { ExpectContinuous(Op::kAttention, 0, 0.3, 0.03); }
TEST(PhysicsTest, OnePerCentMoreTokensAreNoJump) { ExpectContinuous(Op::kMoe, 0, 0.25, 0.03); }

TEST(PhysicsTest, AHundredTimesLargerStaysNearTheRoofline) {
  // Sustained clocks of a passively cooled card under load are half of those
  // that its data sheet's peak is for.
  constexpr double kSustained = 2.5;
  ForEachTable(Op::kGemm, [&](const Device& device, const Table& table, const std::vector<Kernel>& kernels) {
    ASSERT_FALSE(kernels.empty());
    Kernel huge = kernels.front();
    SetDim(huge, 0, 1);
    for (int dim : {1, 2, 3})
      SetDim(huge, dim, static_cast<std::int64_t>(table.dim_max[static_cast<std::size_t>(dim)]));
    SetDim(huge, 1, 100 * GetDim(huge, 1));
    const double roofline =
        device.predictor->EstimateKernel(huge, {.timing = table.key.timing, .estimator = "roofline"})->latency_us.p50;
    const double ratio = Us(device, table, huge) / roofline;
    EXPECT_GT(ratio, 0.9);
    EXPECT_LT(ratio, kSustained);
  });
}

}  // namespace
}  // namespace gpueta
