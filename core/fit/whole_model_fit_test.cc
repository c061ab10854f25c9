#include "core/fit/whole_model_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/device/catalogue.h"

namespace gpueta {
namespace {

DeviceSpec SpecOf(const std::string& slug) { return Catalogue::BuiltIn().Get(slug).value(); }

Kernel Of(Work work) { return {.name = "", .dtype = DType::kFp32, .work = std::move(work), .launch = {}}; }

// Layers of a width over a batch of images: convolution, norm, activation.
ModelTime Model(const std::string& device, std::int64_t width, int layers, std::int64_t batch) {
  std::vector<Kernel> kernels;
  for (int layer = 0; layer < layers; ++layer) {
    const std::int64_t size = layer % 2 == 0 ? 3 : 1;
    kernels.push_back(Of(Conv2d{.batch = batch,
                                .in_channels = width,
                                .height = 28,
                                .width = 28,
                                .out_channels = width,
                                .kernel_h = size,
                                .kernel_w = size,
                                .pad_h = size / 2,
                                .pad_w = size / 2}));
    kernels.push_back(Of(Vector{.op = "batchnorm", .rows = batch * width, .cols = 784}));
    kernels.push_back(Of(Vector{.op = "relu", .rows = batch * width, .cols = 784}));
  }
  return {.device = device,
          .run = "",
          .parts = PartsOf(kernels),
          .input_bytes = static_cast<double>(batch) * 602112,
          .latency_us = 1};
}

std::vector<double> Starts() {
  std::vector<double> theta;
  for (const ParamSpec& param : WholeModelParams()) theta.push_back(param.start);
  return theta;
}

// Times of fifteen models on a machine that departs so, each off by some noise.
std::vector<ModelTime> TimesOn(const std::string& device, const std::vector<double>& theta,
                               const WholeModel::Departure& departure, double noise, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> error(0, noise);
  std::vector<ModelTime> times;
  for (const std::int64_t width : {32, 64, 128, 256, 512}) {
    for (const int layers : {4, 16, 60}) {
      times.push_back(Model(device, width, layers, 12));
      times.back().latency_us =
          std::exp(WholeModelLn(times.back(), WithInferredCells(SpecOf(device)), theta, departure) + error(random));
    }
  }
  return times;
}

constexpr WholeModel::Departure kUsual = {0, 0, 2.2, -8.3};

double MeanError(const WholeModel& learnt, const std::vector<ModelTime>& times) {
  double sum = 0;
  for (const ModelTime& time : times) {
    const double ln = WholeModelLn(time, WithInferredCells(SpecOf(time.device)), learnt.theta, learnt.departure);
    sum += std::abs(std::expm1(ln - std::log(time.latency_us)));
  }
  return sum / static_cast<double>(times.size());
}

TEST(PartsOfTest, EqualKernelsAreOnePart) {
  const Kernel relu = Of(Vector{.op = "relu", .rows = 8, .cols = 8});
  const auto parts = PartsOf(std::vector<Kernel>{relu, Of(Vector{.op = "pool", .rows = 8, .cols = 8}), relu});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].count, 2);
}

TEST(FitWholeModelsTest, FindsWhatDevicesHaveInCommonAndHowEachDeparts) {
  std::vector<double> theta = Starts();
  theta[0] += 0.3;  // 3×3 convolutions run faster than was thought
  std::vector<ModelTime> times;
  std::map<std::string, DeviceSpec> specs;
  const std::map<std::string, WholeModel::Departure> machines = {
      {"gtx-1080-ti", {0.1, 0, 2.6, -8.0}}, {"titan-xp", {-0.1, 0.1, 1.9, -8.6}}, {"titan-v", {0, -0.1, 2.2, -8.3}}};
  std::uint64_t seed = 0;
  for (const auto& [device, departure] : machines) {
    const auto some = TimesOn(device, theta, departure, 0.03, ++seed);
    times.insert(times.end(), some.begin(), some.end());
    specs[device] = SpecOf(device);
  }
  const WholeModel learnt = FitWholeModels(times, specs);
  EXPECT_LT(learnt.noise_ln, 0.1);
  ASSERT_EQ(learnt.machines.size(), machines.size());
  for (const WholeModel::Machine& machine : learnt.machines) {
    WholeModel of_machine = learnt;
    of_machine.departure = machine.departure;
    EXPECT_LT(MeanError(of_machine, TimesOn(machine.device, theta, machines.at(machine.device), 0, 0)), 0.05)
        << machine.device;
    EXPECT_NEAR(machine.departure[2], machines.at(machine.device)[2], 0.25) << machine.device;
  }
}

