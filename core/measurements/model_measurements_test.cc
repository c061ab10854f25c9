#include "core/measurements/model_measurements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace gpueta {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::vector<ModelMeasurement>> Read(const std::string& text) {
  std::istringstream in(text);
  std::vector<ModelMeasurement> rows;
  const absl::Status status = ReadModelMeasurements(in, "m.csv", [&](ModelMeasurement&& row) {
    rows.push_back(std::move(row));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return rows;
}

TEST(ReadModelMeasurements, ReadsEveryField) {
  const auto rows = Read(
      "device,source,model,mode,options,dtype,batch,seq_len,image_size,latency_ms,neusight_ms,roofline_ms,habitat_ms,"
      "li_ms\n"
      "t4,somewhere,bert,train,\"a,b\",fp16,8,512,,174.758,204.843,,1.5,2\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  const ModelMeasurement expected{.device = "t4",
                                  .source = "somewhere",
                                  .model = "bert",
                                  .mode = ModelMeasurement::Mode::kTrain,
                                  .options = "a,b",
                                  .dtype = DType::kFp16,
                                  .batch = 8,
                                  .seq_len = 512,
                                  .latency_ms = 174.758,
                                  .neusight_ms = 204.843,
                                  .habitat_ms = 1.5,
                                  .li_ms = 2.0,
                                  .line = 2};
  EXPECT_THAT(*rows, ::testing::ElementsAre(expected));
}

TEST(ReadModelMeasurements, ReadsTheExcerptOfPublicRows) {
  const auto rows = ReadModelMeasurementFile("core/measurements/testdata/model_e2e.csv");
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 50);
  EXPECT_EQ(rows->back().line, 51);
}

TEST(ReadModelMeasurements, DefaultsToInference) {
  const auto rows = Read("latency_ms,device,model,dtype,batch\n2,t4,m,fp32,1\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->front().mode, ModelMeasurement::Mode::kInference);
}

TEST(ReadModelMeasurements, NamesLineAndColumnOfErrors) {
  const std::string header = "device,model,mode,dtype,batch,seq_len,latency_ms,li_ms\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", "m.csv: is empty"},
      {"device,model,dtype,batch\n", "m.csv:1:latency_ms: the column is missing"},
      {"device,model,dtype,batch,latency_ms,x\n", "m.csv:1: unknown column \"x\""},
      {header + "t4,m,,fp32,1,,nan,\n", "m.csv:2:latency_ms: \"nan\" is not finite"},
      {header + "t4,m,,fp32,1,,0,\n", "m.csv:2:latency_ms: must be above 0"},
      {header + "t4,m,,fp32,1,,1e10,\n", "m.csv:2:latency_ms: "},
      {header + "t4,m,,fp32,1,,,\n", "m.csv:2:latency_ms: is empty"},
      {header + "t4,m,,fp32,1,,1,-1\n", "m.csv:2:li_ms: must be above 0"},
      {header + "t4,m,,fp32,0,,1,\n", "m.csv:2:batch: must be at least 1"},
      {header + "t4,m,,fp32,1,-1,1,\n", "m.csv:2:seq_len: must be at least 1"},
      {header + "t4,m,,fp31,1,,1,\n", "m.csv:2:dtype: \"fp31\" is unknown; use one of fp64, fp32"},
      {header + "t4,m,serve,fp32,1,,1,\n", "m.csv:2:mode: \"serve\" is unknown; use one of inference, train"},
      {header + ",m,,fp32,1,,1,\n", "m.csv:2:device: is empty"},
      {header + "t4,m,,fp32,1,,1\n", "m.csv:2: has 7 cells"},
  };
  for (const auto& [text, error] : cases) {
    const auto rows = Read(text);
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(rows.status().message()), HasSubstr(error)) << text;
  }
}

TEST(ReadModelMeasurementFile, SaysWhichFileIsMissing) {
  const auto rows = ReadModelMeasurementFile("no/such.csv");
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(rows.status().message()), HasSubstr("no/such.csv"));
}

}  // namespace
}  // namespace gpueta
