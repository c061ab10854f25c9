#include "core/serving/step_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/importers/huggingface/huggingface_importer.h"
#include "core/serving/testing_models.h"

namespace gpueta {
namespace {

using testing::H100;
using ::testing::HasSubstr;
using testing::SmallLlama;
using Rows = StepKernel::Rows;

StepModel Compiled(const std::string& json, const Deployment& deployment = {}) {
  auto model = StepModel::Compile(json, "m", deployment);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

double P50(const StepModel& model, const EngineStep& step, const EngineOverhead& overhead = {}) {
  const auto estimate = model.Estimate(step, *H100(), overhead);
  EXPECT_TRUE(estimate.ok()) << estimate.status();
  return estimate->latency_us.p50;
}

// The profiles that gpueta comes with.
const Snapshot& Shipped() {
  static const std::shared_ptr<const Snapshot> snapshot = [] {
    std::vector<LoadedProfile> profiles = LoadProfileDirectory(GPUETA_SOURCE_PROFILES).value();
    std::vector<ActiveProfile> active;
    for (LoadedProfile& loaded : profiles) active.push_back({std::move(loaded), "", 0});
    return Snapshot::Build(std::move(active)).value();
  }();
  return *snapshot;
}

double GraphP50(Attention::Phase phase, const SymbolValues& dims, bool cached) {
  const HuggingFaceOptions options{.phase = phase, .cached_prefix = cached, .last_logits_only = true};
  const Graph graph = ImportHuggingFace(SmallLlama(), "m", options).value();
  return H100()->EstimateGraph(graph, dims, {.mode = ExecutionMode::kGraph})->latency_us.p50;
}

TEST(StepModelTest, ADecodeStepIsTheDecodeGraph) {
  const EngineStep step{.decode_context = std::vector<std::int64_t>(16, 1000)};
  EXPECT_NEAR(P50(Compiled(SmallLlama()), step),
              GraphP50(Attention::Phase::kDecode, {{"batch", 16}, {"kv_len", 1000}}, false), 1e-6);
}

TEST(StepModelTest, AChunkIsThePrefillGraphBehindItsPrefix) {
  const EngineStep step{.prefill = {{.new_tokens = 512, .cached_tokens = 1536}}};
  EXPECT_NEAR(P50(Compiled(SmallLlama()), step),
              GraphP50(Attention::Phase::kPrefill, {{"batch", 1}, {"seq", 512}, {"kv_len", 2048}}, true), 1e-6);
}

TEST(StepModelTest, MixedStepsRunEachProductOnceOverAllTokens) {
  const StepModel model = Compiled(SmallLlama());
  const EngineStep chunk{.prefill = {{512, 0}}};
  const EngineStep decode{.decode_context = std::vector<std::int64_t>(64, 1000)};
  EngineStep mixed = decode;
  mixed.prefill = chunk.prefill;
  const auto estimate = model.Estimate(mixed, *H100());
  ASSERT_TRUE(estimate.ok());
  std::int64_t products = 0;
  for (const GraphPart& part : estimate->parts) {
    const auto* gemm = std::get_if<Gemm>(&part.kernel.work);
    if (gemm == nullptr) continue;
    products += part.count;
    EXPECT_EQ(gemm->m, gemm->n == 32000 ? 65 : 576) << part.kernel.name;
  }
  EXPECT_EQ(products, 4 * 4 + 1);
  const double separate = P50(model, chunk) + P50(model, decode);
  EXPECT_LT(estimate->latency_us.p50, separate);
  EXPECT_GT(estimate->latency_us.p50, std::max(P50(model, chunk), P50(model, decode)));
}

TEST(StepModelTest, QuantilesAreOrderedAndOverheadIsAdded) {
  const StepModel model = Compiled(SmallLlama());
  const EngineStep step{.prefill = {{100, 0}}, .decode_context = {5, 70, 900}};
  const auto bare = model.Estimate(step, *H100());
  const auto with = model.Estimate(step, *H100(), {.step_us = 200, .token_us = 0.5});
  EXPECT_LT(bare->latency_us.p50, bare->latency_us.p90);
  EXPECT_LT(bare->latency_us.p90, bare->latency_us.p99);
  EXPECT_NEAR(with->latency_us.p90 - bare->latency_us.p90, 200 + 0.5 * 103, 1e-6);
}

TEST(StepModelTest, LongerContextsAndMoreTokensNeverCostLess) {
  const StepModel model = Compiled(SmallLlama());
  double last = 0;
  for (std::int64_t context = 128; context <= 1 << 17; context *= 2) {
    const double us = P50(model, {.decode_context = std::vector<std::int64_t>(32, context)});
    EXPECT_GE(us, last) << context;
    last = us;
  }
}

TEST(StepModelTest, UnevenContextsCostNoLessThanTheLongestAlone) {
  const StepModel model = Compiled(SmallLlama());
  std::vector<std::int64_t> uneven(8, 16);
  uneven.push_back(1 << 20);
  const auto attention_us = [&](const std::vector<std::int64_t>& contexts) {
    const auto parts = BreakdownOf(*model.Estimate({.decode_context = contexts}, *H100()));
    return std::ranges::find(parts, "decode attention", [](const auto& p) { return p.first; })->second;
  };
  EXPECT_GE(attention_us(uneven), attention_us({1 << 20}) * (1 - 1e-9));
}

TEST(StepModelTest, DraftTokensAreRowsOfProductsAndHeadsOfAttention) {
  const StepModel model = Compiled(SmallLlama());
  const auto estimate = model.Estimate({.decode_context = {100, 100}, .speculative_tokens = 3}, *H100());
  for (const GraphPart& part : estimate->parts) {
    if (const auto* gemm = std::get_if<Gemm>(&part.kernel.work)) {
      EXPECT_EQ(gemm->m, 8);
    }
    if (const auto* attention = std::get_if<Attention>(&part.kernel.work)) {
      EXPECT_EQ(attention->heads, 64);
      EXPECT_EQ(attention->kv_heads, 4);
      EXPECT_EQ(attention->batch, 2);
    }
  }
}

constexpr const char* kLatent =
    R"({"architectures":["DeepseekV2ForCausalLM"],"model_type":"deepseek_v2","hidden_size":1024,"intermediate_size":2816,
    "moe_intermediate_size":512,"num_attention_heads":16,"num_key_value_heads":16,"num_hidden_layers":4,
    "vocab_size":32000,"kv_lora_rank":512,"q_lora_rank":null,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
    "v_head_dim":128,"n_routed_experts":8,"num_experts_per_tok":2,"n_shared_experts":1,"first_k_dense_replace":1,
    "max_position_embeddings":8192,"torch_dtype":"bfloat16"})";

TEST(StepModelTest, AbsorbedProductsOfLatentAttentionRunForDecodingAlone) {
  const StepModel model = Compiled(kLatent);
  const auto rows_named = [&](const std::string& name) {
    for (const StepKernel& kernel : model.kernels()) {
      if (kernel.node.kernel.name.ends_with(name)) return kernel.rows;
    }
    ADD_FAILURE() << name;
    return Rows::kTokens;
  };
  EXPECT_EQ(rows_named("absorb_key"), Rows::kDecodeTokens);
  EXPECT_EQ(rows_named("key_value_up"), Rows::kPrefillTokens);
  EXPECT_EQ(rows_named("key_value_down"), Rows::kTokens);
  EXPECT_EQ(rows_named("experts"), Rows::kTokens);
  EXPECT_EQ(rows_named("lm_head"), Rows::kLogits);
}

TEST(StepModelTest, CacheBytesByHand) {
  // 2·kv_heads·head_dim·2 bytes a layer, 4 layers.
  EXPECT_EQ(Compiled(SmallLlama()).kv_bytes_per_token(), 4 * 1024);
  EXPECT_EQ(Compiled(SmallLlama(), {.ranks = {.tensor = 2}}).kv_bytes_per_token(), 4 * 512);
  // More ranks than heads of keys and values: each keeps one.
  EXPECT_EQ(Compiled(SmallLlama(), {.ranks = {.tensor = 8}}).kv_bytes_per_token(), 4 * 256);
  EXPECT_EQ(Compiled(SmallLlama(), {.ranks = {.pipeline = 2}}).kv_bytes_per_token(), 2 * 1024);
  EXPECT_EQ(Compiled(SmallLlama(), {.kv_dtype = DType::kFp8}).kv_bytes_per_token(), 4 * 512);
  // MHA and MQA.
  const std::string config = SmallLlama();
  const auto with_kv_heads = [&](const std::string& heads) {
    std::string json = config;
    json.replace(json.find("\"num_key_value_heads\":4"), 23, "\"num_key_value_heads\":" + heads);
    return Compiled(json).kv_bytes_per_token();
  };
  EXPECT_EQ(with_kv_heads("16"), 4 * 2 * 16 * 64 * 2);
  EXPECT_EQ(with_kv_heads("1"), 4 * 2 * 1 * 64 * 2);
  // MLA: rank 512 and 64 rotated, in each of the ranks.
  EXPECT_EQ(Compiled(kLatent).kv_bytes_per_token(), 4 * (512 + 64) * 2);
  EXPECT_EQ(Compiled(kLatent, {.ranks = {.tensor = 4}}).kv_bytes_per_token(), 4 * (512 + 64) * 2);
}

TEST(StepModelTest, AWindowBoundsWhatASequenceKeeps) {
  const std::string windowed = R"({"architectures":["MistralForCausalLM"],"model_type":"mistral","hidden_size":1024,
    "intermediate_size":2816,"num_attention_heads":16,"num_key_value_heads":4,"num_hidden_layers":4,"vocab_size":32000,
    "sliding_window":1024,"max_position_embeddings":8192,"torch_dtype":"bfloat16"})";
  const StepModel model = Compiled(windowed);
  EXPECT_EQ(model.KvBytes(1000), 1000 * 4 * 1024);
  EXPECT_EQ(model.KvBytes(5000), 1024 * 4 * 1024);
  EXPECT_EQ(Compiled(SmallLlama()).KvBytes(5000), 5000 * 4 * 1024);
}