TEST(UpdateWholeModelTest, EachTimeOfAModelSharpensTheMachine) {
  const std::string device = "rtx-2080-ti";
  const WholeModel::Departure truth = {0.25, 0.15, 2.8, -7.8};
  WholeModel nothing;
  nothing.theta = Starts();
  const WholeModel prior = WholeModelFor(nothing, {}, SpecOf(device));
  EXPECT_EQ(prior.departure, kUsual);
  const std::vector<ModelTime> asked = TimesOn(device, prior.theta, truth, 0, 0);
  double before = MeanError(prior, asked);
  for (const std::size_t shots : {1, 3, 10}) {
    double error = 0;
    constexpr int kDraws = 8;
    for (int draw = 0; draw < kDraws; ++draw) {
      std::vector<ModelTime> times = TimesOn(device, prior.theta, truth, 0.03, 100 + draw);
      std::mt19937_64 random(draw);
      std::shuffle(times.begin(), times.end(), random);
      times.resize(shots);
      error += MeanError(UpdateWholeModel(prior, times, SpecOf(device)), asked) / kDraws;
    }
    EXPECT_LT(error, before) << shots;
    before = error;
  }
  EXPECT_LT(before, 0.05);
}

TEST(UpdateWholeModelTest, SaysHowSureItIs) {
  const std::string device = "rtx-2080-ti";
  WholeModel nothing;
  nothing.theta = Starts();
  const WholeModel prior = WholeModelFor(nothing, {}, SpecOf(device));
  // Hundreds of tiny kernels: all of it is the host's.
  std::vector<ModelTime> host_bound = {Model(device, 8, 200, 1)};
  host_bound[0].latency_us =
      std::exp(WholeModelLn(host_bound[0], WithInferredCells(SpecOf(device)), prior.theta, kUsual));
  const WholeModel learnt = UpdateWholeModel(prior, host_bound, SpecOf(device));
  EXPECT_GT(learnt.covariance[0][0], 0.95 * prior.covariance[0][0]);
  EXPECT_LT(learnt.covariance[2][2], 0.3 * prior.covariance[2][2]);
}

TEST(UpdateWholeModelTest, APoolThatClaimsToErrByNothingIsNotBelieved) {
  const std::string device = "rtx-2080-ti";
  WholeModel nothing;
  nothing.theta = Starts();
  nothing.noise_ln = 0;
  const std::vector<ModelTime> times = TimesOn(device, nothing.theta, {0.25, 0.15, 2.8, -7.8}, 0.03, 3);
  const WholeModel learnt = UpdateWholeModel(WholeModelFor(nothing, {}, SpecOf(device)), times, SpecOf(device));
  for (std::size_t v = 0; v < WholeModel::kDepartures; ++v) {
    EXPECT_TRUE(std::isfinite(learnt.departure[v])) << v;
    EXPECT_GT(learnt.covariance[v][v], 0) << v;
  }
  EXPECT_LT(MeanError(learnt, times), 0.1);
}

TEST(WholeModelForTest, TakesFromRelativesWhatTheDeviceIsLikeAndFromAllWhatHostsAre) {
  WholeModel pooled;
  pooled.theta = Starts();
  pooled.machines = {{"titan-xp", "", {0.3, 0.1, 2, -8}, 30}, {"a100-sxm4-40gb", "", {-0.3, 0.1, 3, -9}, 30}};
  const std::vector<DeviceSpec> pool = {SpecOf("titan-xp"), SpecOf("a100-sxm4-40gb")};
  const WholeModel pascal = WholeModelFor(pooled, pool, SpecOf("gtx-1080"));
  EXPECT_GT(pascal.departure[0], 0.1);
  EXPECT_NEAR(pascal.departure[2], 2.5, 1e-9);
  EXPECT_LT(pascal.covariance[0][0], 0.25 * 0.25);
  const std::vector<std::string> without = {"titan-xp"};
  EXPECT_LT(WholeModelFor(pooled, pool, SpecOf("gtx-1080"), without).departure[0], 0.01);
}

}  // namespace
}  // namespace gpueta
