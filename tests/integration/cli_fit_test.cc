// Measuring, planning, fitting and judging from the command line.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/integration/cli_fixture.h"

namespace gpueta::testing_util {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CliTest, MeasuresPlansFitsAndJudgesFromFilesAlone) {
  std::string rows = kVectorHeader;
  for (int n = 1; n <= 64; ++n) {
    rows += fmt::format("t4,test,kernel,fp32,add,{},1024,2,,,,,,,{}\n", 64 * n, 3 + 0.8 * n);
  }
  const std::string measured = Write("vector.csv", rows);
  const std::string planned = Path("plan.csv");
  EXPECT_EQ(
      Run({"plan", "--op", "vector", "--device", "t4", "--budget", "20", "--candidates", measured, "--out", planned})
          .status,
      0);
  const std::string plan = ReadFile(planned);
  EXPECT_EQ(std::count(plan.begin(), plan.end(), '\n'), 21);  // a header and verbatim lines
  std::istringstream lines(plan);
  for (std::string line; std::getline(lines, line);) EXPECT_THAT(rows, HasSubstr(line + "\n"));
  const std::string profile = Path("t4.profile");
  const Outcome fitted = Run({"fit", "--device", "t4", "--measurements", planned, "--out", profile});
  EXPECT_EQ(fitted.status, 0) << fitted.standard_error;
  EXPECT_EQ(Run({"profile", "verify", profile}).status, 0);
  const Outcome judged = Run({"--json", "eval", "--profile", profile, "--measurements", measured});
  EXPECT_EQ(judged.status, 0) << judged.standard_error;
  EXPECT_FALSE(json::parse(judged.standard_output, nullptr, false).is_discarded());
}

TEST_F(CliTest, AKernelOfOnesOwnIsPredictedByItsName) {
  const std::string manifest = GPUETA_SOURCE_DIR "/examples/kernels/tiled_gemm.manifest";
  const json checked = RunJson({"kernels", "check", manifest, "m=512", "n=4096", "k=4096"});
  EXPECT_EQ(checked["grid"], json({64, 8, 1}));
  EXPECT_EQ(checked["flops"], 2LL * 512 * 4096 * 4096);

  const std::string shapes = Path("shapes.csv");
  EXPECT_EQ(Run({"kernels", "sample", manifest, "-n", "40", "--device", "t4", "--out", shapes}).status, 0);
  // "Measured" by a formula: half of the peak, and what a launch takes.
  std::istringstream lines(ReadFile(shapes));
  std::string measured, line;
  std::getline(lines, line);
  measured = line + ",latency_us\n";
  while (std::getline(lines, line)) {
    std::int64_t m = 0, n = 0, k = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%ld,%ld,%ld", &m, &n, &k), 3);
    const double flops = 2.0 * static_cast<double>((m + 63) / 64 * 64 * ((n + 63) / 64 * 64) * k);
    measured += fmt::format("{},{:.6g}\n", line, 5 + flops / 4.07e6);
  }
  const std::string rows = Path("rows.csv");
  EXPECT_EQ(Run({"kernels", "rows", manifest, Write("measured.csv", measured), "--device", "t4", "--out", rows}).status,
            0);
  const Outcome fitted = Run({"fit", "--device", "t4", "--measurements", rows, "--out", Path("own.profile")});
  EXPECT_EQ(fitted.status, 0) << fitted.standard_error;
  const std::string asked = Path("asked.csv");
  const std::string shape = Write("shape.csv", "m,n,k\n1000,1000,1000\n");
  EXPECT_EQ(Run({"kernels", "rows", manifest, shape, "--device", "t4", "--out", asked}).status, 0);
  EXPECT_EQ(Run({"predict", "--kernels", asked, "--profile", Path("own.profile"), "--out", Path("p.csv")}).status, 0);
  const std::string predicted = ReadFile(Path("p.csv"));
  EXPECT_THAT(predicted, HasSubstr("tiled_gemm_64x64"));
  EXPECT_THAT(predicted, Not(HasSubstr("roofline")));

  ExpectOneLine(Run({"kernels", "check", manifest, "m=512", "n=4095", "k=64"}), HasSubstr("n: is 4095"));
  ExpectOneLine(Run({"kernels", "check", Write("bad.manifest", "name: \"x\"\ngrid { x: \"y\" }\ndtype: DTYPE_FP32\n")}),
                HasSubstr("bad.manifest: line 2: grid.x: \"y\" is neither a dim nor a definition"));
  ExpectOneLine(Run({"kernels", "rows", manifest, Write("wrong.csv", "m,n\n1,64\n"), "--device", "t4", "--out", rows}),
                HasSubstr("wrong.csv:2: k: has no value"));
}

