// The command line as a user or a script meets it: exit statuses, JSON, one
// clear line for each kind of bad input.
#include <algorithm>
#include <filesystem>
#include <map>

#include "client/report/testing_xml.h"
#include "core/base/errors.h"
#include "tests/integration/cli_fixture.h"

namespace gpueta::testing_util {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

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
  // By what its driver calls it, as nvidia-smi prints it.
  EXPECT_EQ(RunJson({"predict", kResnet, "--device", "Tesla T4", "--batch", "8"})["devices"][0]["latency_us"],
            answer["devices"][1]["latency_us"]);
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

TEST_F(CliTest, LinesOfKindsAndOfLayersAddUpToTheKernels) {
  for (const auto& [model, layer] : {std::pair(kResnet, "/layer1/layer1.0/conv1"), std::pair(kDecoder, "layers.3")}) {
    for (const std::string by : {"kind", "layer"}) {
      std::vector<std::string> ask = {"predict", model, "--device", "h100-sxm", "--batch", "2", "--by", by};
      if (model == kDecoder) ask.insert(ask.end(), {"--seq", "64"});
      const json device = RunJson(ask)["devices"][0];
      double us = 0, share = 0;
      std::vector<std::string> names;
      for (const json& line : device[by + "s"]) {
        us += line["us"].get<double>();
        share += line["share"].get<double>();
        names.push_back(line["name"]);
        EXPECT_GT(line["count"], 0);
      }
      EXPECT_NEAR(us, device["breakdown_us"]["kernels"], 1e-6 * us) << by;
      EXPECT_LT(share, 1);
      EXPECT_THAT(names, Contains(by == "kind" ? "gemm" : layer));
      ask.insert(ask.end(), {"--csv"});
      EXPECT_EQ(Run(ask).standard_output.substr(0, 12 + by.size()), "device," + by + ",coun");
    }
  }
  const Outcome table = Run({"predict", kResnet, "--device", "t4", "--batch", "64", "--mode", "graph", "--by", "kind"});
  EXPECT_THAT(table.standard_output, AllOf(HasSubstr("##"), HasSubstr("compute"), HasSubstr("conv2d")));
  ExpectOneLine(Run({"predict", kResnet, "--device", "t4", "--by", "op"}), HasSubstr("kernel, kind, layer"));
}

// A trace names kernels and grids.
TEST_F(CliTest, ExplainSaysHowKernelsRunWhereThatIsKnown) {
  const std::string graph = Write("named.graph",
                                  "nodes { kernel { dtype: DTYPE_FP16 gemm { m: 4096 n: 4096 k: 4096 batch: 1 } launch "
                                  "{ kernel: \"hgemm_128x128\" grid_x: 32 grid_y: 32 grid_z: 1 } } }");
  const Outcome table = Run({"predict", graph, "--device", "t4", "--explain"});
  EXPECT_THAT(table.standard_output,
              AllOf(HasSubstr("configuration"), HasSubstr("hgemm_128x128"), HasSubstr("waves"), HasSubstr("p99 each")));
  const json kernel = RunJson({"predict", graph, "--device", "t4"})["devices"][0]["kernels"][0];
  EXPECT_EQ(kernel["configuration"], "hgemm_128x128");
  EXPECT_EQ(kernel["waves"], 26);  // 1024 blocks over 40 SMs
  EXPECT_THAT(Run({"predict", kResnet, "--device", "t4", "--explain"}).standard_output,
              Not(HasSubstr("configuration")));
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
  // What a device runs unasked is shown, too.
  const Outcome eager = Run({"predict", kResnet, "--device", "t4", "--explain"});
  EXPECT_THAT(eager.standard_output, HasSubstr("pass restore-batch-norm: "));
  const Outcome graph = Run({"predict", kResnet, "--device", "t4", "--mode", "graph", "--explain"});
  EXPECT_THAT(graph.standard_output, Not(HasSubstr("restore-batch-norm")));
  const json asked =
      RunJson({"predict", kResnet, "--device", "t4", "--mode", "graph", "--passes", "restore_batch_norm"});
  EXPECT_TRUE(std::ranges::any_of(asked["devices"][0]["kernels"],
                                  [](const json& k) { return k["name"].get<std::string>().ends_with("batch_norm"); }));
  ExpectOneLine(Run({"predict", kBert, "--device", "t4", "--seq", "8", "--passes", "fuse-all"}),
                AllOf(HasSubstr("fuse-all"), HasSubstr("fuse-residual-norms")));
}

// What is fused already has no backward.
TEST_F(CliTest, ATrainingStepIsFusedBehindItsBackwardPass) {
  const auto passes = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"predict", kBert, "--device", "t4", "--batch", "1", "--seq", "32", "--train",
                                     "--optimiser", "none", "--explain"});
    return RunJson(options)["passes"].get<std::vector<std::string>>();
  };
  const std::vector<std::string> eager = passes({});
  EXPECT_THAT(eager.at(0), HasSubstr("backward"));
  for (const auto& fused : {passes({"--mode", "compiled"}), passes({"--passes", "fuse-elementwise"})}) {
    EXPECT_EQ(fused.at(0), eager.at(0));
    EXPECT_THAT(fused.at(1), HasSubstr("fuse-elementwise"));
  }
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
  // As the prompt's own count, and what a step with one token would do.
  EXPECT_EQ(counts["flops_per_token"]["context"], 16);
  EXPECT_EQ(counts["flops_per_token"]["prefill"], counts["flops"].get<double>() / 16);
  const json decode = RunJson({"inspect", kMixture, "--phase", "decode", "--kv-len", "16", "--batch", "1"});
  EXPECT_EQ(counts["flops_per_token"]["decode"], decode["flops"].get<double>());
  EXPECT_TRUE(RunJson({"inspect", kResnet})["flops_per_token"].is_null());
  EXPECT_THAT(Run({"inspect", kMixture, "--seq", "16"}).standard_output,
              AllOf(HasSubstr("a token of prefill at 16 tokens"), HasSubstr("a token of decode at 16 tokens")));
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
  ExpectOneLine(emulate({"--device", "t4", "--on", "replay:rows.csv"}), HasSubstr("auto, cpu or cuda:N"));
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
  const std::vector<std::string> of_bert = {"--device", "a100-sxm4-80gb", "--batch", "2", "--seq", "64"};
  const std::vector<std::string> of_resnet = {"--device", "titan-xp,a100-sxm4-80gb", "--batch",
                                              "2"};  // with folded norms
  for (const auto& [model, dims] : {std::pair(kBert, of_bert), std::pair(kResnet, of_resnet)}) {
    EXPECT_EQ(Run({"--server", address, "model", "register", model, "--alias", "registered"}).status, 0);
    std::vector<std::string> local = {"predict", model};
    local.insert(local.end(), dims.begin(), dims.end());
    const json expected = RunJson(local)["devices"];
    for (const std::string& asked : {std::string("registered"), std::string(model)}) {
      std::vector<std::string> remote = {"--server", address, "predict", asked};
      remote.insert(remote.end(), dims.begin(), dims.end());
      const json got = RunJson(remote)["devices"];
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t d = 0; d < got.size(); ++d) {
        EXPECT_EQ(got[d]["latency_us"], expected[d]["latency_us"]) << asked;
        EXPECT_EQ(got[d]["breakdown_us"], expected[d]["breakdown_us"]) << asked;
      }
    }
  }
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

