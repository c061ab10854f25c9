#include "core/importers/huggingface/huggingface_importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "fmt/format.h"

namespace gpueta {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kLlama[] = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 100, "torch_dtype": "bfloat16"})";

Graph Import(std::string_view json, const HuggingFaceOptions& options = {}) {
  absl::StatusOr<Graph> graph = ImportHuggingFace(json, "test", options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph{};
}

std::int64_t Macs(const Graph& graph, const SymbolValues& values) {
  const absl::StatusOr<GraphCounts> counts = CountsOf(graph, values);
  EXPECT_TRUE(counts.ok()) << counts.status();
  return counts.ok() ? counts->macs : -1;
}

std::vector<Attention> Attentions(const Graph& graph, const SymbolValues& values) {
  std::vector<Attention> found;
  const absl::StatusOr<std::vector<Kernel>> kernels = Bind(graph, values);
  EXPECT_TRUE(kernels.ok()) << kernels.status();
  for (const Kernel& kernel : kernels.value_or(std::vector<Kernel>{})) {
    if (const auto* attention = std::get_if<Attention>(&kernel.work)) found.push_back(*attention);
  }
  return found;
}

std::string With(std::string json, const std::string& fields) {
  json.insert(json.find('{') + 1, fields + ", ");
  return json;
}

// Weights once a token, and the pairs of the causal triangle.
constexpr std::int64_t kLayerWeights = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128;
constexpr std::int64_t kHead = 64 * 100;

TEST(HuggingFaceImporterTest, PrefillMultipliesEachTokenWithEachWeightOnce) {
  const std::int64_t tokens = 3 * 10;
  const std::int64_t pairs = 3 * 10 * 11 / 2;
  EXPECT_EQ(Macs(Import(kLlama), {{"batch", 3}, {"seq", 10}}),
            tokens * (2 * kLayerWeights + kHead) + 2 * 2 * pairs * 4 * 16);
}

TEST(HuggingFaceImporterTest, DecodeIsOneTokenThatSeesTheCache) {
  const Graph graph = Import(kLlama, {.phase = Attention::Phase::kDecode});
  EXPECT_EQ(Macs(graph, {{"batch", 3}, {"kv_len", 10}}), 3 * (2 * kLayerWeights + kHead) + 2 * 2 * 3 * 10 * 4 * 16);
}

TEST(HuggingFaceImporterTest, MacsAreTheSameOpByOpButForTheMask) {
  const SymbolValues values = {{"batch", 3}, {"seq", 10}};
  const std::int64_t fused = Macs(Import(kLlama, {.op_by_op = true}), values);
  EXPECT_EQ(fused, Macs(Import(kLlama), values));
  const std::int64_t written_out = Macs(Import(kLlama, {.op_by_op = true, .written_out_attention = true}), values);
  EXPECT_EQ(written_out - fused, 2 * 2 * 3 * (10 * 10 - 10 * 11 / 2) * 4 * 16);
}

TEST(HuggingFaceImporterTest, ACachedPrefixIsSeenButNotComputed) {
  const Graph graph = Import(kLlama, {.cached_prefix = true});
  const std::vector<Attention> attentions = Attentions(graph, {{"batch", 1}, {"seq", 4}, {"kv_len", 20}});
  ASSERT_THAT(attentions, ::testing::SizeIs(2));
  EXPECT_EQ(attentions[0].query_len, 4);
  EXPECT_EQ(attentions[0].kv_len, 20);
}

TEST(HuggingFaceImporterTest, TheCacheHoldsKeysAndValuesOfKvHeads) {
  EXPECT_EQ(Import(kLlama).kv_bytes_per_token, 2 * 2 * 2 * 16 * 2);
  EXPECT_EQ(Import(kLlama, {.kv_dtype = DType::kFp8}).kv_bytes_per_token, 2 * 2 * 2 * 16);
}

TEST(HuggingFaceImporterTest, LatentAttentionCachesItsRankAndOneRotatedKey) {
  constexpr char kLatent[] = R"({"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"],
      "num_hidden_layers": 3, "torch_dtype": "bfloat16", "hidden_size": 256, "num_attention_heads": 4})";
  EXPECT_EQ(Import(kLatent).kv_bytes_per_token, 3 * (512 + 64) * 2);
  const SymbolValues values = {{"batch", 2}, {"kv_len", 100}};
  const std::vector<Attention> decode = Attentions(Import(kLatent, {.phase = Attention::Phase::kDecode}), values);
  ASSERT_THAT(decode, ::testing::SizeIs(3));
  EXPECT_EQ(decode[0].kv_heads, 1);
  // Scores over rank and rotated part, values over the rank.
  Kernel kernel;
  kernel.dtype = DType::kBf16;
  kernel.work = decode[0];
  EXPECT_EQ(CountsOf(kernel).macs.value(), 2 * 4 * 100 * (512 + 64 + 512));
}

