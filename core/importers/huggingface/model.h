// A transformer as its config describes it: what the blocks are made of, each
// default filled in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ops/dtype.h"

namespace gpueta::huggingface {

struct Norm {
  enum class Kind : std::uint8_t { kLayer, kRms };
  Kind kind = Kind::kRms;
  bool weight = true;
  bool bias = false;
  std::int64_t Parameters(std::int64_t width) const { return width * (std::int64_t{weight} + std::int64_t{bias}); }
};

// Where a layer's norms stand.
enum class Placement : std::uint8_t {
  kBefore,         // x + f(norm(x)): GPT-2, Llama
  kAfter,          // norm(x + f(x)): BERT
  kOnOutput,       // x + norm(f(x)): OLMo 2
  kBoth,           // x + norm(f(norm(x))): Gemma 2
  kParallel,       // x + attention(norm(x)) + mlp(norm(x)), one norm: Phi, Falcon 7B
  kParallelTwice,  // the same with a norm each: GPT-NeoX
};

// Queries and keys normalised before they meet.
enum class QkNorm : std::uint8_t {
  kNone,
  kHead,  // one weight for all heads: Qwen 3
  kAll,   // a weight for each head: OLMo 2
};

// Latent attention (DeepSeek-V2): queries and cached keys and values pass
// through a narrow projection.
struct Latent {
  std::int64_t query_rank = 0;  // 0: queries are projected directly
  std::int64_t kv_rank = 0;
  std::int64_t nope_dim = 0;  // of a query's head, without and with position
  std::int64_t rope_dim = 0;
  std::int64_t value_dim = 0;
};

struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  bool packed = false;  // query, key and value in one product
  bool query_bias = false;
  bool key_bias = false;
  bool value_bias = false;
  bool out_bias = false;
  bool rope = false;
  bool sinks = false;        // a learnt logit a head
  std::int64_t buckets = 0;  // of relative positions, in the first layer
  QkNorm qk_norm = QkNorm::kNone;
  std::optional<Latent> latent;
  // Written out op by op (not fused): what happens to queries and to scores.
  bool scales_query = false;
  std::vector<std::string_view> score_ops;
};

struct FeedForward {
  std::int64_t width = 0;
  bool gated = false;
  bool packed = false;  // gate and up in one product
  bool bias = false;
  std::string activation;
};

// A mixture in place of the feed-forward of sparse layers.
struct Experts {
  std::int64_t count = 0;  // 0: no layer is sparse
  std::int64_t top_k = 1;
  std::int64_t width = 0;         // of one expert
  std::int64_t capacity = 0;      // tokens of a sequence that one takes, the others pass by; 0: all that choose it
  std::int64_t shared_width = 0;  // of the expert that every token takes; 0: none
  bool shared_gate = false;
  bool router_bias = false;
  bool bias = false;
};

// A selective state space (Mamba) in place of attention and feed-forward.
struct StateSpace {
  std::int64_t width = 0;
  std::int64_t state = 0;
  std::int64_t conv = 0;
  std::int64_t step_rank = 0;
  bool bias = false;
  bool conv_bias = false;
};

struct Layer {
  std::int64_t window = 0;  // tokens that attention looks back; 0: all
  bool sparse = false;
};

struct Stack {
  std::vector<Layer> layers;
  Placement placement = Placement::kBefore;
  AttentionShape attention;
  FeedForward feed_forward;
  Experts experts;
  std::optional<StateSpace> state_space;
  bool causal = true;
  bool crosses = false;  // attends to the encoder, too
  bool final_norm = true;
  std::int64_t positions = 0;  // rows of learnt positions; 0: none
};

// What ends the model.
enum class Head : std::uint8_t {
  kNone,
  kLanguage,        // logits over the vocabulary
  kMaskedLanguage,  // the same behind a transform: BERT
  kPooler,          // of the first token: BertModel, ViTModel
  kPreTraining,     // pooler, next sentence and masked language: BERT
  kTokens,          // labels for each token
  kSequence,        // labels for each sequence
};

struct Model {
  std::string model_type;
  DType dtype = DType::kFp32;         // of activations
  DType weight_dtype = DType::kFp32;  // of linear layers and experts
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;       // 0: no tokens (images)
  std::int64_t embedding_width = 0;  // differs from hidden in OPT-350M
  std::int64_t token_types = 0;
  bool embedding_norm = false;
  Norm norm;
  Norm embedding_and_head_norm;
  bool tied = false;
  bool attention_dropout = false;  // of the probabilities
  bool hidden_dropout = false;     // of embeddings and of each block's output
  bool head_bias = false;
  Head head = Head::kNone;
  std::int64_t labels = 0;
  bool label_bias = true;
  bool label_pooler = false;
  // Vision: square patches of a square image.
  std::int64_t image = 0;
  std::int64_t patch = 0;
  std::int64_t channels = 0;
  std::int64_t pooler_width = 0;
  // Speech: mel bins, two convolutions, the second halving the length.
  std::int64_t mel_bins = 0;
  std::optional<Stack> encoder;
  std::optional<Stack> decoder;
  std::vector<std::string> warnings;
};

}  // namespace gpueta::huggingface