TEST_F(CliTest, AHostThatIsKnownIsTakenAsItIs) {
  const auto us = [&](std::vector<std::string> host) {
    std::vector<std::string> arguments = {"predict", kResnet, "--device", "titan-xp", "--batch", "1"};
    arguments.insert(arguments.end(), host.begin(), host.end());
    return RunJson(arguments)["devices"][0]["latency_us"]["p50"].get<double>();
  };
  EXPECT_GT(us({"--host-issue", "60us"}), 2 * us({"--host-issue", "10us"}));
  EXPECT_GT(us({"--host-copy", "0.1"}), 1.1 * us({"--host-copy", "10"}));
  for (const auto& [option, value] : {std::pair("--host-issue", "1e9s"), std::pair("--host-copy", "nan"),
                                      std::pair("--host-copy", "-1"), std::pair("--host-copy", "1e300")}) {
    const Outcome outcome = Run({"predict", kResnet, "--device", "t4", "--batch", "1", option, value});
    EXPECT_NE(outcome.status, 0) << option << " " << value;
    EXPECT_THAT(outcome.standard_error, HasSubstr(option));
  }
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

// On the traced device a trace takes what it took, on others by the ratio of the
// model, and at another batch likewise.
TEST_F(CliTest, ATraceIsPredictedForOtherDevicesAndBatches) {
  const std::string trace = GPUETA_SOURCE_DIR "/tests/data/traces/synthetic_cuda.pt.trace.json";
  const auto kernels_us = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"predict", trace, "--mode", "graph"});
    return RunJson(options)["devices"][0]["breakdown_us"]["kernels"].get<double>();
  };
  EXPECT_NEAR(kernels_us({"--device", "a100-sxm4-80gb"}), 171, 1e-6);
  EXPECT_GT(kernels_us({"--device", "t4"}), 171);
  EXPECT_LT(kernels_us({"--device", "h100-sxm"}), 171);
  EXPECT_NEAR(kernels_us({"--device", "a100-sxm4-80gb", "--traced-batch", "64"}), 171, 1e-6);
  const double larger = kernels_us({"--device", "a100-sxm4-80gb", "--traced-batch", "64", "--batch", "1024"});
  EXPECT_GT(larger, 171);
  EXPECT_LT(larger, 16 * 171);
  ExpectOneLine(Run({"predict", kResnet, "--device", "t4", "--traced-batch", "2"}), HasSubstr("is no trace"));
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

TEST_F(CliTest, LeavingOutCorrectionsNeedsAServer) {
  ExpectOneLine(Run({"predict", kBert, "--device", "t4", "--no-correction"}),
                AllOf(HasSubstr("--no-correction"), HasSubstr("--server")));
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