TEST(HuggingFaceImporterTest, AWindowLeavesThePairsOfItsBand) {
  const std::string json = With(kLlama, R"("sliding_window": 8)");
  const std::string mistral = std::string(json).replace(json.find("\"llama\""), 7, "\"mistral\"");
  const Graph graph = Import(mistral);
  for (const std::int64_t seq : {1, 7, 8, 9, 20, 500}) {
    std::int64_t pairs = 0;
    for (std::int64_t i = 0; i < seq; ++i) pairs += std::min<std::int64_t>(i + 1, 8);
    Kernel kernel;
    kernel.dtype = DType::kBf16;
    kernel.work = Attentions(graph, {{"batch", 1}, {"seq", seq}}).at(0);
    const double macs = static_cast<double>(CountsOf(kernel).macs.value());
    // Rounded to whole keys a token.
    EXPECT_NEAR(macs / (2 * 4 * 16), static_cast<double>(pairs), static_cast<double>(seq)) << seq;
  }
  const Graph decode = Import(mistral, {.phase = Attention::Phase::kDecode});
  EXPECT_EQ(Attentions(decode, {{"batch", 1}, {"kv_len", 5}}).at(0).kv_len, 5);
  EXPECT_EQ(Attentions(decode, {{"batch", 1}, {"kv_len", 500}}).at(0).kv_len, 8);
}

TEST(HuggingFaceImporterTest, LayerTypesSayWhichLayersLookBackAWindow) {
  constexpr char kGemma[] = R"({"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "hidden_size": 64,
      "num_hidden_layers": 3, "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention",
      "full_attention"]})";
  const std::vector<Attention> layers =
      Attentions(Import(kGemma, {.phase = Attention::Phase::kDecode}), {{"batch", 1}, {"kv_len", 100}});
  ASSERT_THAT(layers, ::testing::SizeIs(3));
  EXPECT_EQ(layers[0].kv_len, 100);
  EXPECT_EQ(layers[1].kv_len, 8);
  EXPECT_EQ(layers[2].kv_len, 100);
}

TEST(HuggingFaceImporterTest, ExpertsComputeWhatTokensChoose) {
  constexpr char kMixtral[] = R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
      "vocab_size": 100, "num_local_experts": 8, "num_experts_per_tok": 2})";
  const Graph graph = Import(kMixtral, {.phase = Attention::Phase::kDecode});
  const std::int64_t attention = 4 * 64 * 64 + 2 * 1 * 64;
  EXPECT_EQ(Macs(graph, {{"batch", 5}, {"kv_len", 1}}), 5 * (attention + 64 * 8 + 2 * 3 * 64 * 96 + 64 * 100));
  EXPECT_EQ(graph.parameters - graph.active_parameters, 6 * 3 * 64 * 96);
}

TEST(HuggingFaceImporterTest, TokensBeyondAnExpertsCapacityPassItBy) {
  // One sparse layer in the encoder; 4 experts share the tokens evenly, 3 of a sequence each at most.
  constexpr char kSwitch[] = R"({"model_type": "switch_transformers", "num_layers": 2, "num_sparse_encoder_layers": 1,
      "num_experts": 4, "d_model": 64, "d_ff": 96, "architectures": ["SwitchTransformersForConditionalGeneration"], "expert_capacity": 3})";
  for (const bool op_by_op : {true, false}) {
    const Graph graph = Import(kSwitch, {.op_by_op = op_by_op});
    const auto tokens = [&](std::int64_t batch, std::int64_t seq) {
      std::int64_t sum = 0;
      const absl::StatusOr<std::vector<Kernel>> kernels =
          Bind(graph, {{"batch", batch}, {"seq", seq}, {"seq_decoder", seq}});
      EXPECT_TRUE(kernels.ok()) << kernels.status();
      for (const Kernel& kernel : kernels.value_or(std::vector<Kernel>{})) {
        if (const auto* gemm = std::get_if<Gemm>(&kernel.work);
            gemm != nullptr && kernel.name.starts_with("encoder.layers.1.experts.") && kernel.name.ends_with("up"))
          sum += gemm->batch * gemm->m;
      }
      return sum;
    };
    EXPECT_EQ(tokens(2, 4), 2 * 4) << op_by_op;
    EXPECT_EQ(tokens(2, 12), 2 * 12) << op_by_op;
    EXPECT_EQ(tokens(2, 400), 2 * 4 * 3) << op_by_op;
  }
}

