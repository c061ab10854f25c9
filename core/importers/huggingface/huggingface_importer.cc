#include "core/importers/huggingface/huggingface_importer.h"

#include <utility>

#include "core/base/errors.h"
#include "core/importers/huggingface/blocks.h"
#include "core/importers/huggingface/config.h"
#include "core/importers/huggingface/resolve.h"

namespace gpueta {
namespace huggingface {
namespace {

// What a stack attends to besides itself.
struct Memory {
  Value output;
  SymInt tokens;
};

// Norms, branches and residual sums of one layer around its blocks.
class LayerWriter {
 public:
  LayerWriter(Writer& writer, const Stack& stack, const Sequence& sequence, const Memory* memory)
      : writer_(writer), stack_(stack), sequence_(sequence), memory_(memory) {}

  Value Write(std::size_t index, const Value& x) {
    const bool first = index == 0;
    const Layer& layer = stack_.layers[index];
    if (stack_.state_space.has_value()) {
      return Residual("mixer", x,
                      [&](const Value& in) { return StateSpaceBlock(writer_, *stack_.state_space, in, sequence_); });
    }
    const auto attend = [&](const Value& in) {
      return SelfAttention(writer_, stack_.attention, layer, first, in, sequence_);
    };
    const auto feed_forward = [&](const Value& in) {
      return layer.sparse ? ExpertsBlock(writer_, stack_.experts, stack_.feed_forward, in, sequence_.batch)
                          : FeedForwardBlock(writer_, stack_.feed_forward, in);
    };
    if (stack_.placement == Placement::kParallel || stack_.placement == Placement::kParallelTwice) {
      const Value in = Norm("norm", x);
      const Value attended = attend(in);
      const Value fed = feed_forward(stack_.placement == Placement::kParallel ? in : Norm("mlp_norm", x));
      return writer_.Add("add_attention", writer_.Add("add_mlp", x, fed), attended);
    }
    Value y = Residual("attention", x, attend);
    if (memory_ != nullptr) {
      y = Residual("cross_attention", y, [&](const Value& in) {
        return CrossAttention(writer_, stack_.attention, in, sequence_, memory_->output, memory_->tokens);
      });
    } else if (stack_.crosses) {  // a decoder without its encoder: the parameters are there, nothing runs
      writer_.Mute(true);
      Residual("cross_attention", y, [&](const Value& in) {
        return CrossAttention(writer_, stack_.attention, in, sequence_, in, sequence_.tokens);
      });
      writer_.Mute(false);
    }
    return Residual("mlp", y, feed_forward);
  }

 private:
  Value Norm(std::string_view name, const Value& x) {
    return writer_.Norm(name, x, writer_.model().norm, writer_.model().hidden);
  }

  template <class Block>
  Value Residual(const std::string& name, const Value& x, const Block& block) {
    const Placement placement = stack_.placement;
    const bool before = placement == Placement::kBefore || placement == Placement::kBoth;
    Value y = writer_.HiddenDropout(block(before ? Norm(name + "_norm", x) : x));
    if (placement == Placement::kOnOutput || placement == Placement::kBoth) y = Norm(name + "_output_norm", y);
    y = writer_.Add("add_" + name, y, x);
    return placement == Placement::kAfter ? Norm(name + "_norm", y) : y;
  }

  Writer& writer_;
  const Stack& stack_;
  const Sequence& sequence_;
  const Memory* memory_;
};

Value WriteStack(Writer& writer, const Stack& stack, const Sequence& sequence, const std::string& scope, Value x,
                 const Memory* memory) {
  LayerWriter layers(writer, stack, sequence, memory);
  for (std::size_t i = 0; i < stack.layers.size(); ++i) {
    writer.Enter(fmt::format("{}layers.{}", scope, i), static_cast<int>(i));
    x = layers.Write(i, x);
  }
  writer.Enter(scope.empty() ? "" : scope.substr(0, scope.size() - 1));
  if (stack.final_norm) x = writer.Norm("norm", x, writer.model().norm, writer.model().hidden);
  return x;
}

class Build {
 public:
  Build(const Model& model, const HuggingFaceOptions& options)
      : model_(model), options_(options), writer_(model, options) {}