TEST_F(CliTest, PlansOnTheLinesOfModelsAndOfFiles) {
  const std::string planned = Path("plan.csv");
  const std::vector<std::string> plan = {"plan", "--op", "gemm", "--device", "t4", "--budget", "12", "--out", planned};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), plan.begin(), plan.end());
    return more;
  };
  // BERT base: products of hidden and intermediate sizes, and of 64-wide heads.
  EXPECT_EQ(RunJson(with({"--workload", kBert}))["chosen"], 12);
  std::istringstream rows(ReadFile(planned));
  std::string row;
  std::getline(rows, row);
  while (std::getline(rows, row)) EXPECT_THAT(row, AnyOf(HasSubstr(",768,"), HasSubstr(",64,"))) << row;

  std::string table = "device,dtype,m,n,k\n";
  for (int m = 1; m <= 64; ++m) table += fmt::format("t4,fp16,{},{},512\n", m, m % 2 == 0 ? 1024 : 2048);
  const std::string candidates = Write("candidates.csv", table);
  const std::string lines = Write("lines.csv", "n,k\n1024,512\n");
  const json answer = RunJson(with({"--lines", lines, "--candidates", candidates}));
  EXPECT_EQ(answer["chosen"], 12);
  EXPECT_EQ(answer["lines"], 1);
  EXPECT_THAT(ReadFile(planned), Not(HasSubstr(",2048,")));
  ExpectOneLine(Run(with({"--lines", Write("none.csv", "n,k\n7,7\n"), "--candidates", candidates})),
                AllOf(HasSubstr("candidates.csv"), HasSubstr("1 lines")));
  ExpectOneLine(Run(with({"--lines", Write("bad.csv", "n,kk\n7,7\n")})), HasSubstr("bad.csv"));
  EXPECT_NE(
      Run({"plan", "--op", "moe", "--device", "t4", "--budget", "1", "--workload", kBert, "--out", planned}).status, 0);
}

TEST_F(CliTest, APlanSaysWhatItExpectsOfMoreRows) {
  std::string rows = kVectorHeader, candidates = rows;
  for (int n = 1; n <= 64; ++n) {
    const std::string shape = fmt::format("t4,test,kernel,fp32,add,{},1024,2,,,,,,,", 64 * n);
    // Every third kernel is slower: a step that no form knows.
    rows += n % 2 == 0 ? shape + fmt::format("{}\n", (n % 3 == 0 ? 1.3 : 1.0) * (3 + 0.8 * n)) : "";
    candidates += shape + "1\n";
  }
  const json answer = RunJson({"plan", "--op", "vector", "--device", "t4", "--budget", "4", "--candidates",
                               Write("c.csv", candidates), "--measured", Write("m.csv", rows), "--out", Path("p.csv")});
  ASSERT_EQ(answer["tables"].size(), 1U);
  const json& table = answer["tables"][0];
  EXPECT_EQ(table["measured"], 32);
  EXPECT_EQ(table["chosen"], 4);
  EXPECT_EQ(table["settled"], false);
  EXPECT_LE(table["model_error_after"], table["model_error_before"]);
}

TEST_F(CliTest, ASpecIsOfOneDevice) {
  const std::string spec = Write("s.csv", "slug,sm_count,mem_bandwidth_gb_s,fp32_tflops\nmine,100,1000,10\n");
  const auto p50 = [](const json& device) { return device["latency_us"]["p50"].get<double>(); };
  const json with = RunJson({"predict", kResnet, "--batch", "1", "--spec", spec, "--device", "mine,h100-sxm"});
  const json without = RunJson({"predict", kResnet, "--batch", "1", "--device", "h100-sxm"});
  EXPECT_EQ(p50(with["devices"][1]), p50(without["devices"][0]));
  EXPECT_NE(p50(with["devices"][0]), p50(with["devices"][1]));
  ExpectOneLine(Run({"predict", kResnet, "--batch", "1", "--spec", spec, "--device", "t4"}), HasSubstr("mine"));
}

TEST_F(CliTest, ACardThatDoesNotExistYetIsFittedFromItsSpecAndAFewRows) {
  const std::string profiles = GPUETA_SOURCE_DIR "/profiles";
  const std::string spec = Write("spec.csv", "slug,mem_bandwidth_gb_s,fp32_tflops\nmy-card,500,11\n");
  const std::string rows = Write("rows.csv", kVectorHeader +
                                                 "my-card,x,eager,fp32,add,4096,4096,2,,,,,,,410\n"
                                                 "my-card,x,eager,fp32,gelu,2048,4096,1,,,,,,,145\n");
  const std::string asked = Write("asked.csv", kVectorHeader +
                                                   "my-card,x,eager,fp32,add,4096,4096,2,,,,,,,\n"
                                                   "my-card,x,eager,fp32,add,8192,4096,2,,,,,,,\n");
  EXPECT_EQ(Run({"predict", "--kernels", asked, "--spec", spec, "--out", Path("before.csv")}).status, 0);
  EXPECT_THAT(ReadFile(Path("before.csv")), HasSubstr("transferred"));
  const std::vector<std::string> fit = {"fit", "--device", "my-card",          "--spec", spec, "--measurements",
                                        rows,  "--out",    Path("my.profile"), "--base"};
  const auto with = [&](const std::string& base) {
    std::vector<std::string> arguments = fit;
    arguments.push_back(base);
    return Run(arguments);
  };
  ASSERT_EQ(with(profiles).status, 0);
  EXPECT_EQ(Run({"predict", "--kernels", asked, "--profile", Path("my.profile"), "--out", Path("after.csv")}).status,
            0);
  EXPECT_THAT(ReadFile(Path("after.csv")), AllOf(HasSubstr("measured"), HasSubstr("transferred")));
  std::filesystem::create_directory(Path("empty"));
  ExpectOneLine(with(Path("empty")), HasSubstr("has no transfer profile; make one with fit --pool"));
}