TEST(StepModelTest, WeightsOfOneRank) {
  const StepModel whole = Compiled(SmallLlama());
  EXPECT_EQ(whole.weight_bytes(), 2 * whole.parameters());
  const StepModel half = Compiled(SmallLlama(), {.ranks = {.tensor = 2}});
  // By hand: projections and the head in half; norms and the input embedding whole.
  constexpr std::int64_t kProjections = 2 * 1024 * 1024 + 2 * 1024 * 256 + 3 * 1024 * 2816;  // of a layer
  constexpr std::int64_t kEmbedding = 32000 * 1024;
  EXPECT_EQ(whole.parameters(), 4 * (kProjections + 2 * 1024) + 1024 + 2 * kEmbedding);
  EXPECT_EQ(half.weight_bytes(), 2 * (4 * (kProjections / 2 + 2 * 1024) + 1024 + kEmbedding + kEmbedding / 2));
  // Stages share everything evenly.
  EXPECT_EQ(Compiled(SmallLlama(), {.ranks = {.pipeline = 2}}).weight_bytes(), whole.weight_bytes() / 2);
}

TEST(StepModelTest, QuantisedWeightsOfOneRankByHand) {
  // Linear layers in 4 bits; embedding, head and norms stay in 16.
  constexpr std::int64_t kProjections = 2 * 1024 * 1024 + 2 * 1024 * 256 + 3 * 1024 * 2816;  // of a layer
  constexpr std::int64_t kEmbedding = 32000 * 1024;
  constexpr std::int64_t kNorms = 4 * 2 * 1024 + 1024;
  const auto bytes = [](DType dtype, std::int64_t ranks) {
    return Compiled(SmallLlama(), {.ranks = {.tensor = ranks}, .dtype = dtype}).weight_bytes();
  };
  EXPECT_EQ(bytes(DType::kInt4, 1), 4 * kProjections / 2 + 2 * (kNorms + 2 * kEmbedding));
  EXPECT_EQ(bytes(DType::kInt4, 4), 4 * kProjections / 8 + 2 * (kNorms + kEmbedding + kEmbedding / 4));
  for (const DType dtype : {DType::kFp8, DType::kInt8}) {
    EXPECT_EQ(bytes(dtype, 2), 4 * kProjections / 2 + 2 * (kNorms + kEmbedding + kEmbedding / 2));
  }
}

