#include "server/handlers/rank.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "server/testing/test_profile.h"

namespace gpueta {
namespace {

using testing::HasSubstr;

class RankTest : public testing::Test {
 protected:
  RankTest() {
    auto loaded = ParseProfile(testing_util::MakeTestProfileFile("h100-sxm"));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    devices_ = ServingSnapshot::Build({{.loaded = *std::move(loaded), .node = "", .version = 3}}).value();
    store_ = OpenStore("sqlite::memory:").value();
    models_ = ModelRegistry::Open(*store_, limits_).value();
  }

  static v1::RankDevicesRequest Request(const std::string& text) {
    v1::RankDevicesRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
    return request;
  }

  absl::StatusOr<v1::RankDevicesResponse> Ask(const v1::RankDevicesRequest& request) {
    v1::RankDevicesResponse response;
    PredictionCounts counts;
    const std::function<bool()> cancelled = [] { return false; };
    const PredictContext context{*devices_, *models_->Table(), limits_, feedback_, served_, cancelled};
    const absl::Status status = RankDevices(context, request, response, counts);
    if (!status.ok()) return status;
    return response;
  }

  // The latency of a device alone.
  v1::Quantiles Predicted(const v1::RankDevicesRequest& asked, const std::string& slug) {
    v1::PredictRequest request;
    *request.mutable_kernel() = asked.kernel();
    request.add_devices()->set_slug(slug);
    v1::PredictResponse response;
    PredictionCounts counts;
    const std::function<bool()> cancelled = [] { return false; };
    EXPECT_TRUE(
        Predict({*devices_, *models_->Table(), limits_, feedback_, served_, cancelled}, request, response, counts)
            .ok());
    return response.devices(0).kernel().latency_us();
  }

  Limits limits_;
  const PredictionIds ids_{SipHashKey{1, 2}};
  const CorrectionTable corrections_;
  AskedShapes shapes_;
  RecentKernels kernels_;
  ServedModels served_{std::size_t{16} << 20};
  const PredictFeedback feedback_{ids_, corrections_, shapes_, kernels_, 1'800'000'000};
  std::shared_ptr<const ServingSnapshot> devices_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ModelRegistry> models_;
};

constexpr char kThree[] = R"(
  request_id: "r"
  candidates { device { slug: "t4" } price_per_hour: 0.35 }
  candidates { device { slug: "h100-sxm" } price_per_hour: 2.5 }
  candidates { device { slug: "a100-sxm4-80gb" } price_per_hour: 1.5 }
  kernel { dtype: DTYPE_BF16 gemm { m: 8192 n: 8192 k: 8192 } })";

TEST_F(RankTest, PutsTheFastestFirstAsPredictHasIt) {
  const v1::RankDevicesRequest request = Request(kThree);
  const auto response = Ask(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->request_id(), "r");
  ASSERT_EQ(response->devices_size(), 3);
  EXPECT_EQ(response->devices(0).device(), "h100-sxm");
  EXPECT_EQ(response->devices(2).device(), "t4");
  for (const v1::RankedDevice& device : response->devices()) {
    EXPECT_EQ(device.latency_us().p50(), Predicted(request, device.device()).p50());
    EXPECT_FALSE(device.prediction_id().empty());
    EXPECT_GT(device.by_latency(), 0);
    EXPECT_GT(device.by_cost(), 0);
    EXPECT_EQ(device.by_limit(), 0);
    EXPECT_EQ(device.verdict(), v1::LIMIT_VERDICT_UNSPECIFIED);
    EXPECT_GT(device.cost(), 0);
  }
}

TEST_F(RankTest, WhatMeetsTheLimitIsFirst) {
  v1::RankDevicesRequest request = Request(kThree);
  request.set_limit_us(Predicted(request, "h100-sxm").p99());
  const auto response = Ask(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->devices(0).device(), "h100-sxm");
  EXPECT_EQ(response->devices(0).verdict(), v1::LIMIT_VERDICT_MET);
  EXPECT_NEAR(response->devices(0).within_probability(), 0.99, 1e-6);
  EXPECT_EQ(response->devices(2).verdict(), v1::LIMIT_VERDICT_MISSED);
}

TEST_F(RankTest, ADeviceThatCannotAnswerSaysWhyAndStandsLast) {
  v1::RankDevicesRequest request = Request(R"(
      candidates { device { slug: "t4" } }
      kernel { dtype: DTYPE_BF16 collective { op: "all_reduce" backend: "nccl-tests" bytes: 1024 ranks: 2 } })");
  const auto response = Ask(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->devices(0).status().message(), HasSubstr("collectives"));
  EXPECT_EQ(response->devices(0).by_latency(), 0);
}

TEST_F(RankTest, AModelWithoutRoomIsBehindAllThatHaveIt) {
  // 40 GB of parameters: too many for a T4.
  const auto response = Ask(Request(R"(
      candidates { device { slug: "t4" } }
      candidates { device { slug: "h100-sxm" } }
      limit_us: 1e9
      graph { graph { parameters: 20000000000 parameter_bytes: 40000000000
                      nodes { kernel { dtype: DTYPE_BF16 gemm { m: 64 n: 64 k: 64 } } } } })"));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->devices(0).device(), "h100-sxm");
  EXPECT_FALSE(response->devices(0).too_small());
  EXPECT_TRUE(response->devices(1).too_small());
  EXPECT_EQ(response->devices(1).verdict(), v1::LIMIT_VERDICT_MISSED);
}

TEST_F(RankTest, BadInputIsNamed) {
  const auto refused = [&](const std::string& text, const std::string& field) {
    const auto response = Ask(Request(text));
    EXPECT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(FieldOf(response.status()), HasSubstr(field));
  };
  const std::string kernel = "kernel { dtype: DTYPE_BF16 gemm { m: 64 n: 64 k: 64 } } ";
  const std::string device = R"(candidates { device { slug: "t4" } } )";
  refused(kernel, "candidates");
  refused(device, "workload");
  refused(kernel + device + "limit_us: -1", "limit_us");
  refused(kernel + device + "limit_us: nan", "limit_us");
  refused(kernel + device + "confidence: 0.4", "confidence");
  refused(kernel + device + "confidence: 1", "confidence");
  refused(kernel + R"(candidates { device { slug: "t4" } price_per_hour: -1 })", "candidates[0].price_per_hour");
  refused(kernel + "candidates { }", "candidates[0].device");
  refused(device + "kernel { dtype: DTYPE_BF16 gemm { m: 0 n: 64 k: 64 } }", "kernel");
}

}  // namespace
}  // namespace gpueta
