// Collectives through NCCL against what they should compute. Runs where there are two
// devices of one kind and NCCL.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "calibration/backends/cuda/collectives/plan.h"
#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/cuda/driver/device_buffer.h"
#include "calibration/backends/cuda/driver/nccl_communicators.h"
#include "calibration/backends/cuda/ops/operand_memory.h"
#include "calibration/backends/cuda/ops/testing_elements.h"
#include "calibration/backends/measure.h"

namespace gpueta {
namespace {

Kernel Of(const std::string& op, std::int64_t bytes) {
  return {.dtype = DType::kFp32, .work = Collective{.op = op, .backend = "nccl-tests", .bytes = bytes, .ranks = 2}};
}

class CollectivesDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto driver = OpenCudaDriver();
    if (!driver.ok()) GTEST_SKIP() << driver.status();
    driver_ = *std::move(driver);
    std::vector<DeviceProperties> all;
    for (int i = 0; i < driver_->DeviceCount(); ++i) all.push_back(driver_->PropertiesOf(i).value());
    const std::vector<int> ordinals = RankOrdinals(all, 0);
    if (ordinals.size() < 2) GTEST_SKIP() << "one device of its kind";
    auto library = OpenNccl();
    if (!library.ok()) GTEST_SKIP() << library.status();
    library_ = *std::move(library);
    for (const int ordinal : {ordinals[0], ordinals[1]}) {
      devices_.push_back(driver_->Open(ordinal).value());
      streams_.push_back(devices_.back()->CreateStream().value());
    }
  }

  // What each rank has afterwards, of buffers with elements of their own.
  std::vector<std::vector<std::byte>> Run(const Kernel& kernel, std::vector<std::vector<std::byte>>& given) {
    CudaDevice* devices[] = {devices_[0].get(), devices_[1].get()};
    auto ranks = library_->Connect(devices);
    EXPECT_TRUE(ranks.ok()) << ranks.status();
    const RankBytes bytes = BuffersOf(kernel);
    std::vector<DeviceBuffer> memory;
    std::vector<RankBuffers> buffers;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(devices_[rank]->Activate().ok());
      given.push_back(RandomElements(2 * bytes.from, DType::kFp32));
      given.back().erase(given.back().begin(), given.back().begin() + static_cast<std::ptrdiff_t>(rank * bytes.from));
      given.back().resize(bytes.from);
      memory.push_back(DeviceBuffer::Allocate(*devices_[rank], bytes.from).value());
      EXPECT_TRUE(devices_[rank]->CopyToDevice(memory.back().pointer(), given.back()).ok());
      buffers.push_back({.from = memory.back().pointer()});
      memory.push_back(DeviceBuffer::Allocate(*devices_[rank], bytes.to).value());
      buffers.back().to = memory.back().pointer();
    }
    const absl::Status status = (*ranks)->Enqueue(CallsOf(kernel, buffers), kernel.dtype, streams_);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::vector<std::byte>> results;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(devices_[rank]->Activate().ok());
      EXPECT_TRUE(devices_[rank]->Synchronize(streams_[rank]).ok());
      results.emplace_back(bytes.to);
      EXPECT_TRUE(devices_[rank]->CopyToHost(results.back(), buffers[rank].to).ok());
    }
    return results;
  }

  std::unique_ptr<CudaDriver> driver_;
  std::vector<std::unique_ptr<CudaDevice>> devices_;
  std::unique_ptr<CollectiveLibrary> library_;
  std::vector<StreamHandle> streams_;
};

TEST_F(CollectivesDeviceTest, RanksGetWhatTheyShould) {
  constexpr std::size_t kElements = 1024;
  const auto at = [](const std::vector<std::byte>& data, std::size_t i) {
    return ValueOf(data.data() + 4 * i, DType::kFp32);
  };
  for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "send_recv"}) {
    std::vector<std::vector<std::byte>> given;
    const auto got = Run(Of(op, 4 * kElements), given);
    constexpr std::size_t kHalf = kElements / 2;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::string name = op;
      for (std::size_t i = 0; i < got[rank].size() / 4; ++i) {
        double expected = 0;
        if (name == "all_reduce") expected = at(given[0], i) + at(given[1], i);
        if (name == "all_gather") expected = at(given[i / kHalf], i % kHalf);
        if (name == "reduce_scatter") expected = at(given[0], rank * kHalf + i) + at(given[1], rank * kHalf + i);
        if (name == "alltoall") expected = at(given[i / kHalf], rank * kHalf + i % kHalf);
        if (name == "send_recv") expected = at(given[1 - rank], i);
        ASSERT_NEAR(at(got[rank], i), expected, ToleranceOf(DType::kFp32))
            << op << " rank " << rank << " element " << i;
      }
    }
  }
}

TEST_F(CollectivesDeviceTest, TheBackendTimesThemAndMoreBytesTakeLonger) {
  devices_.clear();
  const auto backend = OpenCudaBackend(0, {.collectives = true});
  ASSERT_TRUE(backend.ok()) << backend.status();
  for (const char* op : {"all_reduce", "alltoall", "send_recv"}) {
    const auto small = MeasureKernel(**backend, Of(op, 4 << 10), (*backend)->timing_policy(), SteadyMicroseconds);
    const auto large = MeasureKernel(**backend, Of(op, 64 << 20), (*backend)->timing_policy(), SteadyMicroseconds);
    ASSERT_TRUE(small.ok() && large.ok()) << small.status() << large.status();
    EXPECT_GT(large->measurement.latency_us, 2 * small->measurement.latency_us) << op;
  }
}

}  // namespace
}  // namespace gpueta