TEST(StepModelTest, ExpertsOfOneRankByHand) {
  // One dense layer, three of experts with one shared expert; attention whole on
  // every expert rank, the cache, too.
  constexpr std::int64_t kAttention =
      1024 * 16 * (128 + 64) + 1024 * (512 + 64) + 512 * 16 * (128 + 128) + 16 * 128 * 1024;
  constexpr std::int64_t kDense = 3 * 1024 * 2816;
  constexpr std::int64_t kExpert = 3 * 1024 * 512;
  constexpr std::int64_t kRouter = 1024 * 8;
  constexpr std::int64_t kNorms = 4 * (2 * 1024 + 512) + 1024;
  constexpr std::int64_t kEnds = 2 * 32000 * 1024;
  constexpr std::int64_t kShared = 4 * kAttention + kDense + 3 * (kExpert + kRouter) + kNorms + kEnds;
  EXPECT_EQ(Compiled(kLatent).weight_bytes(), 2 * (kShared + 3 * 8 * kExpert));
  const StepModel spread = Compiled(kLatent, {.ranks = {.expert = 4}});
  EXPECT_EQ(spread.weight_bytes(), 2 * (kShared + 3 * 2 * kExpert));
  EXPECT_EQ(spread.kv_bytes_per_token(), 4 * (512 + 64) * 2);
  // Experts in 8 bits, as everything linear but the router.
  EXPECT_EQ(Compiled(kLatent, {.ranks = {.expert = 4}, .dtype = DType::kFp8}).weight_bytes(),
            4 * kAttention + kDense + 3 * (kExpert + 2 * kExpert) + 2 * (3 * kRouter + kNorms + kEnds));
}

TEST(StepModelTest, QuantisedLayersExchangeActivationsOfSixteenBits) {
  const auto exchanged = [](std::optional<DType> dtype) {
    std::vector<Kernel> kernels;
    const StepModel model = Compiled(SmallLlama(), {.ranks = {.tensor = 2}, .dtype = dtype});
    for (const StepKernel& own : model.kernels()) {
      if (own.node.kernel.op() != Op::kCollective) continue;
      kernels.push_back(*BindKernel(own, {{"batch", 3}, {"seq", 5}, {"kv_len", 5}}));
    }
    return kernels;
  };
  const std::vector<Kernel> plain = exchanged(std::nullopt);
  EXPECT_FALSE(plain.empty());
  for (const DType dtype : {DType::kFp8, DType::kInt8, DType::kInt4}) {
    const std::vector<Kernel> quantised = exchanged(dtype);
    ASSERT_EQ(quantised.size(), plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(quantised[i].dtype, DType::kBf16);
      EXPECT_EQ(quantised[i].work, plain[i].work) << Name(dtype);
    }
  }
}

TEST(StepModelTest, TheBusiestExpertRankHasMoreTokensAndExchangesMore) {
  const Parallelism spread{.expert = 4};
  const auto bound = [&](double imbalance) {
    std::map<std::string, Kernel> kernels;
    const StepModel model = Compiled(kLatent, {.ranks = spread, .expert_imbalance = imbalance});
    for (const StepKernel& own : model.kernels()) {
      if (own.rows != Rows::kTokens) continue;
      kernels[own.node.kernel.name] = *BindKernel(own, {{"batch", 1}, {"seq", 1000}, {"kv_len", 1000}});
    }
    return kernels;
  };
  const auto even = bound(1);
  const auto uneven = bound(1.5);
  ASSERT_EQ(even.size(), uneven.size());
  int changed = 0;
  for (const auto& [name, kernel] : even) {
    const Kernel& busy = uneven.at(name);
    if (const auto* experts = std::get_if<Moe>(&kernel.work)) {
      EXPECT_EQ(std::get<Moe>(busy.work).num_tokens, experts->num_tokens * 3 / 2);
      ++changed;
    } else if (const auto* exchange = std::get_if<Collective>(&kernel.work)) {
      EXPECT_EQ(std::get<Collective>(busy.work).bytes, exchange->bytes * 3 / 2);
      ++changed;
    } else {
      EXPECT_EQ(busy.work, kernel.work) << name;
    }
  }
  EXPECT_EQ(changed, 2);  // the experts, and their tokens on the way, there as back
  const auto us = [&](double imbalance) {
    const StepModel model = Compiled(kLatent, {.ranks = spread, .expert_imbalance = imbalance});
    return model.Estimate({.prefill = {{4096, 0}}}, *Shipped().Find("h100-sxm").value())->latency_us.p50;
  };
  EXPECT_LT(us(1), us(1.5));
  EXPECT_LT(us(1.5), us(4));
  // One rank has all there is; none has less than the mean.
  const auto error = [](const Deployment& deployment) {
    return FieldOf(StepModel::Compile(kLatent, "m", deployment).status());
  };
  EXPECT_EQ(error({.ranks = spread, .expert_imbalance = 4.1}), "expert_imbalance");
  EXPECT_EQ(error({.ranks = spread, .expert_imbalance = 0.9}), "expert_imbalance");
  EXPECT_EQ(error({.ranks = spread, .expert_imbalance = NAN}), "expert_imbalance");
  EXPECT_EQ(error({.expert_imbalance = 1.5}), "expert_imbalance");
}

// Products of 8 bits were measured on two of these devices, those of 4 bits and
// experts of either on none.
class ShippedProfilesTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  GraphEstimate Of(std::optional<DType> dtype, const EngineStep& step) const {
    const auto& [device, model] = GetParam();
    const std::string path = fmt::format("tests/data/configs/{}/config.json", model);
    const auto compiled = StepModel::Compile(ReadWholeFile(path).value(), model, {.dtype = dtype});
    return compiled->Estimate(step, *Shipped().Find(device).value()).value();
  }
};

TEST_P(ShippedProfilesTest, FewerBitsAreNoSlowerWhereWeightsAreReadForFewTokens) {
  for (const std::size_t sequences : {1, 4, 16}) {
    const EngineStep step{.decode_context = std::vector<std::int64_t>(sequences, 1024)};
    const double bf16 = Of(DType::kBf16, step).latency_us.p50;
    const double int4 = Of(DType::kInt4, step).latency_us.p50;
    for (const DType dtype : {DType::kFp8, DType::kInt8}) {
      const double us = Of(dtype, step).latency_us.p50;
      EXPECT_LT(int4, us) << Name(dtype) << " " << sequences;
      EXPECT_LT(us, bf16) << Name(dtype) << " " << sequences;
      EXPECT_GT(us, bf16 / 2) << Name(dtype) << " " << sequences;  // more than the bytes promise
    }
    EXPECT_GT(int4, bf16 / 4) << sequences;
  }
}

