// The command line as a user or a script meets it: exit statuses, JSON, one
// clear line for each kind of bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/report/testing_xml.h"
#include "core/base/errors.h"
#include "tests/integration/server_process.h"

namespace gpueta::testing_util {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

const std::string kResnet = GPUETA_SOURCE_DIR "/examples/resnet50.onnx";
const std::string kBert = GPUETA_SOURCE_DIR "/examples/bert_base.onnx";
const std::string kDecoder = GPUETA_SOURCE_DIR "/tests/data/configs/llama-3.2-1b/config.json";
const std::string kMixture = GPUETA_SOURCE_DIR "/tests/data/configs/mixtral-8x7b/config_min.json";
const std::string kGemms = GPUETA_SOURCE_DIR "/core/measurements/testdata/gemm.csv";
const std::string kVectorHeader =
    "device,source,timing,dtype,name,rows,cols,operands,kernel,grid_x,grid_y,grid_z,block_x,kernels,latency_us\n";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CliTest : public ::testing::Test {
 protected:
  static Outcome Run(std::vector<std::string> arguments) { return RunProgram(GPUETA_BINARY, arguments); }
  static json RunJson(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "--json");
    const Outcome outcome = Run(std::move(arguments));
    EXPECT_EQ(outcome.status, 0) << outcome.standard_error;
    json parsed = json::parse(outcome.standard_output, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << outcome.standard_output;
    return parsed;
  }
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }
  // After the lines of progress exactly one line on stderr, nothing on stdout,
  // exit status 1.
  static void ExpectOneLine(const Outcome& outcome, const ::testing::Matcher<const std::string&>& says) {
    EXPECT_EQ(outcome.status, kFailed);
    EXPECT_EQ(outcome.standard_output, "");
    const std::size_t start = outcome.standard_error.find("gpueta: ");
    ASSERT_NE(start, std::string::npos) << outcome.standard_error;
    const std::string message = outcome.standard_error.substr(start);
    EXPECT_THAT(message, says);
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << message;
  }

  TemporaryDirectory directory_;
};

TEST_F(CliTest, PredictsAModelForSeveralDevices) {
  const json answer = RunJson({"predict", kResnet, "--device", "h100-sxm,t4", "--batch", "8"});
  ASSERT_EQ(answer["devices"].size(), 2U);
  for (const json& device : answer["devices"]) {
    const json& latency = device["latency_us"];
    EXPECT_GT(latency["p50"], 0);
    EXPECT_GE(latency["p90"], latency["p50"]);
    EXPECT_GE(latency["p99"], latency["p90"]);
    EXPECT_FALSE(device["kernels"].empty());
  }
}

TEST_F(CliTest, WhatAModelsLatencyIsMadeOfAddsUpToIt) {
  for (const char* mode : {"eager", "graph"}) {
    const json device = RunJson({"predict", kResnet, "--device", "t4", "--batch", "1", "--mode", mode})["devices"][0];
    double parts = 0;
    for (const json& part : device["breakdown_us"]) parts += part.get<double>();
    EXPECT_NEAR(parts, device["latency_us"]["p50"], 1e-6 * parts) << mode;
    double kernels = 0;
    for (const json& kernel : device["kernels"]) {
      kernels += kernel["count"].get<double>() * kernel["latency_us"]["p50"].get<double>();
    }
    EXPECT_NEAR(kernels, device["breakdown_us"]["kernels"], 1e-6 * kernels) << mode;
    EXPECT_EQ(device["breakdown_us"]["gaps"] > 0, mode == std::string("graph"));
  }
}

TEST_F(CliTest, WritesATimeLineThatEndsWithThePrediction) {
  const json answer = RunJson(
      {"predict", kBert, "--device", "h100-sxm,t4", "--batch", "1", "--seq", "64", "--trace", Path("trace.json")});
  const json trace = json::parse(ReadFile(Path("trace.json")), nullptr, false);
  ASSERT_FALSE(trace.is_discarded());
  std::map<int, double> end_us;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    double& end = end_us[event["pid"]];
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  ASSERT_EQ(end_us.size(), 2U);
  for (const int process : {1, 2}) {
    const double p50 = answer["devices"][process - 1]["latency_us"]["p50"];
    EXPECT_NEAR(end_us[process], p50, 1e-6 * p50);
  }
}

TEST_F(CliTest, ReportsAModelInOnePageWithThePredictedFigures) {
  const std::vector<std::string> question = {kBert, "--device", "h100-sxm", "--batch", "2", "--seq", "64"};
  std::vector<std::string> report = {"report"}, predict = {"predict"};
  report.insert(report.end(), question.begin(), question.end());
  report.insert(report.end(), {"--out", Path("r.html")});
  predict.insert(predict.end(), question.begin(), question.end());
  EXPECT_EQ(RunJson(report)["devices"], json::array({"h100-sxm"}));
  const std::string html = ReadFile(Path("r.html"));
  EXPECT_EQ(report::WhatIsMalformed(html), "");
  const json device = RunJson(predict)["devices"][0];
  EXPECT_THAT(html, HasSubstr(fmt::format("{:.6g} µs", device["latency_us"]["p50"].get<double>())));
  for (const json& kernel : device["kernels"]) {
    EXPECT_THAT(html, HasSubstr(fmt::format("{:.6g} µs", kernel["latency_us"]["p50"].get<double>())));
    EXPECT_THAT(html, HasSubstr(kernel["work"].get<std::string>()));
  }
  EXPECT_THAT(html, HasSubstr("l40s"));  // compared with
  ExpectOneLine(Run({"report", kBert, "--device", "no-such-card", "--seq", "8", "--out", Path("n.html")}),
                HasSubstr("no-such-card"));
  ExpectOneLine(Run({"report", kBert, "--seq", "8", "--measurements", kGemms, "--out", Path("n.html")}),
                HasSubstr("--measurements"));
}

