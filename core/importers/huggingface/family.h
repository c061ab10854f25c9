// How families of models spell and default the fields of their config.json.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/importers/huggingface/config.h"
#include "core/importers/huggingface/model.h"

namespace gpueta::huggingface {

// A switch that a config may have: by which name, and what holds without it.
struct Switch {
  std::string_view field;  // empty: no config can change it
  bool otherwise = false;
};

enum class Positions : std::uint8_t { kNone, kRope, kLearned, kAlibi, kBuckets };
enum class Form : std::uint8_t { kDecoder, kEncoder, kEncoderDecoder, kStateSpace };

// Score operations of eager attention between its two products.
inline constexpr std::string_view kScaleAndMask[] = {"mul", "add"};
inline constexpr std::string_view kMask[] = {"add"};

// One family: the class defaults of transformers and what no field says.
// Numbers that are 0 must be given by the config, or follow from others:
// kv_heads from heads, head_dim from hidden/heads, intermediate from 4·hidden.
struct Family {
  std::string_view model_type;
  Form form = Form::kDecoder;
  std::int64_t vocabulary = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  std::int64_t decoder_layers = 0;   // 0: as many as the encoder has
  std::int64_t positions = 0;        // rows of learnt positions
  std::int64_t extra_positions = 0;  // rows beyond the field's
  std::int64_t window = 0;
  int window_every = 0;        // all layers but each n-th look back a window; 0: all do
  bool window_opt_in = false;  // only where use_sliding_window says so
  Positions position_kind = Positions::kRope;
  Norm::Kind norm = Norm::Kind::kRms;
  bool norm_weight = true;
  bool norm_bias = false;
  Placement placement = Placement::kBefore;
  Switch tied = {"tie_word_embeddings", false};
  Switch attention_bias = {"attention_bias", false};  // of query, key and value
  std::optional<Switch> out_bias;                     // as attention_bias unless set
  bool key_bias = true;                               // where there is attention_bias
  Switch mlp_bias = {"mlp_bias", false};
  bool gated = true;
  std::string_view activation = "silu";
  bool packed = false;      // query, key and value in one product
  bool packed_mlp = false;  // gate and up in one product
  QkNorm qk_norm = QkNorm::kNone;
  Switch qk_norm_switch = {"", true};
  bool multi_query = false;  // one head of keys and values unless the config says otherwise
  Switch head_bias;
  bool pooler = true;  // the bare encoder ends with one
  bool embedding_norm = false;
  bool sinks = false;
  std::int64_t token_types = 0;
  std::int64_t buckets = 0;
  bool scales_query = false;
  Names score_ops = kScaleAndMask;
  bool attention_dropout = false, hidden_dropout = false;
  // Mixture of experts; none where `experts` is 0.
  std::int64_t experts = 0, top_k = 2, expert_width = 0, expert_capacity = 0, shared_experts = 0, shared_width = 0,
               first_dense = 0, sparse_step = 1;
  bool expert_bias = false;
  Switch router_bias;
  bool shared_gate = false;
  std::optional<Latent> latent;
  StateSpace state_space;
};

// nullptr for a family that is not known.
const Family* FindFamily(std::string_view model_type);
// What most decoders have in common, without class defaults.
const Family& UnknownFamily();

// The names of each field over all families.
namespace names {
inline constexpr std::string_view kVocabulary[] = {"vocab_size", "padded_vocab_size"};
inline constexpr std::string_view kHidden[] = {"hidden_size", "d_model", "n_embd", "n_embed", "dim"};
inline constexpr std::string_view kLayers[] = {"num_hidden_layers", "n_layer", "num_layers", "n_layers",
                                               "encoder_layers"};
inline constexpr std::string_view kDecoderLayers[] = {"num_decoder_layers", "decoder_layers"};
inline constexpr std::string_view kHeads[] = {"num_attention_heads", "n_head", "num_heads", "n_heads",
                                              "encoder_attention_heads"};
inline constexpr std::string_view kDecoderHeads[] = {"decoder_attention_heads"};
inline constexpr std::string_view kKvHeads[] = {"num_key_value_heads", "num_kv_heads", "n_head_kv",
                                                "multi_query_group_num"};
inline constexpr std::string_view kHeadDim[] = {"head_dim", "d_kv", "kv_channels", "attention_head_size"};
inline constexpr std::string_view kIntermediate[] = {"intermediate_size", "ffn_dim",         "n_inner",   "d_ff",
                                                     "ffn_hidden_size",   "encoder_ffn_dim", "hidden_dim"};
inline constexpr std::string_view kDecoderIntermediate[] = {"decoder_ffn_dim"};
inline constexpr std::string_view kPositions[] = {"max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"};
inline constexpr std::string_view kWindow[] = {"sliding_window", "sliding_window_size"};
inline constexpr std::string_view kWindowEvery[] = {"sliding_window_pattern"};
inline constexpr std::string_view kActivation[] = {"hidden_act", "hidden_activation", "activation_function",
                                                   "dense_act_fn", "activation"};
inline constexpr std::string_view kDType[] = {"dtype", "torch_dtype"};
inline constexpr std::string_view kExperts[] = {"num_local_experts", "num_experts", "n_routed_experts",
                                                "moe_num_experts"};
inline constexpr std::string_view kTopK[] = {"num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_k"};
inline constexpr std::string_view kExpertWidth[] = {"moe_intermediate_size", "expert_dim"};
inline constexpr std::string_view kExpertCapacity[] = {"expert_capacity"};
inline constexpr std::string_view kSharedExperts[] = {"n_shared_experts", "num_shared_experts"};
inline constexpr std::string_view kSharedWidth[] = {"shared_expert_intermediate_size"};
inline constexpr std::string_view kFirstDense[] = {"first_k_dense_replace"};
inline constexpr std::string_view kSparseStep[] = {"decoder_sparse_step", "moe_layer_freq",
                                                   "interleave_moe_layer_step"};
inline constexpr std::string_view kEmbeddingWidth[] = {"word_embed_proj_dim", "embedding_size"};
inline constexpr std::string_view kTokenTypes[] = {"type_vocab_size"};
inline constexpr std::string_view kBuckets[] = {"relative_attention_num_buckets"};
inline constexpr std::string_view kAttentionDropout[] = {"attention_dropout", "attn_pdrop",
                                                         "attention_probs_dropout_prob", "dropout_rate"};
inline constexpr std::string_view kHiddenDropout[] = {"hidden_dropout",   "resid_pdrop", "hidden_dropout_prob",
                                                      "residual_dropout", "dropout",     "dropout_rate"};
}  // namespace names

}  // namespace gpueta::huggingface