TEST(HuggingFaceImporterTest, EncoderDecodersRunTheEncoderOnlyInPrefill) {
  constexpr char kT5[] = R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "num_layers": 2})";
  const Graph prefill = Import(kT5);
  const Graph decode = Import(kT5, {.phase = Attention::Phase::kDecode});
  const auto encoder_nodes = [](const Graph& graph) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [](const GraphNode& node) { return node.kernel.name.starts_with("encoder"); });
  };
  EXPECT_GT(encoder_nodes(prefill), 0);
  EXPECT_EQ(encoder_nodes(decode), 0);
  EXPECT_EQ(Attentions(decode, {{"batch", 1}, {"seq", 30}, {"kv_len", 4}}).at(1).kv_len, 30);
}

TEST(HuggingFaceImporterTest, QuantisedWeightsAreOfLinearLayers) {
  const Graph graph = Import(With(kLlama, R"("quantization_config": {"quant_method": "fp8"})"));
  for (const GraphNode& node : graph.nodes) {
    const bool linear = node.kernel.op() == Op::kGemm && !node.kernel.name.ends_with("lm_head");
    EXPECT_EQ(node.kernel.dtype, linear ? DType::kFp8 : DType::kBf16) << node.kernel.name;
  }
  EXPECT_LT(graph.parameter_bytes, Import(kLlama).parameter_bytes);
}

TEST(HuggingFaceImporterTest, TypesMayBeChosenInPlaceOfTheConfigs) {
  const Graph own = Import(kLlama);
  const Graph quantised = Import(kLlama, {.weight_dtype = DType::kFp8});
  const Graph as_config = Import(With(kLlama, R"("quantization_config": {"quant_method": "fp8"})"));
  ASSERT_EQ(quantised.nodes.size(), as_config.nodes.size());
  EXPECT_EQ(quantised.parameter_bytes, as_config.parameter_bytes);
  for (std::size_t i = 0; i < as_config.nodes.size(); ++i) {
    EXPECT_EQ(quantised.nodes[i].kernel.dtype, as_config.nodes[i].kernel.dtype) << as_config.nodes[i].kernel.name;
  }
  // The other way round: nothing stays quantised.
  const Graph plain =
      Import(With(kLlama, R"("quantization_config": {"quant_method": "fp8"})"), {.dtype = DType::kFp32});
  EXPECT_EQ(plain.parameter_bytes, 2 * own.parameter_bytes);
  for (const GraphNode& node : plain.nodes) EXPECT_EQ(node.kernel.dtype, DType::kFp32) << node.kernel.name;
}

TEST(HuggingFaceImporterTest, ExpertsRunInTheTypeOfQuantisedWeights) {
  const Graph graph = Import(R"({"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 128,
      "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4, "vocab_size": 100,
      "torch_dtype": "bfloat16"})",
                             {.weight_dtype = DType::kInt4});
  int experts = 0;
  for (const GraphNode& node : graph.nodes) {
    if (node.kernel.op() == Op::kMoe) {
      EXPECT_EQ(node.kernel.dtype, DType::kInt4);
      ++experts;
    }
    if (node.kernel.name.ends_with("router")) {
      EXPECT_EQ(node.kernel.dtype, DType::kBf16);
    }
  }
  EXPECT_EQ(experts, 1);
}