TEST_F(CliTest, ReportsAProfileAloneAndAgainstMeasurements) {
  const std::string profile = GPUETA_SOURCE_DIR "/profiles/t4.profile";
  EXPECT_EQ(Run({"report", profile, "--out", Path("alone.html")}).status, 0);
  EXPECT_EQ(report::WhatIsMalformed(ReadFile(Path("alone.html"))), "");
  std::string rows = kVectorHeader;
  for (int n = 1; n <= 20; ++n) rows += fmt::format("t4,test,eager,fp32,add,{},1024,2,,,,,,,{}\n", 64 * n, 30 + n);
  const std::string measured = Write("v.csv", rows);
  EXPECT_EQ(Run({"report", profile, "--measurements", measured, "--out", Path("judged.html")}).status, 0);
  const std::string html = ReadFile(Path("judged.html"));
  EXPECT_EQ(report::WhatIsMalformed(html), "");
  EXPECT_THAT(html, HasSubstr("Judged on 20 rows"));
  const json judged = RunJson({"eval", "--profile", profile, "--measurements", measured});
  EXPECT_THAT(html, HasSubstr(fmt::format("{:.1f}%", 100 * judged["mape"].get<double>())));
  ExpectOneLine(
      Run({"report", GPUETA_SOURCE_DIR "/profiles/l40s.profile", "--measurements", measured, "--out", Path("n.html")}),
      HasSubstr("l40s"));
}

TEST_F(CliTest, RanksDevicesAlikeInProcessAndByAServer) {
  const std::vector<std::string> question = {
      "rank", kResnet,   "--devices", "h100-sxm,t4,l40s", "--batch",
      "8",    "--limit", "20ms",      "--price",          "h100-sxm=2.5,t4=0.35,l40s=1"};
  const json local = RunJson(question);
  ASSERT_EQ(local["devices"].size(), 3U);
  EXPECT_EQ(local["devices"][0]["by_limit"], 1);
  for (const json& device : local["devices"]) {
    EXPECT_GT(device["cost_per_1000"], 0);
    EXPECT_GE(device["within_probability"], 0);
    EXPECT_LE(device["within_probability"], 1);
  }
  auto server = ServerProcess::Start(GPUETA_SERVER_BINARY, {"--listen", "127.0.0.1:0", "--metrics-listen", "off"});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::string> remote = {"--server", (*server)->address()};
  remote.insert(remote.end(), question.begin(), question.end());
  EXPECT_EQ(RunJson(remote), local);
  ExpectOneLine(Run({"rank", kResnet, "--devices", "t4", "--batch", "1", "--limit", "soon"}), HasSubstr("--limit"));
  ExpectOneLine(Run({"rank", kResnet, "--devices", "t4", "--batch", "1", "--price", "l40s=1"}), HasSubstr("l40s"));
  ExpectOneLine(Run({"rank", kResnet, "--devices", "t4", "--batch", "1", "--confidence", "0.2"}),
                HasSubstr("--confidence"));
  EXPECT_EQ(Run({"rank", kResnet}).status, kUsage);
}

TEST_F(CliTest, PassesAreChosenByNameAndShown) {
  const auto ask = [&](const std::string& passes) {
    return RunJson(
        {"predict", kBert, "--device", "h100-sxm", "--batch", "1", "--seq", "64", "--passes", passes, "--explain"});
  };
  const json fused = ask("fuse-attention,fuse-epilogues");
  ASSERT_EQ(fused["passes"].size(), 2U);
  EXPECT_THAT(fused["passes"][0].get<std::string>(), AllOf(HasSubstr("fuse-attention"), HasSubstr("become")));
  const auto has_attention = [](const json& answer) {
    return std::ranges::any_of(answer["devices"][0]["kernels"], [](const json& k) { return k["op"] == "attention"; });
  };
  EXPECT_TRUE(has_attention(fused));
  EXPECT_FALSE(has_attention(ask("merge-products")));
  ExpectOneLine(Run({"predict", kBert, "--device", "t4", "--seq", "8", "--passes", "fuse-all"}),
                AllOf(HasSubstr("fuse-all"), HasSubstr("fuse-residual-norms")));
}

TEST_F(CliTest, OptionsThatWouldChangeNothingAreErrors) {
  const std::string trace = GPUETA_SOURCE_DIR "/tests/data/traces/resnet18_b1_64px_infer.pt.trace.json";
  ExpectOneLine(Run({"predict", kResnet, "--device", "t4", "--batch", "1", "--kv-dtype", "fp8"}),
                HasSubstr("--kv-dtype"));
  ExpectOneLine(Run({"predict", trace, "--device", "t4", "--phase", "decode"}), HasSubstr("--phase"));
  ExpectOneLine(Run({"predict", trace, "--device", "t4", "--train"}), HasSubstr("--train"));
  EXPECT_EQ(Run({"predict", kResnet, "--device", "t4", "--batch", "1", "--optimiser", "sgd"}).status, kUsage);
}

TEST_F(CliTest, EstimatorsAreComparedByName) {
  std::string rows = kVectorHeader;
  for (int n = 1; n <= 40; ++n)
    rows += fmt::format("t4,test,kernel,fp32,add,{},1024,2,,,,,,,{}\n", 64 * n, 3 + 0.8 * n);
  const std::string measured = Write("v.csv", rows);
  const std::string profile = Path("t4.profile");
  ASSERT_EQ(Run({"fit", "--device", "t4", "--measurements", measured, "--out", profile}).status, 0);
  const json ladder = RunJson({"eval", "--profile", profile, "--measurements", measured, "--estimator",
                               "default,kernel-wise,layer-wise,roofline"});
  ASSERT_EQ(ladder.size(), 4U);
  EXPECT_EQ(ladder[1]["asked"], "kernel-wise");
  EXPECT_LT(ladder[1]["mape"], 0.01);  // the rows are a line
  EXPECT_GT(ladder[3]["mape"], ladder[1]["mape"]);
  ExpectOneLine(Run({"eval", "--measurements", measured, "--device", "rtx-4090", "--estimator", "default,kernel-wise"}),
                AllOf(HasSubstr("kernel-wise"), HasSubstr("there are")));
  ExpectOneLine(Run({"predict", kResnet, "--device", "t4", "--batch", "1", "--estimator", "oracle"}),
                AllOf(HasSubstr("oracle"), HasSubstr("roofline")));
  EXPECT_EQ(RunJson({"predict", kResnet, "--device", "t4", "--batch", "1", "--estimator",
                     "roofline"})["devices"][0]["estimator"],
            "roofline");
}

