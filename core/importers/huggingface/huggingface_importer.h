// Hugging Face config.json to graphs of kernels.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/ops/attention/attention.h"

namespace gpueta {

struct HuggingFaceOptions {
  // Prefill: symbols `batch` and `seq`, every token of seq is new. Decode:
  // `batch` and `kv_len`, one new token a sequence that sees kv_len tokens,
  // itself included; encoder–decoders then have `seq` of the encoder, too.
  // Encoder–decoders in prefill: `seq` and `seq_decoder`.
  Attention::Phase phase = Attention::Phase::kPrefill;
  // Prefill behind a cached prefix: a symbol `kv_len`, the prefix included.
  bool cached_prefix = false;
  // The kernels of transformers' eager code, op by op; else those of serving
  // engines: one kernel for a norm, rotation or gated activation, query, key
  // and value in one product, gate and up likewise.
  bool op_by_op = false;
  // Attention written out as two products around a softmax.
  bool written_out_attention = false;
  // Logits of the last token of each sequence alone, as engines compute them.
  bool last_logits_only = false;
  // The forward pass of training: dropout where the config has it, and the loss
  // of language models.
  bool training = false;
  std::optional<DType> dtype;         // of everything, quantised weights included; the config's own
  std::optional<DType> weight_dtype;  // of linear layers and experts, as of a quantised model
  std::optional<DType> kv_dtype;      // of cached keys and values; the model's own
};

// The graph of the model that the config describes, without its weights;
// parameters are exact for known families. Graph::warnings says what was
// assumed. INVALID_ARGUMENT naming the field for a config that makes no model,
// and for decoding with a model that has no decoder.
absl::StatusOr<Graph> ImportHuggingFace(std::string_view json, std::string display_name,
                                        const HuggingFaceOptions& options = {});

// Whether the text looks like such a config: a JSON object with a model_type
// or architectures.
bool IsHuggingFaceConfig(std::string_view json);

// The config without what means nothing (spaces, the order of fields): equal
// for equal configs. Errors as ImportHuggingFace, but for the model.
absl::StatusOr<std::string> CanonicalConfig(std::string_view json);

}  // namespace gpueta