// As transformers 5.24 builds the classes from their defaults.
TEST(HuggingFaceImporterTest, EncoderDecodersHaveTheParametersOfTheirClasses) {
  const auto parameters = [](std::string_view model_type, std::string_view architecture) {
    const Graph graph = Import(R"({"model_type": ")" + std::string(model_type) + R"(", "architectures": [")" +
                               std::string(architecture) + R"("]})");
    EXPECT_THAT(graph.warnings, IsEmpty()) << model_type;
    return graph.parameters;
  };
  EXPECT_EQ(parameters("bart", "BartForConditionalGeneration"), 406291456);
  EXPECT_EQ(parameters("mbart", "MBartForConditionalGeneration"), 406295552);
  EXPECT_EQ(parameters("plbart", "PLBartForConditionalGeneration"), 139220736);
  EXPECT_EQ(parameters("pegasus", "PegasusForConditionalGeneration"), 406287360);
  EXPECT_EQ(parameters("marian", "MarianMTModel"), 414307328);
  EXPECT_EQ(parameters("m2m_100", "M2M100ForConditionalGeneration"), 483905536);
  EXPECT_EQ(parameters("blenderbot", "BlenderbotForConditionalGeneration"), 2696268800);
  EXPECT_EQ(parameters("blenderbot-small", "BlenderbotSmallForConditionalGeneration"), 85113344);
  // A decoder alone keeps the attention to an encoder that is not there.
  EXPECT_EQ(parameters("bart", "BartForCausalLM"), 254084096);
  EXPECT_EQ(parameters("whisper", "WhisperForCausalLM"), 29552256);
}

TEST(HuggingFaceImporterTest, ADecoderWithoutItsEncoderDoesNotAttendToIt) {
  const std::string_view fields = R"("vocab_size": 100, "d_model": 64, "decoder_layers": 1, "decoder_ffn_dim": 96,
      "decoder_attention_heads": 4, "encoder_layers": 3, "encoder_ffn_dim": 32, "encoder_attention_heads": 4)";
  const Graph graph =
      Import(fmt::format(R"({{"model_type": "bart", "architectures": ["BartForCausalLM"], {}}})", fields));
  const std::int64_t weights = 4 * 64 * 64 + 2 * 64 * 96 + 64 * 100;
  EXPECT_EQ(Macs(graph, {{"batch", 1}, {"seq", 1}}), weights + 2 * 64);
}

TEST(HuggingFaceImporterTest, UnknownFamiliesAreReadByTheirFieldNamesAndFlagged) {
  const std::string json = std::string(kLlama).replace(std::string(kLlama).find("\"llama\""), 7, "\"newmodel\"");
  const Graph graph = Import(With(json, R"("rms_norm_eps": 1e-5, "rope_theta": 10000.0)"));
  EXPECT_EQ(graph.parameters, Import(kLlama).parameters);
  EXPECT_THAT(graph.warnings, Contains(HasSubstr("newmodel")));
}

TEST(HuggingFaceImporterTest, ErrorsNameTheField) {
  const auto error = [](const std::string& json, const HuggingFaceOptions& options = {}) {
    const absl::StatusOr<Graph> graph = ImportHuggingFace(json, "test", options);
    EXPECT_TRUE(absl::IsInvalidArgument(graph.status())) << json;
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error(R"({"model_type": "llama", "hidden_size": "x"})"), HasSubstr("hidden_size"));
  EXPECT_THAT(error(R"({"model_type": "llama", "num_hidden_layers": 1000000})"), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(error(R"({"model_type": "llama", "num_key_value_heads": 5})"), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(error(R"({"model_type": "llama", "torch_dtype": "bf17"})"), HasSubstr("torch_dtype"));
  EXPECT_THAT(error(R"({"model_type": "llama", "architectures": ["LlamaForSinging"]})"), HasSubstr("architectures"));
  EXPECT_THAT(error(R"({"model_type": "unheard_of"})"), HasSubstr("hidden_size: is missing"));
  EXPECT_THAT(error(R"({"model_type": "gemma2", "layer_types": ["full_attention"]})"), HasSubstr("layer_types"));
  EXPECT_THAT(error(R"({"model_type": "deepseek_v2"})"), HasSubstr("num_experts_per_tok"));
  EXPECT_THAT(error(R"({"model_type": "mixtral", "num_experts_per_tok": 9})"), HasSubstr("num_experts_per_tok"));
  EXPECT_THAT(error(R"({"model_type": "bert"})", {.phase = Attention::Phase::kDecode}), HasSubstr("decode"));
  EXPECT_THAT(error(R"({"model_type": "llama", "hidden_size": 268435456, "intermediate_size": 268435456})"),
              HasSubstr("2^60 parameters"));
}

TEST(HuggingFaceImporterTest, ConfigsAreToldFromOtherJson) {
  EXPECT_TRUE(IsHuggingFaceConfig(kLlama));
  EXPECT_FALSE(IsHuggingFaceConfig(R"({"displayName": "x", "nodes": []})"));
  EXPECT_FALSE(IsHuggingFaceConfig("nodes {}"));
}

}  // namespace
}  // namespace gpueta
