#include "calibration/backends/replay/replay_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "calibration/backends/measure.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using testing::HasSubstr;

constexpr const char* kHeader =
    "device,source,timing,dtype,layer,batch,m,n,k,kernel,grid_x,grid_y,grid_z,block_x,kernels,latency_us\n";

absl::StatusOr<std::unique_ptr<Backend>> OpenReplayOf(const std::string& rows) {
  const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / (name + ".csv");
  std::ofstream(path) << kHeader << rows;
  return OpenReplayBackend(path.string());
}

Kernel Product(std::int64_t m, DType dtype = DType::kBf16) {
  return {.dtype = dtype, .work = Gemm{.layer = Gemm::Layer::kLinear, .m = m, .n = 64, .k = 32}};
}

constexpr const char* kRows =
    "h100-sxm,lab,graph,bf16,linear,1,1,64,32,,,,,,,3.5\n"
    "h100-sxm,lab,graph,bf16,linear,1,2,64,32,,,,,,,4.5\n"
    "h100-sxm,lab,graph,bf16,linear,1,2,64,32,,,,,,,4.75\n"
    "h100-sxm,lab,graph,bf16,linear,1,2,64,32,,,,,,,9\n";

TEST(ReplayTest, AnswersWithTheRowsLatencyTimingAndSource) {
  const auto backend = OpenReplayOf(kRows);
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->slug(), "h100-sxm");
  const auto measured = MeasureKernel(**backend, Product(1), {}, SteadyMicroseconds);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->measurement.latency_us, 3.5);
  EXPECT_EQ(measured->measurement.timing, Timing::kGraph);
  EXPECT_EQ(measured->measurement.source, "lab");
  EXPECT_FALSE(measured->timing.disturbed);
}

TEST(ReplayTest, TakesTheMedianOfRepeatedRows) {
  const auto backend = OpenReplayOf(kRows);
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ(MeasureKernel(**backend, Product(2), {}, SteadyMicroseconds)->measurement.latency_us, 4.75);
}

TEST(ReplayTest, SumsAGraph) {
  const auto backend = OpenReplayOf(kRows);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const std::vector<Kernel> model = {Product(1), Product(2), Product(1)};
  const auto measured = MeasureGraph(**backend, model, {}, SteadyMicroseconds);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->total.latency_us, 3.5 + 4.75 + 3.5);
  EXPECT_EQ(measured->timing, Timing::kGraph);
}

TEST(ReplayTest, DescribesDevicesOfTheCatalogue) {
  const auto backend = OpenReplayOf(kRows);
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_GT((*backend)->Describe()->sm_count, 0);
}

TEST(ReplayTest, DescribesAnUnknownDeviceByItsSlug) {
  const auto backend = OpenReplayOf("somewhere-2t,lab,eager,fp32,linear,1,1,64,32,,,,,,,3.5\n");
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ(*(*backend)->Describe(), DeviceSpec{.slug = "somewhere-2t"});
}

TEST(ReplayTest, DoesNotFindWhatWasNotMeasured) {
  const auto backend = OpenReplayOf(kRows);
  ASSERT_TRUE(backend.ok()) << backend.status();
  for (const Kernel& kernel : {Product(3), Product(1, DType::kFp16)}) {
    const absl::Status status = (*backend)->Prepare(kernel).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(MessageOf(status), HasSubstr(Describe(kernel)));
    EXPECT_EQ((*backend)->Supports(kernel), status);
  }
}

TEST(ReplayTest, RefusesToChooseBetweenTimings) {
  const auto backend = OpenReplayOf(
      "h100-sxm,lab,graph,bf16,linear,1,1,64,32,,,,,,,3.5\n"
      "h100-sxm,lab,eager,bf16,linear,1,1,64,32,,,,,,,9.5\n");
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->Prepare(Product(1)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ReplayTest, RejectsFilesThatAreNotOfOneDevice) {
  const absl::Status two =
      OpenReplayOf(std::string(kRows) + "l40s,lab,graph,bf16,linear,1,4,64,32,,,,,,,3.5\n").status();
  EXPECT_EQ(two.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(two), HasSubstr("line 6"));
  EXPECT_EQ(OpenReplayOf("").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpueta
