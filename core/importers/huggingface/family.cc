#include "core/importers/huggingface/family.h"

#include <algorithm>
#include <iterator>

namespace gpueta::huggingface {
namespace {

constexpr Switch kAlways = {"", true};
constexpr Switch kNever = {"", false};
constexpr Switch kTied = {"tie_word_embeddings", true};

// GPT-2 divides and picks with the mask; OPT and BERT add it, OPT then takes
// the maximum with the smallest number, Gemma 2 caps scores by a tanh.
constexpr std::string_view kDivideAndPick[] = {"div", "where"};
constexpr std::string_view kDivideAndMask[] = {"div", "add"};
constexpr std::string_view kMaskAndClamp[] = {"add", "max"};
constexpr std::string_view kCap[] = {"mul", "div", "tanh", "mul", "add"};

// Class defaults of transformers 5 (THIRD_PARTY.md).
const Family kFamilies[] = {
    {.model_type = "llama", .vocabulary = 32000, .hidden = 4096, .layers = 32, .heads = 32, .intermediate = 11008},
    {.model_type = "mistral", .vocabulary = 32000, .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 8,
     .intermediate = 14336, .window = 4096, .attention_bias = kNever, .mlp_bias = kNever},
    {.model_type = "mixtral", .vocabulary = 32000, .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 8,
     .intermediate = 14336, .attention_bias = kNever, .experts = 8, .top_k = 2},
    {.model_type = "qwen2", .vocabulary = 151936, .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 32,
     .intermediate = 22016, .window = 4096, .window_opt_in = true, .attention_bias = kAlways, .out_bias = kNever, .mlp_bias = kNever},
    {.model_type = "qwen2_moe", .vocabulary = 151936, .hidden = 2048, .layers = 24, .heads = 16, .kv_heads = 16,
     .intermediate = 5632, .window = 4096, .window_opt_in = true, .attention_bias = {"qkv_bias", true}, .out_bias = kNever, .mlp_bias = kNever,
     .experts = 60, .top_k = 4, .expert_width = 1408, .shared_width = 5632, .shared_gate = true},
    {.model_type = "qwen3", .vocabulary = 151936, .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 32,
     .head_dim = 128, .intermediate = 22016, .window = 4096, .window_opt_in = true, .mlp_bias = kNever, .qk_norm = QkNorm::kHead},
    {.model_type = "qwen3_moe", .vocabulary = 151936, .hidden = 2048, .layers = 24, .heads = 32, .kv_heads = 4,
     .intermediate = 6144, .window = 4096, .window_opt_in = true, .mlp_bias = kNever, .qk_norm = QkNorm::kHead, .experts = 128, .top_k = 8,
     .expert_width = 768},
    {.model_type = "gemma", .vocabulary = 256000, .hidden = 3072, .layers = 28, .heads = 16, .kv_heads = 16,
     .head_dim = 256, .intermediate = 24576, .tied = kTied, .mlp_bias = kNever, .activation = "gelu_pytorch_tanh"},
    {.model_type = "gemma2", .vocabulary = 256000, .hidden = 2304, .layers = 26, .heads = 8, .kv_heads = 4,
     .head_dim = 256, .intermediate = 9216, .window = 4096, .window_every = 2, .placement = Placement::kBoth,
     .tied = kTied, .mlp_bias = kNever, .activation = "gelu_pytorch_tanh", .score_ops = kCap},
    {.model_type = "gemma3_text", .vocabulary = 262208, .hidden = 2304, .layers = 26, .heads = 8, .kv_heads = 4,
     .head_dim = 256, .intermediate = 9216, .window = 4096, .window_every = 6, .placement = Placement::kBoth,
     .tied = kTied, .mlp_bias = kNever, .activation = "gelu_pytorch_tanh", .qk_norm = QkNorm::kHead},
    {.model_type = "phi", .vocabulary = 51200, .hidden = 2048, .layers = 24, .heads = 32, .intermediate = 8192,
     .norm = Norm::Kind::kLayer, .norm_bias = true, .placement = Placement::kParallel, .attention_bias = kAlways,
     .mlp_bias = kAlways, .gated = false, .activation = "gelu_new", .qk_norm = QkNorm::kHead,
     .qk_norm_field = "qk_layernorm", .head_bias = true},
    {.model_type = "phi3", .vocabulary = 32064, .hidden = 3072, .layers = 32, .heads = 32, .intermediate = 8192,
     .attention_bias = kNever, .mlp_bias = kNever, .packed = true, .packed_mlp = true},
    {.model_type = "falcon", .vocabulary = 65024, .hidden = 4544, .layers = 32, .heads = 71,
     .norm = Norm::Kind::kLayer, .norm_bias = true, .placement = Placement::kParallel, .tied = kTied,
     .attention_bias = {"bias", false}, .mlp_bias = {"bias", false}, .gated = false, .activation = "gelu",
     .packed = true, .multi_query = true},
    {.model_type = "opt", .vocabulary = 50272, .hidden = 768, .layers = 12, .heads = 12, .intermediate = 3072,
     .positions = 2048, .extra_positions = 2, .position_kind = Positions::kLearned, .norm = Norm::Kind::kLayer,
     .norm_bias = true, .tied = kTied, .attention_bias = {"enable_bias", true}, .mlp_bias = {"enable_bias", true},
     .gated = false, .activation = "relu", .scales_query = true, .score_ops = kMaskAndClamp},
    {.model_type = "gpt2", .vocabulary = 50257, .hidden = 768, .layers = 12, .heads = 12, .positions = 1024,
     .position_kind = Positions::kLearned, .norm = Norm::Kind::kLayer, .norm_bias = true, .tied = kTied,
     .attention_bias = kAlways, .mlp_bias = kAlways, .gated = false, .activation = "gelu_new", .packed = true,
     .score_ops = kDivideAndPick},
    {.model_type = "gpt_neox", .vocabulary = 50432, .hidden = 6144, .layers = 44, .heads = 64, .intermediate = 24576,
     .norm = Norm::Kind::kLayer, .norm_bias = true, .placement = Placement::kParallelTwice,
     .attention_bias = {"attention_bias", true}, .mlp_bias = kAlways, .gated = false, .activation = "gelu",
     .packed = true},
    {.model_type = "bloom", .vocabulary = 250880, .hidden = 64, .layers = 2, .heads = 8,
     .position_kind = Positions::kAlibi, .norm = Norm::Kind::kLayer, .norm_bias = true, .tied = kTied,
     .attention_bias = kAlways, .mlp_bias = kAlways, .gated = false, .activation = "gelu_new", .packed = true,
     .embedding_norm = true},
    {.model_type = "bert", .form = Form::kEncoder, .vocabulary = 30522, .hidden = 768, .layers = 12, .heads = 12,
     .intermediate = 3072, .positions = 512, .position_kind = Positions::kLearned, .norm = Norm::Kind::kLayer,
     .norm_bias = true, .placement = Placement::kAfter, .tied = kTied, .attention_bias = kAlways, .mlp_bias = kAlways,
     .gated = false, .activation = "gelu", .embedding_norm = true, .token_types = 2, .score_ops = kDivideAndMask},
    {.model_type = "t5", .form = Form::kEncoderDecoder, .vocabulary = 32128, .hidden = 512, .layers = 6, .heads = 8,
     .head_dim = 64, .intermediate = 2048, .position_kind = Positions::kBuckets, .tied = kAlways,
     .attention_bias = kNever, .mlp_bias = kNever, .gated = false, .activation = "relu", .buckets = 32,
     .score_ops = kMask},
    {.model_type = "switch_transformers", .form = Form::kEncoderDecoder, .vocabulary = 32128, .hidden = 768,
     .layers = 12, .heads = 12, .head_dim = 64, .intermediate = 2048, .position_kind = Positions::kBuckets,
     .tied = kTied, .attention_bias = kNever, .mlp_bias = kNever, .gated = false, .activation = "relu", .buckets = 32,
     .score_ops = kMask, .experts = 8, .top_k = 1, .router_bias = {"router_bias", false}},
    {.model_type = "whisper", .form = Form::kEncoderDecoder, .vocabulary = 51865, .hidden = 384, .layers = 4,
     .heads = 6, .intermediate = 1536, .position_kind = Positions::kLearned, .norm = Norm::Kind::kLayer,
     .norm_bias = true, .tied = kTied, .attention_bias = kAlways, .key_bias = false, .mlp_bias = kAlways,
     .gated = false, .activation = "gelu", .scales_query = true, .score_ops = kMask},
    {.model_type = "vit", .form = Form::kEncoder, .hidden = 768, .layers = 12, .heads = 12, .intermediate = 3072,
     .position_kind = Positions::kLearned, .norm = Norm::Kind::kLayer, .norm_bias = true,
     .attention_bias = {"qkv_bias", true}, .out_bias = kAlways, .mlp_bias = kAlways, .gated = false,
     .activation = "gelu", .score_ops = {kDivideAndMask, 1}},
    {.model_type = "deepseek_v2", .vocabulary = 102400, .hidden = 4096, .layers = 32, .heads = 32,
     .intermediate = 11008, .experts = 64, .top_k = 0, .expert_width = 1407, .shared_experts = 2,
     .latent = Latent{1536, 512, 128, 64, 128}},
    {.model_type = "deepseek_v3", .vocabulary = 129280, .hidden = 7168, .layers = 61, .heads = 128,
     .intermediate = 18432, .mlp_bias = kNever, .experts = 256, .top_k = 8, .expert_width = 2048, .shared_experts = 1,
     .first_dense = 3, .latent = Latent{1536, 512, 128, 64, 128}},
    {.model_type = "gpt_oss", .vocabulary = 201088, .hidden = 2880, .layers = 36, .heads = 64, .kv_heads = 8,
     .head_dim = 64, .intermediate = 2880, .window = 128, .window_every = 2, .attention_bias = {"attention_bias", true},
     .sinks = true, .experts = 128, .top_k = 4, .expert_bias = true, .router_bias = kAlways},
    {.model_type = "olmo2", .vocabulary = 50304, .hidden = 4096, .layers = 32, .heads = 32, .intermediate = 11008,
     .placement = Placement::kOnOutput, .mlp_bias = kNever, .qk_norm = QkNorm::kAll},
    {.model_type = "cohere", .vocabulary = 256000, .hidden = 8192, .layers = 40, .heads = 64, .intermediate = 22528,
     .norm = Norm::Kind::kLayer, .placement = Placement::kParallel, .tied = kTied, .mlp_bias = kNever,
     .qk_norm = QkNorm::kAll, .qk_norm_field = "use_qk_norm"},
    {.model_type = "starcoder2", .vocabulary = 49152, .hidden = 3072, .layers = 30, .heads = 24, .kv_heads = 2,
     .intermediate = 12288, .norm = Norm::Kind::kLayer, .norm_bias = true, .tied = kTied,
     .attention_bias = {"use_bias", true}, .mlp_bias = {"use_bias", true}, .gated = false,
     .activation = "gelu_pytorch_tanh"},
    {.model_type = "mamba", .form = Form::kStateSpace, .vocabulary = 50280, .hidden = 768, .layers = 32, .heads = 1,
     .position_kind = Positions::kNone, .tied = kTied,
     .state_space = {.state = 16, .conv = 4, .bias = false, .conv_bias = true}},
};

// Families of the same blocks and defaults under another name.
constexpr std::pair<std::string_view, std::string_view> kSame[] = {
    {"gemma3", "gemma3_text"},
    {"ministral", "mistral"},
    {"RefinedWeb", "falcon"},
    {"RefinedWebModel", "falcon"},
};

}  // namespace

const Family* FindFamily(std::string_view model_type) {
  for (const auto& [name, same_as] : kSame) {
    if (name == model_type) model_type = same_as;
  }
  const auto* found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [&](const Family& family) { return family.model_type == model_type; });
  return found == std::end(kFamilies) ? nullptr : found;
}

const Family& UnknownFamily() {
  static const Family kUnknown = {.model_type = "", .top_k = 0};
  return kUnknown;
}

}  // namespace gpueta::huggingface
