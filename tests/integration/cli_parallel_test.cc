// Steps of several devices, and parts of one, from the command line.
#include "tests/integration/cli_fixture.h"

namespace gpueta::testing_util {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kDevice = "h100-sxm";

// A training step of a small decoder.
std::vector<std::string> Step(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"predict", kDecoder,  "--device", kDevice,  "--train", "--seq",
                                        "1024",    "--dtype", "bf16",     "--mode", "graph"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class CliParallelTest : public CliTest {
 protected:
  static json DeviceOf(std::vector<std::string> more) { return RunJson(Step(std::move(more)))["devices"][0]; }
  static double P50(std::vector<std::string> more) { return DeviceOf(std::move(more))["latency_us"]["p50"]; }
};

TEST_F(CliParallelTest, ReplicasCostWhatTheyExchangeAndSharingTakesLessMemory) {
  const double alone = P50({"--batch", "4"});
  const json replicas = DeviceOf({"--batch", "32", "--dp", "8", "--node", "dgx-h100"});
  EXPECT_GE(replicas["latency_us"]["p50"].get<double>(), alone);
  EXPECT_LT(replicas["latency_us"]["p50"].get<double>(), 1.5 * alone);
  std::int64_t hidden = 0;
  for (const json& kernel : replicas["kernels"]) hidden += kernel["hidden"].get<std::int64_t>();
  EXPECT_GT(hidden, 0);
  std::int64_t memory = replicas["memory_bytes"];
  for (const char* stage : {"1", "2", "3"}) {
    const json shared = DeviceOf({"--batch", "32", "--dp", "8", "--zero", stage, "--node", "dgx-h100"});
    EXPECT_LT(shared["memory_bytes"].get<std::int64_t>(), memory) << stage;
    memory = shared["memory_bytes"];
  }
  // A network that is a hundred times slower shows.
  EXPECT_GT(P50({"--batch", "32", "--dp", "8", "--node", "pc"}), 2 * alone);
}

TEST_F(CliParallelTest, MoreMicrobatchesLeaveAPipelineFewerBubbles) {
  const auto of = [](const char* microbatches) {
    return P50({"--batch", "32", "--pp", "4", "--node", "dgx-h100", "--microbatches", microbatches});
  };
  EXPECT_LT(of("4"), 0.6 * of("1"));
  EXPECT_LT(of("8"), of("4"));
}

TEST_F(CliParallelTest, RecomputingTakesTimeAndSavesMemory) {
  const json kept = DeviceOf({"--batch", "8"});
  const json again = DeviceOf({"--batch", "8", "--recompute"});
  EXPECT_GT(again["latency_us"]["p50"].get<double>(), 1.1 * kept["latency_us"]["p50"].get<double>());
  EXPECT_LT(again["memory_bytes"].get<double>(), 0.8 * kept["memory_bytes"].get<double>());
}

// An ONNX file does not say what its layers are.
TEST_F(CliParallelTest, GraphsWithoutLayersAreSplitAndComputedAgain) {
  const auto of_bert = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"predict", kBert, "--device", kDevice, "--batch", "32", "--seq", "128"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunJson(arguments)["devices"][0];
  };
  const json kept = of_bert({"--train"});
  const json again = of_bert({"--train", "--recompute"});
  EXPECT_GT(again["latency_us"]["p50"].get<double>(), 1.1 * kept["latency_us"]["p50"].get<double>());
  EXPECT_LT(again["memory_bytes"].get<double>(), 0.8 * kept["memory_bytes"].get<double>());
  const json staged = of_bert({"--pp", "4", "--microbatches", "4", "--node", "dgx-h100"});
  EXPECT_TRUE(std::ranges::any_of(staged["kernels"], [](const json& k) { return k["op"] == "collective"; }));
  EXPECT_LT(staged["memory_bytes"].get<double>(), of_bert({})["memory_bytes"].get<double>());
  ExpectOneLine(Run({"predict", kBert, "--device", kDevice, "--seq", "8", "--tp", "2", "--node", "dgx-h100"}),
                HasSubstr("--tp"));
}

TEST_F(CliParallelTest, PassesAndStreamsAreShown) {
  const std::string trace = Path("t.json");
  const Outcome outcome =
      Run(Step({"--batch", "16", "--dp", "8", "--zero", "3", "--node", "dgx-h100", "--explain", "--trace", trace}));
  ASSERT_EQ(outcome.status, 0) << outcome.standard_error;
  EXPECT_THAT(outcome.standard_output,
              AllOf(HasSubstr("pass share over 8 data-parallel ranks, ZeRO stage 3"), HasSubstr("hidden")));
  EXPECT_THAT(ReadFile(trace), HasSubstr("stream, communication"));
}

TEST_F(CliParallelTest, OptionsThatChangeNothingOrCannotDivideAreNamed) {
  const auto refused = [](std::vector<std::string> more, const char* option) {
    ExpectOneLine(Run(Step(std::move(more))), HasSubstr(option));
  };
  refused({"--batch", "6", "--dp", "4", "--node", "dgx-h100"}, "--batch: 6");
  refused({"--batch", "8", "--zero", "1"}, "--zero");
  refused({"--batch", "8", "--bucket-mb", "10"}, "--bucket-mb");
  refused({"--batch", "8", "--dp", "2", "--zero", "4", "--node", "dgx-h100"}, "--zero");
  refused({"--batch", "8", "--nodes", "2"}, "--nodes");
  refused({"--batch", "64", "--dp", "16", "--node", "dgx-h100", "--nodes", "1"}, "--nodes");
  refused({"--batch", "8", "--node", "dgx"}, "dgx-h100");
  const std::vector<std::string> forward = {"predict", kDecoder, "--device", kDevice, "--seq", "8", "--batch", "8"};
  for (const auto& [option, value] : {std::pair("--dp", "2"), std::pair("--microbatches", "2")}) {
    std::vector<std::string> arguments = forward;
    arguments.insert(arguments.end(), {option, value});
    ExpectOneLine(Run(arguments), HasSubstr(option));
  }
}

TEST_F(CliParallelTest, SlicesAreSlowerThanTheirCardAndNamedWhereTheyAreNot) {
  const std::vector<std::string> whole = {"predict", kResnet, "--device", kDevice, "--batch", "64"};
  const auto with = [&](const char* slice) {
    std::vector<std::string> arguments = whole;
    arguments.insert(arguments.end(), {"--slice", slice});
    return arguments;
  };
  const json card = RunJson(whole)["devices"][0];
  const json part = RunJson(with("1g.10gb"))["devices"][0];
  EXPECT_GT(part["latency_us"]["p50"].get<double>(), 2 * card["latency_us"]["p50"].get<double>());
  EXPECT_FALSE(part["provenance"].contains("measured"));
  EXPECT_FALSE(part["provenance"].contains("interpolated"));
  ExpectOneLine(Run(with("1g.5gb")), AllOf(HasSubstr("--slice"), HasSubstr("1g.10gb"), HasSubstr("sm=0.5")));
}

}  // namespace
}  // namespace gpueta::testing_util