TEST_F(CliTest, ErrorsDoNotSteerTheTerminal) {
  ExpectOneLine(Run({"predict", kResnet, "--batch", "1", "--device", "t4\x1b[2J"}),
                AllOf(HasSubstr("\\x1b[2J"), Not(HasSubstr("\x1b"))));
}

TEST_F(CliTest, InspectsAConfig) {
  const json counts = RunJson({"inspect", kMixture, "--batch", "1", "--seq", "16"});
  EXPECT_EQ(counts["parameters"], 46702792704);
  EXPECT_EQ(counts["active_parameters"], 12879925248);
  EXPECT_EQ(counts["kv_bytes_per_token"], 2 * 32 * 8 * 128 * 2);
  EXPECT_EQ(counts["flops"], 2 * counts["macs"].get<std::int64_t>());
}

TEST_F(CliTest, PredictsAConfigInEachPhaseAndMode) {
  const auto p50 = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"predict", kDecoder, "--device", "h100-sxm", "--batch", "4"});
    return RunJson(options)["devices"][0]["latency_us"]["p50"].get<double>();
  };
  const std::vector<std::string> decode = {"--phase", "decode", "--mode", "graph", "--kv-len"};
  const auto with = [](std::vector<std::string> options, const std::vector<std::string>& more) {
    options.insert(options.end(), more.begin(), more.end());
    return options;
  };
  EXPECT_LT(p50(with(decode, {"512"})), p50(with(decode, {"32768"})));
  const double prefill = p50({"--seq", "1024"});
  EXPECT_GT(prefill, p50({"--seq", "512"}));
  EXPECT_GT(prefill, p50({"--seq", "1024", "--mode", "compiled"}));
  EXPECT_GT(p50({"--seq", "1024", "--train"}), 2 * prefill);
  EXPECT_GT(p50({"--seq", "1024", "--mode", "graph"}), p50({"--seq", "1024", "--mode", "graph", "--tp", "2"}));
  EXPECT_LE(p50({"--seq", "1024", "--mode", "graph"}), p50({"--seq", "1024", "--mode", "graph", "--kv-len", "2048"}));
}

TEST_F(CliTest, WhatAConfigCannotDoIsNamed) {
  const std::string device = "h100-sxm";
  ExpectOneLine(Run({"inspect", Write("config.json", R"({"model_type": "llama", "hidden_size": -4})")}),
                HasSubstr("hidden_size"));
  ExpectOneLine(Run({"inspect", Write("config.json", R"({"model_type": "llama")")}), HasSubstr("config.json"));
  ExpectOneLine(Run({"predict", kDecoder, "--device", device, "--seq", "8", "--tp", "5"}), HasSubstr("--tp"));
  ExpectOneLine(Run({"predict", kDecoder, "--device", device, "--seq", "8", "--ep", "2"}), HasSubstr("--ep"));
  ExpectOneLine(Run({"predict", kDecoder, "--device", device, "--seq", "8", "--pp", "99"}), HasSubstr("--pp"));
  ExpectOneLine(Run({"predict", kDecoder, "--device", device, "--phase", "decode"}), HasSubstr("kv_len"));
  ExpectOneLine(Run({"predict", kDecoder, "--device", device, "--phase", "sideways"}), HasSubstr("--phase"));
  ExpectOneLine(Run({"predict", kResnet, "--device", device, "--phase", "decode"}), HasSubstr("config.json"));
  ExpectOneLine(Run({"predict", kResnet, "--device", device, "--batch", "1", "--tp", "2"}), HasSubstr("--tp"));
}

TEST_F(CliTest, EmulateNamesWhatItCannotDo) {
  const auto emulate = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"emulate", kResnet, "--batch", "1"});
    return Run(options);
  };
  const std::string spec = Write("spec.csv", "slug,mem_bandwidth_gb_s,fp32_tflops\nmine,20,0.2\n");
  ExpectOneLine(emulate({"--device", "t4", "--on", "cuda:0"}), HasSubstr("cuda:0"));
  ExpectOneLine(emulate({"--device", "t4", "--on", "replay:rows.csv"}), HasSubstr("auto or cpu"));
  ExpectOneLine(emulate({"--device", "t44"}), HasSubstr("t4"));
  ExpectOneLine(emulate({"--device", "yours", "--spec", spec}), HasSubstr("mine"));
  ExpectOneLine(emulate({"--device", "mine", "--spec", Write("bad.csv", "slug\nmine\n")}), HasSubstr("bad.csv"));
  EXPECT_EQ(emulate({}).status, kUsage);
  EXPECT_EQ(emulate({"--device", "t4", "--launch-us", "-1"}).status, kUsage);
  EXPECT_EQ(Run({"measure", "--capabilities"}).status, kUsage);
}

TEST_F(CliTest, TellsErrorsOfAServer) {
  auto server = ServerProcess::Start(GPUETA_SERVER_BINARY, {"--listen", "127.0.0.1:0", "--metrics-listen", "off"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  EXPECT_EQ(RunJson({"--server", address, "errors", "--by", "device,node", "--since", "7d"}), json::array());
  EXPECT_THAT(Run({"--server", address, "errors"}).standard_output, HasSubstr("no observations in the last 24h"));
  ExpectOneLine(Run({"--server", address, "errors", "--since", "40d"}), HasSubstr("up to 30d"));
  ExpectOneLine(Run({"--server", address, "errors", "--by", "colour"}), HasSubstr("is not one of device, op"));
}

TEST_F(CliTest, AnswersOverAServerAsInProcess) {
  auto server = ServerProcess::Start(GPUETA_SERVER_BINARY, {"--listen", "127.0.0.1:0", "--metrics-listen", "off"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  EXPECT_EQ(Run({"--server", address, "health"}).status, 0);
  EXPECT_EQ(Run({"--server", address, "model", "register", kBert, "--alias", "bert"}).status, 0);
  const std::vector<std::string> dims = {"--device", "a100-sxm4-80gb", "--batch", "2", "--seq", "64"};
  std::vector<std::string> remote = {"--server", address, "predict", "bert"};
  std::vector<std::string> local = {"predict", kBert};
  remote.insert(remote.end(), dims.begin(), dims.end());
  local.insert(local.end(), dims.begin(), dims.end());
  EXPECT_EQ(RunJson(remote)["devices"][0]["latency_us"], RunJson(local)["devices"][0]["latency_us"]);
}

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

TEST_F(CliTest, WeightsTakeTheMemoryOfTheirType) {
  const std::vector<std::string> question = {"predict", kResnet, "--batch", "1", "--device", "h100-sxm"};
  const auto memory = [&](const std::string& dtype) {
    std::vector<std::string> arguments = question;
    arguments.insert(arguments.end(), {"--dtype", dtype});
    return RunJson(arguments)["devices"][0]["memory_bytes"].get<double>();
  };
  EXPECT_NEAR(memory("fp16") / memory("fp32"), 0.5, 0.05);
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

TEST_F(CliTest, OptionsThatDoNotApplyAreRefused) {
  const std::string rows = Write("k.csv", "device,dtype,name,rows,cols,operands\nt4,fp32,add,64,64,2\n");
  EXPECT_EQ(Run({"predict", "--kernels", rows, "--out", Path("p.csv")}).status, 0);
  EXPECT_EQ(Run({"predict", "--kernels", rows, "--out", Path("p.csv"), "--dtype", "fp16"}).status, kUsage);
  EXPECT_EQ(Run({"predict", kResnet, "--batch", "1", "--device", "t4", "--out", Path("p.csv")}).status, kUsage);
}

TEST_F(CliTest, OptionsBeforeTheModelLeaveItAlone) {
  EXPECT_EQ(Run({"predict", "--device", "t4", "--dim", "batch=2", kResnet}).status, 0);
}

TEST_F(CliTest, WrongUsageExitsWithTwoAndPointsToHelp) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{},
                                                    {"frobnicate"},
                                                    {"predict"},
                                                    {"predict", kResnet, "--batch", "0"},
                                                    {"predict", kResnet, "--nonsense"},
                                                    {"fit"},
                                                    {"eval"},
                                                    {"plan", "--op", "gemm"}}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, kUsage) << outcome.standard_error;
    EXPECT_EQ(outcome.standard_output, "");
    EXPECT_THAT(outcome.standard_error, HasSubstr("--help"));
  }
  EXPECT_EQ(Run({"--help"}).status, 0);
  EXPECT_EQ(Run({"predict", "--help"}).status, 0);
  EXPECT_EQ(Run({"--version"}).status, 0);
}

TEST_F(CliTest, TracesAreModelsAndMeasurements) {
  const std::string folder = GPUETA_SOURCE_DIR "/tests/data/traces/";
  for (const char* name : {"synthetic_cuda.pt.trace.json", "synthetic_nsight.sqlite"}) {
    const std::string trace = folder + name;
    const json content = RunJson({"inspect", trace});
    EXPECT_EQ(content["source_ops"]["aten::addmm"], 2);
    EXPECT_EQ(content["counts"]["gemm"], 4);
    for (const char* mode : {"eager", "graph"}) {
      const json answer = RunJson({"predict", trace, "--device", "h100-sxm,t4", "--mode", mode});
      ASSERT_EQ(answer["devices"].size(), 2U);
      EXPECT_GT(answer["devices"][0]["latency_us"]["p50"], 0);
    }
    EXPECT_EQ(RunJson({"import-trace", trace, "--out", Path("rows.csv")})["rows"], 3);
    EXPECT_EQ(RunJson({"eval", "--measurements", Path("rows.csv.gemm.csv")})["n"], 2);
  }
  ExpectOneLine(Run({"import-trace", kResnet, "--out", Path("rows.csv")}), HasSubstr("resnet50.onnx: is no JSON"));
  ExpectOneLine(Run({"import-trace", Write("empty.sqlite", ""), "--out", Path("rows.csv")}),
                HasSubstr("has no CUDA kernels"));
}

TEST_F(CliTest, ModelsThatAreNone) {
  const std::string whole = ReadFile(kResnet);
  ExpectOneLine(Run({"inspect", Write("cut.onnx", whole.substr(0, whole.size() / 2))}), HasSubstr("cut.onnx"));
  ExpectOneLine(Run({"predict", Path("none.onnx"), "--device", "t4"}), HasSubstr("No such file"));
  ExpectOneLine(Run({"predict", Write("noise.onnx", std::string(4096, '\x9f')), "--device", "t4"}),
                HasSubstr("not an ONNX file"));
  ExpectOneLine(Run({"predict", Write("empty.graph", ""), "--device", "t4"}), HasSubstr("nodes"));
  ExpectOneLine(Run({"predict",
                     Write("negative.graph",
                           "parameter_bytes: -7 nodes { kernel { dtype: DTYPE_FP32 "
                           "gemm { m: 1 n: 4 k: 4 } } }"),
                     "--device", "t4"}),
                HasSubstr("parameter_bytes"));
  ExpectOneLine(Run({"predict", Write("noise.graph", "nodes { kernel {"), "--device", "t4"}), HasSubstr("noise.graph"));
}

TEST_F(CliTest, WhatAPredictionLacksIsNamed) {
  ExpectOneLine(Run({"predict", kBert, "--device", "t4", "--batch", "1"}),
                AllOf(HasSubstr("sequence"), HasSubstr("--dim")));
  ExpectOneLine(Run({"predict", kResnet, "--device", "gtx-9999", "--batch", "1"}),
                AllOf(HasSubstr("gtx-9999"), HasSubstr("gpueta devices")));
  ExpectOneLine(Run({"predict", kResnet, "--device", "t4", "--batch", "9000000000000000000"}), HasSubstr("dims"));
}

TEST_F(CliTest, MeasurementsThatAreWrongNameTheirLineAndColumn) {
  const auto judge = [&](const std::string& text) { return Run({"eval", "--measurements", Write("m.csv", text)}); };
  const std::string good = "t4,test,kernel,fp32,add,64,1024,2,,,,,,,3.5\n";
  ExpectOneLine(judge("op,dtype\nvector,fp32\n"), HasSubstr("m.csv:1"));
  ExpectOneLine(judge(kVectorHeader + good + "t4,test,kernel,fp32,add,64,1024,2,,,,,,,nan\n"),
                AllOf(HasSubstr("m.csv:3"), HasSubstr("latency_us")));
  ExpectOneLine(judge(kVectorHeader + "t4,test,kernel,fp32,add,64,1024,2,,,,,,,0\n"),
                AllOf(HasSubstr("m.csv:2"), HasSubstr("latency_us")));
  ExpectOneLine(judge(kVectorHeader + "t4,test,kernel,fp32,add,-64,1024,2,,,,,,,1\n"),
                AllOf(HasSubstr("m.csv:2"), HasSubstr("rows")));
  ExpectOneLine(judge(kVectorHeader + "t4,test,kernel,fp33,add,64,1024,2,,,,,,,1\n"),
                AllOf(HasSubstr("m.csv:2"), HasSubstr("fp33")));
  ExpectOneLine(
      Run({"fit", "--device", "t4", "--measurements", Write("none.csv", kVectorHeader), "--out", Path("x.profile")}),
      HasSubstr("no measurements of t4"));
  EXPECT_FALSE(std::filesystem::exists(Path("x.profile")));
  for (const char* command : {"fit", "plan"}) {
    std::vector<std::string> line = {command, "--device", "l40s", "--out", Path("x.out")};
    const std::string rows = Write("of_t4.csv", kVectorHeader + good);
    for (const std::string& more :
         command == std::string("fit")
             ? std::vector<std::string>{"--measurements", rows}
             : std::vector<std::string>{"--op", "vector", "--budget", "3", "--measured", rows})
      line.push_back(more);
    ExpectOneLine(Run(line), AllOf(HasSubstr("of_t4.csv:2"), HasSubstr("is t4, but --device is l40s")));
    EXPECT_FALSE(std::filesystem::exists(Path("x.out")));
  }
}

TEST_F(CliTest, ProfilesThatAreDamagedAreRefused) {
  const std::string whole = ReadFile(GPUETA_SOURCE_DIR "/profiles/t4.profile");
  ExpectOneLine(Run({"profile", "verify", Write("cut.profile", whole.substr(0, whole.size() / 2))}),
                HasSubstr("cut.profile"));
  std::string flipped = whole;
  flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 1);
  ExpectOneLine(Run({"profile", "verify", Write("flipped.profile", flipped)}), HasSubstr("flipped.profile"));
  EXPECT_EQ(Run({"profile", "verify", GPUETA_SOURCE_DIR "/profiles/t4.profile"}).status, 0);
}

TEST_F(CliTest, APlaceThatCannotBeWrittenLeavesWhatWasThere) {
  std::string rows = kVectorHeader;
  for (int n = 1; n <= 40; ++n) rows += fmt::format("t4,test,kernel,fp32,add,{},1024,2,,,,,,,{}\n", 64 * n, 3 + n);
  const std::string measured = Write("vector.csv", rows);
  ExpectOneLine(Run({"fit", "--device", "t4", "--measurements", measured, "--out", "/proc/none.profile"}),
                HasSubstr("/proc/none.profile"));
  ExpectOneLine(Run({"plan", "--op", "vector", "--device", "t4", "--budget", "3", "--candidates", measured, "--out",
                     "/proc/plan.csv"}),
                HasSubstr("/proc/plan.csv"));
  // A full disk.
  ExpectOneLine(Run({"plan", "--op", "vector", "--device", "t4", "--budget", "3", "--candidates", measured, "--out",
                     "/dev/full"}),
                HasSubstr("/dev/full"));
}

// Additions on a T4 of 64·n rows, two measurements each.
std::string AdditionsOn(const std::string& device, int shapes, double us_per_row_block) {
  std::string rows;
  for (int n = 1; n <= shapes; ++n) {
    for (const double noise : {0.98, 1.02}) {
      rows += fmt::format("{},test,kernel,fp32,add,{},1024,2,,,,,,,{}\n", device, 64 * n,
                          noise * (3 + us_per_row_block * n));
    }
  }
  return rows;
}

TEST_F(CliTest, EvalSaysWhenAProfileDoesNotAnswer) {
  std::filesystem::create_directory(Path("none"));
  const Outcome judged = Run({"--profiles", Path("none"), "eval", "--measurements",
                              Write("rows.csv", kVectorHeader + AdditionsOn("t4", 40, 0.8))});
  EXPECT_EQ(judged.status, 0);
  EXPECT_THAT(judged.standard_output, HasSubstr("from the data sheet alone: 80"));
}

TEST_F(CliTest, EvalSaysHowSureItsFiguresAre) {
  const std::string rows = Write("rows.csv", kVectorHeader + AdditionsOn("t4", 40, 0.8));
  const json all = RunJson({"eval", "--measurements", rows});
  EXPECT_EQ(all["n"], 80);
  EXPECT_EQ(all["shapes"], 40);
  for (const char* figure : {"mape", "median", "ape_p90", "bias", "below_p90", "below_p99"}) {
    const json& interval = all[std::string(figure) + "_ci95"];
    ASSERT_EQ(interval.size(), 2U) << figure;
    EXPECT_LE(interval[0].get<double>(), all[figure].get<double>()) << figure;
    EXPECT_GE(interval[1].get<double>(), all[figure].get<double>()) << figure;
  }
  EXPECT_TRUE(all["ape_p99_ci95"].is_null());  // 40 shapes do not bound it
  EXPECT_EQ(all, RunJson({"eval", "--measurements", rows}));
  EXPECT_NE(all["mape_ci95"], RunJson({"eval", "--measurements", rows, "--seed", "1"})["mape_ci95"]);
  EXPECT_THAT(Run({"eval", "--measurements", rows}).standard_output, HasSubstr("±"));
  const std::string one = Write("one.csv", kVectorHeader + AdditionsOn("t4", 1, 0.8));
  EXPECT_TRUE(RunJson({"eval", "--measurements", one})["mape_ci95"].is_null());
  EXPECT_THAT(Run({"eval", "--measurements", one}).standard_output, Not(HasSubstr("±")));
}

