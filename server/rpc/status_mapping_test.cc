#include "server/rpc/status_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/limits.h"
#include "server/status_details.h"

namespace gpueta {
namespace {

using testing::HasSubstr;

google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

TEST(StatusMappingTest, KeepsEveryCodeAndMessage) {
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status = ToGrpc(absl::Status(static_cast<absl::StatusCode>(code), "why"));
    EXPECT_EQ(static_cast<int>(status.error_code()), code);
    EXPECT_EQ(status.error_message(), "why");
    EXPECT_EQ(DetailsOf(status).code(), code);
    EXPECT_EQ(FromGrpc(status), absl::Status(static_cast<absl::StatusCode>(code), "why"));
  }
}

TEST(StatusMappingTest, OkCarriesNothing) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_EQ(ToGrpc(absl::OkStatus()).error_details(), "");
  google::rpc::Status message;
  message.set_code(3);
  EncodeStatus(absl::OkStatus(), message);
  EXPECT_EQ(message.code(), 0);
}

TEST(StatusMappingTest, NamesTheFieldOfAFieldError) {
  const auto details = DetailsOf(ToGrpc(InField("kernels[3]", FieldError("gemm.k", "is 0, must be at least 1"))));
  ASSERT_EQ(details.details_size(), 1);
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(details.details(0).UnpackTo(&bad_request));
  ASSERT_EQ(bad_request.field_violations_size(), 1);
  EXPECT_EQ(bad_request.field_violations(0).field(), "kernels[3].gemm.k");
  EXPECT_THAT(bad_request.field_violations(0).description(), HasSubstr("must be at least 1"));
}

TEST(StatusMappingTest, GivesTheReasonOfOtherErrors) {
  const auto details = DetailsOf(ToGrpc(NotFound("unknown device x")));
  ASSERT_EQ(details.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "NOT_FOUND");
  EXPECT_EQ(info.domain(), "gpueta");
}

TEST(StatusMappingTest, NamesFieldAndLimitWhenALimitIsPassed) {
  const absl::Status error = CheckLimit("devices", "devices", 64, 65);
  const auto details = DetailsOf(ToGrpc(error));
  EXPECT_EQ(details.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(details.message(), AllOf(HasSubstr("devices"), HasSubstr("64"), HasSubstr("65")));
  ASSERT_EQ(details.details_size(), 2);
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(details.details(0).UnpackTo(&bad_request));
  EXPECT_EQ(bad_request.field_violations(0).field(), "devices");
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(1).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "LIMIT_EXCEEDED");
  EXPECT_EQ(info.metadata().at("limit"), "devices");
}

TEST(LimitsTest, AllowsUpToTheLimit) {
  EXPECT_TRUE(CheckLimit("devices", "devices", 64, 64).ok());
  EXPECT_EQ(LimitOf(CheckLimit("devices", "devices", 64, 65)), "devices");
  EXPECT_EQ(LimitOf(NotFound("x")), "");
}

TEST(ToGrpcTest, LongTextsAreCutSoThatTheStatusArrives) {
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += "é";
  const grpc::Status status = ToGrpc(InField(text, FieldError(text, text)));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_LT(status.error_message().size() + status.error_details().size(), 8'000u);
  EXPECT_TRUE(status.error_message().ends_with("é…"));
}

}  // namespace
}  // namespace gpueta