TEST_P(ShippedProfilesTest, WeightsAloneGainLittleWhereProductsCompute) {
  const EngineStep step{.prefill = {{.new_tokens = 8192}}};
  const GraphEstimate bf16 = Of(DType::kBf16, step);
  const GraphEstimate int4 = Of(DType::kInt4, step);
  EXPECT_LE(int4.latency_us.p50, bf16.latency_us.p50);
  EXPECT_GT(int4.latency_us.p50, 0.7 * bf16.latency_us.p50);
  // Both operands: at most twice the rate.
  for (const DType dtype : {DType::kFp8, DType::kInt8}) {
    const double us = Of(dtype, step).latency_us.p50;
    EXPECT_LE(us, bf16.latency_us.p50) << Name(dtype);
    EXPECT_GT(us, bf16.latency_us.p50 / 2) << Name(dtype);
  }
}

TEST_P(ShippedProfilesTest, WhatWasNotMeasuredIsNotSaidToBe) {
  const EngineStep step{.decode_context = std::vector<std::int64_t>(16, 1024)};
  const GraphEstimate int4 = Of(DType::kInt4, step);
  const GraphEstimate bf16 = Of(DType::kBf16, step);
  EXPECT_GT(int4.latency_us.p90 / int4.latency_us.p50, bf16.latency_us.p90 / bf16.latency_us.p50);
  for (const GraphPart& part : int4.parts) {
    if (part.kernel.dtype != DType::kInt4) continue;
    EXPECT_TRUE(part.estimate.provenance == Provenance::kExtrapolated ||
                part.estimate.provenance == Provenance::kTransferred)
        << part.kernel.name;
    EXPECT_GT(part.estimate.latency_us.p90, 1.15 * part.estimate.latency_us.p50) << part.kernel.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ShippedProfilesTest,
                         ::testing::Combine(::testing::Values("h100-sxm", "l40s", "a100-sxm4-80gb"),
                                            ::testing::Values("llama-3-8b", "mixtral-8x7b", "qwen2.5-7b")),
                         [](const auto& instance) {
                           std::string name = std::get<0>(instance.param) + "_" + std::get<1>(instance.param);
                           std::ranges::replace_if(
                               name, [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

TEST(StepModelTest, TensorParallelStepsExchangeTheirSums) {
  const StepModel model = Compiled(SmallLlama(), {.ranks = {.tensor = 2}});
  std::int64_t exchanges = 0;
  for (const StepKernel& kernel : model.kernels()) {
    if (kernel.node.kernel.op() == Op::kCollective) exchanges += kernel.count;
  }
  EXPECT_EQ(exchanges, 2 * 4 + 1);  // behind attention and feed-forward, and the logits
}

TEST(StepModelTest, RefusesWhatIsNoStep) {
  const StepModel model = Compiled(SmallLlama());
  const auto error = [&](const EngineStep& step) {
    return std::string(model.Estimate(step, *H100()).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("neither prefill chunks nor decoding"));
  EXPECT_THAT(error({.prefill = {{0, 10}}}), HasSubstr("prefill[0]"));
  EXPECT_THAT(error({.decode_context = {4, -1}}), HasSubstr("decode_context[1]"));
  EXPECT_THAT(error({.decode_context = {std::int64_t{1} << 60}}), HasSubstr("decode_context[0]"));
}

TEST(StepModelTest, RefusesModelsThatDoNotDecode) {
  const char* bert = R"({"architectures":["BertModel"],"model_type":"bert","hidden_size":64,"num_attention_heads":4,
    "num_hidden_layers":2,"intermediate_size":128,"vocab_size":100})";
  EXPECT_FALSE(StepModel::Compile(bert, "bert").ok());
  EXPECT_THAT(std::string(StepModel::Compile(SmallLlama(), "m", {.ranks = {.tensor = 5}}).status().message()),
              HasSubstr("--tp"));
  EXPECT_FALSE(StepModel::Compile("{", "m").ok());
}

}  // namespace
}  // namespace gpueta