TEST_F(CliTest, ATimeOfAModelMovesItsEstimateTowardsIt) {
  const auto fitted_to = [&](const std::string& ms) {
    const std::string times = Write("models.csv", "device,model,dtype,batch,latency_ms\nt4,resnet,fp32,8," + ms + "\n");
    const Outcome fit = Run({"fit", "--device", "t4", "--model-measurements", times, "--graph", "resnet=" + kResnet,
                             "--out", Path("t4.profile")});
    EXPECT_EQ(fit.status, 0) << fit.standard_error;
    return RunJson({"predict", kResnet, "--profile", Path("t4.profile"), "--device", "t4", "--batch",
                    "8"})["devices"][0]["latency_us"]["p50"]
        .get<double>();
  };
  EXPECT_LT(1.1 * fitted_to("30"), fitted_to("45"));

  const std::string times = Write("models.csv", "device,model,dtype,batch,latency_ms\nt4,resnet,fp32,8,40\n");
  const auto refused = [&](const std::string& device, const std::string& graph) {
    return Run(
        {"fit", "--device", device, "--model-measurements", times, "--graph", graph, "--out", Path("x.profile")});
  };
  ExpectOneLine(refused("t4", "resnet"), HasSubstr("--graph resnet: must be NAME=MODEL"));
  ExpectOneLine(refused("t4", "other=" + kResnet), HasSubstr("no row of --model-measurements has this model"));
  ExpectOneLine(refused("h100-sxm", "resnet=" + kResnet), HasSubstr("models.csv:2:device: is t4"));
}

TEST_F(CliTest, RungsOfTheLadderAreComparedOnWholeModels) {
  const std::string header = "device,source,model,mode,dtype,batch,latency_ms\n";
  const std::string times = Write("models.csv", header +
                                                    "t4,me,resnet,inference,fp32,1,4\n"
                                                    "t4,me,resnet,inference,fp32,4,13\n"
                                                    "t4,me,resnet,inference,fp32,8,25\n"
                                                    "t4,me,resnet,train,fp32,8,80\n");
  const std::string graph = "resnet=" + kResnet;
  const std::string profile = Path("t4.profile");
  ASSERT_EQ(Run({"fit", "--device", "t4", "--model-measurements", times, "--graph", graph, "--out", profile}).status,
            0);
  EXPECT_EQ(RunJson({"profile", "show", profile})["end_to_end"].size(), 2U);
  const std::vector<std::string> predict = {"predict",  kResnet, "--profile",   profile,
                                            "--device", "t4",    "--estimator", "end-to-end"};
  const auto asked = [&](std::vector<std::string> options) {
    options.insert(options.begin(), predict.begin(), predict.end());
    return options;
  };
  const json answer = RunJson(asked({"--batch", "4"}))["devices"][0];
  EXPECT_EQ(answer["estimator"], "end-to-end");
  EXPECT_NEAR(answer["latency_us"]["p50"], 13000, 300);
  EXPECT_NEAR(RunJson(asked({"--batch", "8", "--train"}))["devices"][0]["latency_us"]["p50"], 80000, 800);
  ExpectOneLine(Run(asked({"--batch", "4", "--dtype", "fp16"})),
                AllOf(HasSubstr("no end-to-end form of fp16 inference"), HasSubstr("fp32 inference, fp32 training")));
  ExpectOneLine(Run({"predict", kResnet, "--device", "t4", "--estimator", "end-to-end"}),
                HasSubstr("fit --model-measurements"));

  const json ladder = RunJson({"eval", "--profile", profile, "--model-measurements", times, "--graph", graph,
                               "--estimator", "default,end-to-end,roofline", "--by", "mode"});
  ASSERT_EQ(ladder.size(), 6U);
  EXPECT_EQ(ladder[2]["asked"], "end-to-end");
  EXPECT_EQ(ladder[2]["mode"], "inference");
  EXPECT_LT(ladder[2]["mape"], 0.02);
  EXPECT_EQ(ladder[2]["spearman"], 1);
  EXPECT_GT(ladder[4]["mape"], 0.1);
  const std::vector<std::string> eval = {"eval", "--profile", profile, "--model-measurements", times, "--graph", graph};
  const auto of_kernels = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = eval;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  };
  ExpectOneLine(of_kernels({"--estimator", "kernel-wise"}), AllOf(HasSubstr("models.csv:2"), HasSubstr("kernel-wise")));
  ExpectOneLine(of_kernels({"--by", "regime"}), AllOf(HasSubstr("\"regime\""), HasSubstr("image_size")));
  EXPECT_EQ(Run({"eval", "--profile", profile}).status, kUsage);
}

}  // namespace
}  // namespace gpueta::testing_util