TEST_F(CliTest, EvalGroupsByEveryColumn) {
  const std::string vectors = Write("v.csv", kVectorHeader + AdditionsOn("t4", 12, 8));
  const std::string products = Write("g.csv",
                                     "device,dtype,layer,batch,m,n,k,kernel,grid_x,latency_us\n"
                                     "t4,fp16,gemm,1,64,1024,64,tiled,8,9\nt4,fp16,gemm,1,64,512,64,tiled,8,9\n"
                                     "t4,fp16,gemm,1,64,64,64,,,9\n");
  std::vector<std::string> columns = {"op", "label", "table", "provenance", "estimator", "bound", "regime", "size"};
  std::istringstream header(kVectorHeader.substr(0, kVectorHeader.size() - 1));
  for (std::string column; std::getline(header, column, ',');) columns.push_back(column);
  for (const std::string& column : columns) {
    std::int64_t rows = 0;
    for (const json& group : RunJson({"eval", "--measurements", vectors, "--by", column})) {
      EXPECT_TRUE(group[column].is_string()) << column;
      rows += group["n"].get<std::int64_t>();
    }
    EXPECT_EQ(rows, 24) << column;
  }
  // Numbers sort as numbers; what some rows lack is empty; n is a dim too.
  const json by_dim = RunJson({"eval", "--measurements", vectors, products, "--by", "op,rows"});
  ASSERT_EQ(by_dim.size(), 13U);
  EXPECT_EQ(by_dim[0]["op"], "gemm");
  EXPECT_EQ(by_dim[0]["rows"], "");
  EXPECT_EQ(by_dim[1]["rows"], "64");
  EXPECT_EQ(by_dim[12]["rows"], "768");
  const json by_n = RunJson({"eval", "--measurements", products, "--by", "n"});
  ASSERT_EQ(by_n.size(), 3U);
  EXPECT_EQ(by_n[0]["by_n"], "64");
  EXPECT_EQ(by_n[2]["by_n"], "1024");
  EXPECT_EQ(by_n[2]["n"], 1);
  const json by_size = RunJson({"eval", "--measurements", vectors, "--by", "size"});
  ASSERT_EQ(by_size.size(), 2U);
  EXPECT_EQ(by_size[0]["size"], "10 µs to 100 µs");
  ExpectOneLine(Run({"eval", "--measurements", vectors, "--by", "seq_len"}),
                AllOf(HasSubstr("seq_len"), HasSubstr("operands"), HasSubstr("regime")));
}

TEST_F(CliTest, EvalOfNothingIsAnErrorInTheSameShape) {
  const std::string none = Write("none.csv", kVectorHeader);
  for (const std::vector<std::string>& by : {std::vector<std::string>{}, {"--by", "device"}}) {
    std::vector<std::string> arguments = {"eval", "--measurements", none};
    arguments.insert(arguments.end(), by.begin(), by.end());
    ExpectOneLine(Run(arguments), AllOf(HasSubstr("none.csv"), HasSubstr("no measurements")));
    arguments.insert(arguments.begin(), "--json");
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, kFailed);
    EXPECT_THAT(outcome.standard_error, HasSubstr("no measurements"));
    const json answer = json::parse(outcome.standard_output);
    if (by.empty()) {
      EXPECT_EQ(answer["n"], 0);
    } else {
      EXPECT_EQ(answer, json::array());
    }
  }
}

// One profile fitted to the rows, one to rows of 1.3 times the time.
TEST_F(CliTest, EvalComparesTwoProfilesOnTheSameRows) {
  const std::string rows = Write("rows.csv", kVectorHeader + AdditionsOn("t4", 40, 0.8));
  const std::string slow = Write("slow.csv", kVectorHeader + AdditionsOn("t4", 40, 1.04));
  for (const auto& [measured, profile] : {std::pair(rows, "good.profile"), {slow, "slow.profile"}}) {
    ASSERT_EQ(Run({"fit", "--device", "t4", "--measurements", measured, "--out", Path(profile)}).status, 0);
  }
  const auto compare = [&](const std::string& profile, const std::string& against) {
    return RunJson({"eval", "--profile", Path(profile), "--against", Path(against), "--measurements", rows});
  };
  const json better = compare("good.profile", "slow.profile")["groups"][0];
  EXPECT_GT(better["mape_difference"].get<double>(), 0.1);
  EXPECT_EQ(better["difference_shown"], true);
  EXPECT_GT(better["nearer"]["profile"].get<int>(), 60);
  const json worse = compare("slow.profile", "good.profile")["groups"][0];
  EXPECT_EQ(worse["mape_difference"].get<double>(), -better["mape_difference"].get<double>());
  const json same = compare("good.profile", "good.profile")["groups"][0];
  EXPECT_EQ(same["difference_shown"], false);
  EXPECT_EQ(same["nearer"]["equal"], 80);
  const std::vector<std::string> text = {"eval",  "--profile", Path("good.profile"), "--measurements",
                                         rows,    "--against", Path("good.profile"), "--by",
                                         "device"};
  EXPECT_THAT(Run(text).standard_output, HasSubstr("no difference shown"));
}

TEST_F(CliTest, EvalComparesOnlyRowsThatBothCanAnswer) {
  const std::string mine = Write("mine.csv", kVectorHeader + AdditionsOn("mine", 40, 0.8));
  const std::string spec = Write("s.csv", "slug,sm_count,mem_bandwidth_gb_s,fp32_tflops\nmine,100,1000,10\n");
  const std::string profile = Path("mine.profile");
  ASSERT_EQ(Run({"fit", "--device", "mine", "--spec", spec, "--measurements", mine, "--out", profile}).status, 0);
  const std::string t4 = GPUETA_SOURCE_DIR "/profiles/t4.profile";
  const std::string both = Write("both.csv", kVectorHeader + AdditionsOn("mine", 10, 0.8) + AdditionsOn("t4", 40, 0.8));
  const std::vector<std::string> arguments = {"eval", "--profile",      t4,  profile, "--against",
                                              t4,     "--measurements", both};
  const json answer = RunJson(arguments);
  EXPECT_EQ(answer["groups"][0]["n"], 80);
  ASSERT_EQ(answer["unanswered"].size(), 1U);
  EXPECT_EQ(answer["unanswered"][0]["by"], "against");
  EXPECT_EQ(answer["unanswered"][0]["rows"], 20);
  EXPECT_THAT(Run(arguments).standard_output,
              AllOf(HasSubstr("cannot answer them: 20;"), HasSubstr("--against"), HasSubstr("mine")));
  ExpectOneLine(Run({"eval", "--profile", profile, "--against", t4, "--measurements", mine}),
                AllOf(HasSubstr("--against"), HasSubstr("80 of 80"), HasSubstr("mine")));
  const Outcome none = Run({"--json", "eval", "--profile", profile, "--against", t4, "--measurements", mine});
  EXPECT_EQ(none.status, kFailed);
  const json empty = json::parse(none.standard_output);
  EXPECT_EQ(empty["unanswered"][0]["rows"], 80);
  EXPECT_EQ(empty["groups"][0]["n"], 0);
  for (const auto& [key, value] : answer["groups"][0].items()) EXPECT_TRUE(empty["groups"][0].contains(key)) << key;
}

