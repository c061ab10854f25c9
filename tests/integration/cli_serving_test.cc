// Commands about engines: admission, largest batches, plans, their records.
#include "core/base/errors.h"
#include "tests/integration/cli_fixture.h"

namespace gpueta::testing_util {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

TEST_F(CliTest, MaxBatchFindsTheRateOfALoad) {
  const auto rate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"max-batch", kDecoder, "--device", "h100-sxm", "--isl",
                                        "512",       "--osl",  "128",      "--tpot",   "10ms"};
    command.insert(command.end(), more.begin(), more.end());
    return RunJson(command)["rate"];
  };
  const json plain = rate({});
  EXPECT_GT(plain["requests_per_s"], 0);
  EXPECT_LE(plain["tpot_us"], 10'000.0001);
  const json bound = rate({"--ttft", "6ms"});
  EXPECT_LE(bound["ttft_us"], 6'000.0001);
  EXPECT_LT(bound["requests_per_s"], plain["requests_per_s"]);
  const json none = rate({"--speculative-tokens", "3", "--acceptance", "0"});
  const json all = rate({"--speculative-tokens", "3", "--acceptance", "1"});
  EXPECT_GT(all["requests_per_s"].get<double>(), 1.5 * none["requests_per_s"].get<double>());
  EXPECT_TRUE(RunJson({"max-batch", kDecoder, "--device", "h100-sxm", "--ctx", "512"})["rate"].is_null());
  ExpectOneLine(Run({"max-batch", kDecoder, "--device", "h100-sxm", "--isl", "512"}), HasSubstr("--osl"));
  ExpectOneLine(Run({"max-batch", kDecoder, "--device", "h100-sxm"}), HasSubstr("--ctx"));
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

TEST_F(CliTest, PlanServingSweepsAHundredThousandConfigurations) {
  const json answer = RunJson({"plan-serving", kDecoder, "--devices", "h100-sxm,l40s,a100-sxm4-80gb", "--tp", "1,2,4,8",
                               "--max-sequences", "10000", "--token-budget", "16384", "--out", Path("plan.html")});
  EXPECT_GE(answer["swept"], 100'000);
  EXPECT_THAT(ReadFile(Path("plan.html")), AllOf(HasSubstr("<svg"), HasSubstr("<circle"), HasSubstr("1 × l40s")));
  ASSERT_EQ(answer["configurations"].size(), 12U);
  // No point of the front, nor any best one, beats another in both.
  const auto beats = [](const json& a, const json& b) {
    return a["tpot_us"] <= b["tpot_us"] && a["output_tokens_per_s_per_gpu"] > b["output_tokens_per_s_per_gpu"];
  };
  ASSERT_GT(answer["front"].size(), 10U);
  for (const json& point : answer["front"]) {
    for (const json& other : answer["front"]) EXPECT_FALSE(beats(other, point)) << other << point;
    for (const json& best : answer["configurations"]) {
      if (!best.contains("tpot_us")) continue;
      EXPECT_FALSE(beats(best, point)) << best << point;
    }
  }
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
  for (const char* time : {"inf", "infs", "nanms", "1e308s", "-5ms"}) {
    ExpectOneLine(Run({"max-batch", kDecoder, "--device", "h100-sxm", "--ctx", "10", "--tpot", time}),
                  HasSubstr("--tpot"));
    ExpectOneLine(Run({"max-batch", kDecoder, "--device", "h100-sxm", "--ctx", "10", "--step-overhead", time}),
                  HasSubstr("--step-overhead"));
  }
  ExpectOneLine(Run({"max-batch", kDecoder, "--device", "h100-sxm", "--ctx", "10", "--tpot", "0ms"}),
                HasSubstr("--tpot"));
  // fit-overhead prints it where an engine adds nothing.
  EXPECT_EQ(
      Run({"max-batch", kDecoder, "--device", "h100-sxm", "--ctx", "10", "--step-overhead", "0us"}).standard_output,
      Run({"max-batch", kDecoder, "--device", "h100-sxm", "--ctx", "10"}).standard_output);
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

}  // namespace
}  // namespace gpueta::testing_util