  absl::StatusOr<Graph> Run(std::string display_name) {
    if (decodes() && !model_.decoder.has_value()) {
      return InvalidArgument("--phase decode: {} is an encoder, it has no decode phase", Named());
    }
    if (decodes() && options_.cached_prefix) {
      return InvalidArgument("a cached prefix belongs to phase prefill; decode has kv_len");
    }
    Symbol("batch");
    Value x;
    Sequence last;
    Memory memory;
    if (model_.encoder.has_value()) {
      Encode(memory, last);
      x = memory.output;
    }
    if (model_.decoder.has_value()) {
      const bool behind_encoder = model_.encoder.has_value();
      last = DecoderSequence(behind_encoder ? "seq_decoder" : "seq");
      writer_.Enter(behind_encoder ? "decoder" : "");
      x = EmbedTokens(writer_, *model_.decoder, last, behind_encoder && model_.vocabulary > 0 && model_.mel_bins == 0);
      x = WriteStack(writer_, *model_.decoder, last, behind_encoder ? "decoder." : "", x,
                     behind_encoder ? &memory : nullptr);
    }
    writer_.Enter("");
    WriteHead(writer_, x, last);
    GPUETA_ASSIGN_OR_RETURN(Graph graph, writer_.Finish(std::move(display_name)));
    graph.symbols = symbols_;
    graph.inputs = inputs_;
    GPUETA_RETURN_IF_ERROR(Validate(graph));
    return graph;
  }

 private:
  bool decodes() const { return options_.phase == Attention::Phase::kDecode; }
  std::string Named() const { return model_.model_type.empty() ? "the model" : model_.model_type.substr(0, 80); }

  SymInt Symbol(const std::string& name) {
    symbols_.push_back({name, 0});
    return SymInt::Symbol(name);
  }

  Sequence DecoderSequence(const std::string& tokens) {
    Sequence s;
    s.batch = SymInt::Symbol("batch");
    s.phase = options_.phase;
    s.causal = true;
    if (decodes()) {
      s.tokens = 1;
      s.seen = Symbol("kv_len");
      inputs_.push_back("input_ids: int64[batch,1]");
      return s;
    }
    s.tokens = Symbol(tokens);
    s.seen = options_.cached_prefix ? Symbol("kv_len") : s.tokens;
    inputs_.push_back(fmt::format("input_ids: int64[batch,{}]", tokens));
    return s;
  }

  // When decoding, the encoder has run before: its parameters count, no kernel
  // runs.
  void Encode(Memory& memory, Sequence& sequence) {
    const Stack& stack = *model_.encoder;
    sequence.batch = SymInt::Symbol("batch");
    sequence.causal = false;
    writer_.Mute(decodes());
    const std::string scope = model_.decoder.has_value() ? "encoder." : "";
    writer_.Enter(model_.decoder.has_value() ? "encoder" : "");
    Value x;
    if (model_.patch > 0) {
      sequence.tokens = ImageTokens(model_);
      inputs_.push_back(
          fmt::format("pixel_values: float[batch,{},{},{}]", model_.channels, model_.image, model_.image));
      x = EmbedImage(writer_, sequence.batch);
    } else if (model_.mel_bins > 0) {
      sequence.tokens = stack.positions;
      inputs_.push_back(fmt::format("input_features: float[batch,{},{}]", model_.mel_bins, 2 * stack.positions));
      x = EmbedSpeech(writer_, sequence.batch, stack.positions);
    } else {
      sequence.tokens = Symbol("seq");
      inputs_.push_back("input_ids: int64[batch,seq]");
      x = EmbedTokens(writer_, stack, sequence, false);
    }
    sequence.seen = sequence.tokens;
    memory.output = WriteStack(writer_, stack, sequence, scope, x, nullptr);
    memory.tokens = sequence.tokens;
    writer_.Mute(false);
  }

  const Model& model_;
  const HuggingFaceOptions& options_;
  Writer writer_;
  std::vector<Graph::Symbol> symbols_;
  std::vector<std::string> inputs_;
};

}  // namespace
}  // namespace huggingface

absl::StatusOr<Graph> ImportHuggingFace(std::string_view json, std::string display_name,
                                        const HuggingFaceOptions& options) {
  GPUETA_ASSIGN_OR_RETURN(huggingface::Config config, huggingface::Config::Parse(json));
  GPUETA_ASSIGN_OR_RETURN(huggingface::Model model, huggingface::Resolve(std::move(config)));
  if (options.dtype.has_value()) model.dtype = model.weight_dtype = *options.dtype;
  if (options.weight_dtype.has_value()) model.weight_dtype = *options.weight_dtype;
  return huggingface::Build(model, options).Run(std::move(display_name));
}

absl::StatusOr<std::string> CanonicalConfig(std::string_view json) {
  GPUETA_ASSIGN_OR_RETURN(const huggingface::Config config, huggingface::Config::Parse(json));
  return config.ToText();
}

bool IsHuggingFaceConfig(std::string_view json) {
  const absl::StatusOr<huggingface::Config> config = huggingface::Config::Parse(json);
  return config.ok() && (config->Has("model_type") || config->Has("architectures"));
}

}  // namespace gpueta
