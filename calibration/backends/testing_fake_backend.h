// A device made up by a test, on a clock that its runs advance.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibration/backends/backend.h"
#include "core/base/errors.h"

namespace gpueta::testing_util {

// Runs vector kernels only: the latency is the number of rows, changed by a
// function of the run's number. Its clock advances with the runs.
class FakeBackend : public Backend {
 public:
  using Change = std::function<Sample(Sample, std::size_t run)>;
  explicit FakeBackend(Change change) : change_(std::move(change)) {}

  std::string slug() const override { return "fake"; }
  std::map<std::string, std::string> labels() const override { return {}; }
  absl::StatusOr<DeviceSpec> Describe() override { return DeviceSpec{.slug = "fake"}; }
  absl::Status Supports(const Kernel& kernel) const override {
    return kernel.op() == Op::kVector ? absl::OkStatus() : absl::UnimplementedError("only vector kernels");
  }
  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Kernel& kernel) override {
    GPUETA_RETURN_IF_ERROR(Supports(kernel));
    return std::make_unique<FakeKernel>(*this, kernel);
  }
  absl::StatusOr<std::unique_ptr<PreparedGraph>> PrepareGraph(std::span<const Kernel> kernels) override {
    for (const Kernel& kernel : kernels) GPUETA_RETURN_IF_ERROR(Supports(kernel));
    return std::make_unique<FakeGraph>(*this, kernels);
  }
  MicrosecondClock Clock() {
    return [this] { return now_us_; };
  }
  std::size_t runs() const { return runs_; }

 private:
  Sample Run(const Kernel& kernel) {
    const Sample sample = change_({.latency_us = static_cast<double>(std::get<Vector>(kernel.work).rows)}, runs_);
    now_us_ += sample.latency_us;
    return sample;
  }

  class FakeKernel : public PreparedKernel {
   public:
    FakeKernel(FakeBackend& backend, Kernel kernel) : backend_(backend), kernel_(std::move(kernel)) {}
    absl::StatusOr<Sample> TakeSample(std::size_t) override {
      const Sample sample = backend_.Run(kernel_);
      ++backend_.runs_;
      return sample;
    }
    Timing timing() const override { return Timing::kGraph; }
    std::string source() const override { return "fake-library"; }

   private:
    FakeBackend& backend_;
    Kernel kernel_;
  };

  class FakeGraph : public PreparedGraph {
   public:
    FakeGraph(FakeBackend& backend, std::span<const Kernel> kernels)
        : backend_(backend), kernels_(kernels.begin(), kernels.end()) {}
    absl::StatusOr<GraphSample> Run() override {
      GraphSample sample;
      for (const Kernel& kernel : kernels_) {
        sample.kernels.push_back(backend_.Run(kernel));
        sample.condition = std::max(sample.condition, sample.kernels.back().condition);
      }
      ++backend_.runs_;
      return sample;
    }
    Timing timing() const override { return Timing::kGraph; }

   private:
    FakeBackend& backend_;
    std::vector<Kernel> kernels_;
  };

  Change change_;
  double now_us_ = 0;
  std::size_t runs_ = 0;
};

inline Kernel VectorOfRows(std::int64_t rows) { return {.work = Vector{.op = "relu", .rows = rows, .cols = 1}}; }

}  // namespace gpueta::testing_util