TEST_F(CliTest, EvalWritesAReportThatStandsAlone) {
  const std::string rows = Write("a<b>.csv", kVectorHeader + AdditionsOn("t4", 40, 0.8));
  const std::string near = Write("near.csv", kVectorHeader + AdditionsOn("t4", 20, 0.8));
  const std::vector<std::string> arguments = {"eval", "--measurements", rows,          "--measured-with",
                                              near,   "--html",         Path("r.html")};
  ASSERT_EQ(Run(arguments).status, 0);
  const std::string page = ReadFile(Path("r.html"));
  for (const char* section : {"summary", "scatter", "size", "coverage", "worst"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format("<section id=\"{}\">", section)));
  }
  EXPECT_THAT(page, AllOf(HasSubstr("a&lt;b&gt;.csv"), HasSubstr("<svg"), HasSubstr("octaves away"),
                          HasSubstr("% memory"), HasSubstr("table vector fp32")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<b>")), Not(HasSubstr("<script")), Not(HasSubstr("http"))));
  ASSERT_EQ(Run(arguments).status, 0);
  EXPECT_EQ(ReadFile(Path("r.html")), page);
  ExpectOneLine(Run({"eval", "--measurements", rows, "--html", "/proc/r.html"}), HasSubstr("/proc/r.html"));
  EXPECT_EQ(Run({"eval", "--measurements", rows, "--measured-with", near}).status, kUsage);
}

TEST_F(CliTest, MaxBatchKeepsTheLimitAndTheMemory) {
  const json answer = RunJson({"max-batch", kDecoder, "--device", "h100-sxm", "--tpot", "10ms", "--ctx", "1024,16384"});
  EXPECT_EQ(answer["kv_bytes_per_token"], 32768);  // 16 layers · 2 · 8 heads · 64 · 2 bytes
  ASSERT_EQ(answer["contexts"].size(), 2U);
  EXPECT_GT(answer["contexts"][0]["sequences"], answer["contexts"][1]["sequences"]);
  for (const json& row : answer["contexts"]) EXPECT_LE(row["step_us"]["p90"], 10'000.0001);
  const json slower = RunJson(
      {"max-batch", kDecoder, "--device", "h100-sxm", "--tpot", "10ms", "--ctx", "16384", "--step-overhead", "3ms"});
  EXPECT_LT(slower["contexts"][0]["sequences"], answer["contexts"][1]["sequences"]);
  ExpectOneLine(Run({"max-batch", kDecoder, "--device", "h100-sxm", "--ctx", "10", "--tpot", "fast"}),
                AllOf(HasSubstr("--tpot"), HasSubstr("50ms")));
}

TEST_F(CliTest, PlanServingTriesEveryConfiguration) {
  const json answer = RunJson({"plan-serving", kDecoder, "--devices", "h100-sxm,l40s", "--tp", "1,2", "--ttft", "500ms",
                               "--tpot", "20ms", "--isl", "512", "--osl", "128", "--price", "h100-sxm=2,l40s=1"});
  ASSERT_EQ(answer["configurations"].size(), 4U);
  for (const json& configuration : answer["configurations"]) {
    EXPECT_GT(configuration["requests_per_s"], 0) << configuration;
    EXPECT_LE(configuration["tpot_us"], 20'000.0001);
  }
  double last = 1e9;  // along the front slower tokens are cheaper
  for (const json& point : answer["front"]) {
    EXPECT_LT(point["usd_per_million_output_tokens"], last);
    last = point["usd_per_million_output_tokens"];
  }
  ExpectOneLine(Run({"plan-serving", kDecoder, "--devices", "h100-sxm", "--price", "t4=1"}), HasSubstr("--price t4"));
}

TEST_F(CliTest, AdmitDecidesForEachReplica) {
  const std::string state = Write("state.json", R"({"replicas": [
      {"name": "idle", "device": "h100-sxm"},
      {"name": "busy", "device": "h100-sxm", "metrics": {"running": 30, "waiting": 400, "kv_usage": 0.5}}],
    "candidate": {"prompt_tokens": 2000}, "limits": {"ttft_ms": 200, "tpot_ms": 50}})");
  const json answer = RunJson({"admit", kDecoder, "--state", state});
  EXPECT_EQ(answer["recommended"], "idle");
  EXPECT_EQ(answer["replicas"][0]["admit"], true);
  EXPECT_EQ(answer["replicas"][1]["admit"], false);
  EXPECT_EQ(answer["replicas"][1]["binds"], "ttft");
  const std::string wrong = Write("wrong.json", R"({"replicas": [{"device": "h100-sxm", "gpus": 2}]})");
  ExpectOneLine(Run({"admit", kDecoder, "--state", wrong}), AllOf(HasSubstr("wrong.json"), HasSubstr("gpus")));
}

TEST_F(CliTest, ASplitFleetNeedsBothPoolsAndNamesTellReplicasApart) {
  const auto ask = [&](const std::string& replicas) {
    return Run({"admit", kDecoder, "--state",
                Write("state.json", R"({"replicas": [)" + replicas + R"(], "candidate": {"prompt_tokens": 20}})")});
  };
  ExpectOneLine(ask(R"({"name": "p", "device": "h100-sxm", "role": "prefill"})"),
                AllOf(HasSubstr("replicas[0].role"), HasSubstr("needs a decode replica")));
  ExpectOneLine(ask(R"({"name": "a", "device": "h100-sxm"}, {"name": "a", "device": "h100-sxm"})"),
                AllOf(HasSubstr("replicas[1].name"), HasSubstr("twice")));
}

TEST_F(CliTest, NumbersThatAreNotFiniteAreRefused) {
  ExpectOneLine(Run({"plan-serving", kDecoder, "--devices", "h100-sxm", "--price", "h100-sxm=inf"}),
                HasSubstr("--price h100-sxm=inf"));
  for (const char* time : {"inf", "infs", "nanms", "1e308s", "-5ms", "0ms"}) {
    ExpectOneLine(Run({"max-batch", kDecoder, "--device", "h100-sxm", "--ctx", "10", "--tpot", time}),
                  HasSubstr("--tpot"));
    ExpectOneLine(Run({"max-batch", kDecoder, "--device", "h100-sxm", "--ctx", "10", "--step-overhead", time}),
                  HasSubstr("--step-overhead"));
  }
  ExpectOneLine(Run({"max-batch", kDecoder, "--device", "h100-sxm", "--ctx", "10", "--memory-share", "nan"}),
                HasSubstr("memory_share"));
  ExpectOneLine(Run({"plan-serving", kDecoder, "--devices", "h100-sxm", "--quantile", "nan"}), HasSubstr("quantile"));
}

TEST_F(CliTest, PlanServingNamesADeviceThatIsNotKnown) {
  ExpectOneLine(Run({"plan-serving", kDecoder, "--devices", "h100-sxm,h1000"}),
                AllOf(HasSubstr("--devices"), HasSubstr("h1000")));
}

TEST_F(CliTest, FindsTheOverheadOfAnEngineInItsRecords) {
  const auto step_ms = [&](int sequences) {
    json step = {{"decode_context", std::vector<int>(static_cast<std::size_t>(sequences), 1000)}};
    const json answer =
        RunJson({"predict", kDecoder, "--device", "h100-sxm", "--step", Write("step.json", step.dump())});
    return std::pair(step, answer["devices"][0]["latency_us"]["p50"].get<double>() / 1e3);
  };
  json records = json::array();
  for (const int sequences : {1, 20, 60, 100}) {
    const auto [step, ms] = step_ms(sequences);
    records.push_back({{"step", step}, {"latency_ms", ms + 0.8 + 0.01 * sequences}});
  }
  const json fit =
      RunJson({"fit-overhead", kDecoder, "--device", "h100-sxm", "--records", Write("records.json", records.dump())});
  EXPECT_NEAR(fit["step_us"].get<double>(), 800, 1);
  EXPECT_NEAR(fit["token_us"].get<double>(), 10, 0.1);
  EXPECT_LT(fit["mape_after"].get<double>(), 1e-3);
  ExpectOneLine(Run({"fit-overhead", kDecoder, "--device", "h100-sxm", "--records", Write("few.json", "[]")}),
                AllOf(HasSubstr("few.json"), HasSubstr("at least 2")));
}

TEST_F(CliTest, AnswersAboutEnginesOverAServerAsInProcess) {
  auto server = ServerProcess::Start(GPUETA_SERVER_BINARY, {"--listen", "127.0.0.1:0", "--metrics-listen", "off"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string state = Write("state.json", R"({"replicas": [
      {"name": "a", "device": "h100-sxm", "tp": 2, "kv_dtype": "fp8", "cached_tokens": 500,
       "running": [{"prompt_tokens": 900, "generated_tokens": 40, "since_first_token_ms": 200}],
       "waiting": [{"prompt_tokens": 1500, "since_arrival_ms": 30}]},
      {"name": "b", "device": "l40s", "output_lengths": [10, 20, 400], "metrics": {"running": 20, "kv_usage": 0.4}}],
    "candidate": {"prompt_tokens": 2000}, "limits": {"ttft_ms": 500, "tpot_ms": 50, "quantile": 0.95}})");
  const std::string step = Write("step.json", R"({"prefill": [{"new_tokens": 512}], "decode_context": [100, 3000]})");
  const std::string records = Write("records.json", R"([{"step": {"decode_context": [10]}, "latency_ms": 4},
      {"step": {"decode_context": [10, 20, 30]}, "latency_ms": 5}])");
  const std::vector<std::vector<std::string>> commands = {
      {"admit", kDecoder, "--state", state, "--step-overhead", "300us"},
      {"max-batch", kDecoder, "--device", "h100-sxm", "--tp", "2", "--tpot", "10ms", "--ctx", "1024,16384"},
      {"predict", kDecoder, "--device", "h100-sxm,l40s", "--step", step, "--tp", "2", "--token-overhead", "2us"},
      {"fit-overhead", kDecoder, "--device", "l40s", "--records", records},
  };
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> remote = {"--server", (*server)->address()};
    remote.insert(remote.end(), command.begin(), command.end());
    EXPECT_EQ(RunJson(remote), RunJson(command)) << command[0];  // to the bit
  }
  // By its name, once it is registered.
  ASSERT_EQ(Run({"--server", (*server)->address(), "model", "register", kDecoder, "--alias", "llama"}).status, 0);
  EXPECT_EQ(RunJson({"--server", (*server)->address(), "admit", "llama", "--state", state}),
            RunJson({"admit", kDecoder, "--state", state}));
  const std::string wrong =
      Write("wrong.json", R"({"replicas": [{"device": "h1000"}], "candidate": {"prompt_tokens": 1}})");
  for (const std::vector<std::string>& where : {std::vector<std::string>{}, {"--server", (*server)->address()}}) {
    std::vector<std::string> command = where;
    command.insert(command.end(), {"admit", kDecoder, "--state", wrong});
    ExpectOneLine(Run(command), AllOf(HasSubstr("wrong.json"), HasSubstr("engines[0]"), HasSubstr("h1000")));
  }
}

TEST_F(CliTest, NoServerSaysSo) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"health"}, {"profile", "list"}, {"predict", "bert", "--device", "t4"}}) {
    std::vector<std::string> arguments = {"--server", "127.0.0.1:1"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    ExpectOneLine(Run(arguments), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("gpueta-server")));
  }
}

}  // namespace
}  // namespace gpueta::testing_util
