#include "core/importers/huggingface/resolve.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/importers/huggingface/family.h"

namespace gpueta::huggingface {
namespace {

constexpr std::int64_t kMostLayers = 4096;

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool Read(Config& config, const Switch& field) { return config.Flag(field.field, field.otherwise); }

// What a family that nobody described says about itself by the fields it has.
Family Guess(Config& config) {
  Family family = UnknownFamily();
  const bool rms = config.Has("rms_norm_eps");
  const bool layer_norm = !rms && (config.Has("layer_norm_eps") || config.Has("layer_norm_epsilon") ||
                                   config.Has("norm_epsilon") || config.Has("layernorm_epsilon"));
  if (layer_norm) {
    family.norm = Norm::Kind::kLayer;
    family.norm_bias = true;
    family.gated = false;
    family.activation = "gelu";
    family.tied.otherwise = true;
    family.attention_bias = {"attention_bias", true};
    family.mlp_bias = {"mlp_bias", true};
    const std::string activation = config.Text(names::kActivation, "");
    if (activation == "silu" || activation == "swiglu") {
      family.gated = true;
      family.activation = "silu";
      family.attention_bias.otherwise = family.mlp_bias.otherwise = false;
    }
  }
  for (const std::string_view field : {"use_bias", "bias", "add_bias_linear"}) {
    if (config.Has(field)) family.attention_bias = family.mlp_bias = {field, false};
  }
  for (const std::string_view field : {"qkv_bias", "add_qkv_bias", "use_qkv_bias"}) {
    if (!config.Has(field)) continue;
    family.attention_bias = {field, false};
    family.out_bias = {"", false};
  }
  const bool rope = config.Has("rope_theta") || config.Has("rope_parameters") || config.Has("rope_scaling") ||
                    config.Has("rotary_dim") || config.Has("rotary_pct") || config.Has("partial_rotary_factor");
  if (config.Flag("alibi", false)) {
    family.position_kind = Positions::kAlibi;
  } else if (!rope && layer_norm && config.HasAny(names::kPositions)) {
    family.position_kind = Positions::kLearned;
  }
  if (config.Flag("use_qk_norm", false) || config.Flag("qk_layernorm", false)) family.qk_norm = QkNorm::kHead;
  if (config.Has("use_sliding_window")) family.window_opt_in = true;
  if (config.Flag("is_encoder_decoder", false)) {
    family.form = Form::kEncoderDecoder;
  } else if (config.Has("type_vocab_size")) {
    family.form = Form::kEncoder;
    family.placement = Placement::kAfter;
    family.embedding_norm = true;
  }
  if (config.Has("kv_lora_rank")) family.latent = Latent{};
  return family;
}

DType DTypeOf(Config& config) {
  std::string name = config.Text(names::kDType, "float32");
  if (name.starts_with("torch.")) name = name.substr(6);
  if (name == "bfloat16") return DType::kBf16;
  if (name == "float16" || name == "half") return DType::kFp16;
  if (name == "float64" || name == "double") return DType::kFp64;
  if (!name.empty() && name != "float32" && name != "float" && name != "auto") {
    config.Refuse(config.Has("dtype") ? "dtype" : "torch_dtype",
                  fmt::format("\"{}\" is not one of float32, float16, bfloat16, float64", name.substr(0, 40)));
  }
  return DType::kFp32;
}

// Of linear layers: as quantization_config says.
DType WeightDTypeOf(Config& config, DType activations, std::vector<std::string>& warnings) {
  std::optional<Config> quantised = config.Nested("quantization_config");
  if (!quantised.has_value()) return activations;
  static constexpr std::string_view kMethod[] = {"quant_method"};
  static constexpr std::string_view kBits[] = {"bits", "w_bit"};
  const std::string method = quantised->Text(kMethod, "");
  std::int64_t bits = quantised->IntOrNone(kBits, 0);
  if (method == "mxfp4" || quantised->Flag("load_in_4bit", false)) bits = 4;
  if (quantised->Flag("load_in_8bit", false)) bits = 8;
  if (!quantised->status().ok()) {
    config.Refuse("quantization_config", MessageOf(quantised->status()));
    return activations;
  }
  if (Contains(method, "fp8")) return DType::kFp8;
  if (bits == 4) return DType::kInt4;
  if (bits == 8) return DType::kInt8;
  warnings.push_back(fmt::format(
      "quantization_config: method \"{}\" is not known; weights are taken in the model's type", method.substr(0, 40)));
  return activations;
}

AttentionShape AttentionOf(Config& config, const Family& family, std::int64_t hidden, std::int64_t heads) {
  AttentionShape a;
  a.heads = heads;
  const bool grouped = config.Flag("new_decoder_architecture", false);  // Falcon
  a.kv_heads = config.IntOrNone(names::kKvHeads, family.kv_heads);
  if (config.Flag("multi_query", family.multi_query) && !grouped) a.kv_heads = 1;
  if (family.multi_query && !config.Flag("multi_query", true) && !grouped) a.kv_heads = heads;
  if (a.kv_heads == 0) a.kv_heads = heads;
  if (heads % a.kv_heads != 0 && !family.latent.has_value()) {
    config.Refuse("num_key_value_heads", fmt::format("{} does not divide the {} attention heads", a.kv_heads, heads));
  }
  a.head_dim = config.IntOrNone(names::kHeadDim, family.head_dim);
  if (a.head_dim == 0) a.head_dim = std::max<std::int64_t>(hidden / heads, 1);
  a.packed = family.packed;
  a.query_bias = a.value_bias = Read(config, family.attention_bias);
  a.key_bias = a.query_bias && family.key_bias;
  a.out_bias = family.out_bias.has_value() ? Read(config, *family.out_bias) : a.query_bias;
  a.rope = family.position_kind == Positions::kRope && !config.Flag("alibi", false);
  a.sinks = family.sinks;
  if (Read(config, family.qk_norm_switch)) a.qk_norm = family.qk_norm;
  a.scales_query = family.scales_query;
  a.score_ops.assign(family.score_ops.begin(), family.score_ops.end());
  if (family.buckets > 0) a.buckets = config.Int(names::kBuckets, family.buckets);
  if (family.latent.has_value()) {
    const Latent& given = *family.latent;
    const auto field = [&config](std::string_view name, std::int64_t otherwise) {
      const std::string_view only[] = {name};
      return config.Int(only, otherwise);
    };
    static constexpr std::string_view kQueryRank[] = {"q_lora_rank"};
    a.latent = Latent{.query_rank = config.IntOrNone(kQueryRank, given.query_rank),
                      .kv_rank = field("kv_lora_rank", given.kv_rank),
                      .nope_dim = field("qk_nope_head_dim", given.nope_dim),
                      .rope_dim = field("qk_rope_head_dim", given.rope_dim),
                      .value_dim = field("v_head_dim", given.value_dim)};
    a.kv_heads = heads;
  }
  return a;
}

FeedForward FeedForwardOf(Config& config, const Family& family, std::int64_t hidden) {
  FeedForward f;
  f.width = config.IntOrNone(names::kIntermediate, family.intermediate);
  if (f.width == 0) f.width = 4 * hidden;
  f.gated = family.gated;
  f.packed = family.packed_mlp;
  f.bias = Read(config, family.mlp_bias);
  f.activation = config.Text(names::kActivation, family.activation);
  static constexpr std::string_view kProjection[] = {"feed_forward_proj"};
  if (const std::string projection = config.Text(kProjection, ""); !projection.empty()) {  // T5: "gated-gelu"
    const std::size_t dash = projection.rfind('-');
    f.gated = projection.starts_with("gated");
    f.activation = dash == std::string::npos ? projection : projection.substr(dash + 1);
    if (projection == "gated-gelu") f.activation = "gelu_new";
  }
  f.gated = config.Flag("is_gated_act", f.gated);
  if (f.activation.empty()) f.activation = std::string(family.activation);
  return f;
}

Experts ExpertsOf(Config& config, const Family& family, std::int64_t intermediate) {
  Experts e;
  e.count = config.IntOrNone(names::kExperts, family.experts);
  if (e.count == 0) return e;
  e.top_k = config.Int(names::kTopK, family.top_k);
  if (e.top_k > e.count)
    config.Refuse("num_experts_per_tok", fmt::format("{} exceeds the {} experts", e.top_k, e.count));
  e.width = config.IntOrNone(names::kExpertWidth, family.expert_width);
  if (e.width == 0) e.width = intermediate;
  e.capacity = config.IntOrNone(names::kExpertCapacity, family.expert_capacity);
  e.shared_width = config.IntOrNone(names::kSharedWidth, family.shared_width);
  if (e.shared_width == 0) e.shared_width = config.IntOrNone(names::kSharedExperts, family.shared_experts) * e.width;
  e.shared_gate = family.shared_gate;
  e.router_bias = Read(config, family.router_bias);
  e.bias = family.expert_bias;
  return e;
}

Placement PlacementOf(Config& config, const Family& family) {
  if (!config.Flag("do_layer_norm_before", true)) return Placement::kAfter;
  if (!config.Flag("parallel_attn", true) || !config.Flag("use_parallel_residual", true)) return Placement::kBefore;
  if (family.placement == Placement::kBefore && config.Flag("use_parallel_residual", false))
    return Placement::kParallel;
  if (family.placement != Placement::kParallel) return family.placement;
  static constexpr std::string_view kNorms[] = {"num_ln_in_parallel_attn"};
  const bool grouped = config.Flag("new_decoder_architecture", false);
  const std::int64_t norms = config.IntOrNone(kNorms, 0);
  return (norms == 0 ? grouped : norms == 2) ? Placement::kParallelTwice : Placement::kParallel;
}

void SetWindows(Config& config, const Family& family, std::vector<Layer>& layers) {
  const std::int64_t window = config.IntOrNone(names::kWindow, family.window);
  if (window == 0 || !config.Flag("use_sliding_window", !family.window_opt_in)) return;
  const std::vector<std::string> types = config.Texts("layer_types");
  if (!types.empty() && types.size() != layers.size()) {
    config.Refuse("layer_types", fmt::format("has {} entries for {} layers", types.size(), layers.size()));
    return;
  }
  const std::int64_t every = config.IntOrNone(names::kWindowEvery, family.window_every);
  static constexpr std::string_view kFirst[] = {"max_window_layers"};
  const std::int64_t first = family.window_opt_in ? config.IntOrNone(kFirst, 0) : 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const bool looks_back =
        !types.empty() ? types[i] != "full_attention" : at >= first && (every <= 0 || (at + 1) % every != 0);
    if (looks_back) layers[i].window = window;
  }
}

// Sparse are the layers after the first dense ones, at a step.
void SetSparse(Config& config, const Family& family, std::vector<Layer>& layers) {
  const std::int64_t first = config.IntOrNone(names::kFirstDense, family.first_dense);
  const std::vector<std::int64_t> dense_list = config.Ints("mlp_only_layers");
  const std::set<std::int64_t> dense(dense_list.begin(), dense_list.end());
  const std::int64_t step = config.Int(names::kSparseStep, family.sparse_step);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    layers[i].sparse = at >= first && !dense.contains(at) && (at + 1) % step == 0;
  }
}

// Switch Transformers count sparse layers in each stack, from which the step
// follows; a file that gives the step, too, is taken at it. 0: none.
void SetSwitchSparse(Config& config, std::string_view stack, std::vector<Layer>& layers) {
  const std::string count_name = fmt::format("num_sparse_{}_layers", stack);
  const std::string step_name = fmt::format("{}_sparse_step", stack);
  const std::string_view counts[] = {count_name};
  const std::string_view steps[] = {step_name};
  const auto size = static_cast<std::int64_t>(layers.size());
  const std::int64_t sparse = config.IntOrNone(counts, 3);
  const std::int64_t step = config.IntOrNone(steps, sparse == 0 ? size : size / sparse);
  for (std::int64_t i = 0; i < size; ++i) {
    layers[static_cast<std::size_t>(i)].sparse = step == 1 || (step > 0 && i % step == 1);
  }
}

// "BertForMaskedLM" to what it ends with. Missing architectures: the language
// model of a decoder, the bare encoder.
Head HeadOf(Config& config, const Family& family, const std::string& architecture, Model& model) {
  if (architecture.empty()) {
    model.warnings.push_back("architectures: is missing; taken for the family's usual class");
    return family.form != Form::kEncoder ? Head::kLanguage : Head::kPooler;
  }
  const bool bert_like = family.form == Form::kEncoder;
  if (Contains(architecture, "ForMaskedLM") ||
      (bert_like && (Contains(architecture, "LMHead") || Contains(architecture, "ForCausalLM")))) {
    return Head::kMaskedLanguage;
  }
  if (Contains(architecture, "ForPreTraining")) return bert_like ? Head::kPreTraining : Head::kLanguage;
  for (const std::string_view end : {"ForCausalLM", "LMHead", "ForConditionalGeneration", "ForSeq2SeqLM", "MTModel"}) {
    if (Contains(architecture, end)) return Head::kLanguage;
  }
  if (Contains(architecture, "ForTokenClassification") || Contains(architecture, "ForQuestionAnswering")) {
    // A span's two ends; encoders write as many labels as the config has.
    if (family.form == Form::kDecoder && Contains(architecture, "ForQuestionAnswering")) model.labels = 2;
    return Head::kTokens;
  }
  if (Contains(architecture, "Classification")) return Head::kSequence;
  if (architecture.ends_with("Model")) return bert_like && family.pooler ? Head::kPooler : Head::kNone;
  config.Refuse("architectures",
                fmt::format("the class {} is not understood; classes end with Model, ForCausalLM, "
                            "ForConditionalGeneration, ForMaskedLM, ForSequenceClassification and the like",
                            architecture.substr(0, 80)));
  return Head::kNone;
}

StateSpace StateSpaceOf(Config& config, const StateSpace& given, std::int64_t hidden) {
  static constexpr std::string_view kState[] = {"state_size", "d_state", "ssm_state_size"};
  static constexpr std::string_view kConv[] = {"conv_kernel", "d_conv"};
  static constexpr std::string_view kRank[] = {"time_step_rank", "dt_rank"};
  StateSpace s = given;
  static constexpr std::string_view kWidth[] = {"intermediate_size"};
  s.width = config.IntOrNone(kWidth, 0);
  if (s.width == 0) s.width = config.Scaled("expand", 2, hidden);
  s.state = config.Int(kState, given.state);
  s.conv = config.Int(kConv, given.conv);
  s.step_rank = (hidden + 15) / 16;
  if (config.HasAny(kRank) && config.TextIsNot(kRank, "auto")) s.step_rank = config.Int(kRank, s.step_rank);
  s.bias = config.Flag("use_bias", given.bias);
  s.conv_bias = config.Flag("use_conv_bias", given.conv_bias);
  return s;
}

// How many layers; refused, and one, past the limit.
std::size_t LayerCount(Config& config, Names field, std::int64_t otherwise) {
  const std::int64_t layers = config.Int(field, otherwise);
  if (layers <= kMostLayers) return static_cast<std::size_t>(layers);
  config.Refuse(field.front(), fmt::format("is {}; models of at most {} layers are built", layers, kMostLayers));
  return 1;
}

Stack StackOf(Config& config, const Family& family, std::int64_t hidden) {
  Stack stack;
  stack.layers.resize(LayerCount(config, names::kLayers, family.layers));
  stack.causal = family.form != Form::kEncoder;
  if (family.form == Form::kStateSpace) {
    stack.state_space = StateSpaceOf(config, family.state_space, hidden);
    return stack;
  }
  const std::int64_t heads = config.Int(names::kHeads, family.heads);
  stack.attention = AttentionOf(config, family, hidden, heads);
  stack.feed_forward = FeedForwardOf(config, family, hidden);
  stack.experts = ExpertsOf(config, family, stack.feed_forward.width);
  stack.placement = PlacementOf(config, family);
  stack.final_norm = stack.placement != Placement::kAfter && !config.Flag("_remove_final_layer_norm", false);
  if (family.position_kind == Positions::kLearned && family.model_type != "vit" && family.model_type != "whisper") {
    stack.positions = config.Int(names::kPositions, family.positions) + family.extra_positions;
  }
  SetWindows(config, family, stack.layers);
  if (stack.experts.count > 0 && family.form == Form::kDecoder) SetSparse(config, family, stack.layers);
  return stack;
}

// Encoder and decoder of the same blocks, each with its own sizes.
void SplitStacks(Config& config, const Family& family, Stack stack, Model& model) {
  Stack encoder = stack;
  encoder.causal = false;
  Stack decoder = std::move(stack);
  decoder.crosses = true;
  const auto encoder_layers = static_cast<std::int64_t>(encoder.layers.size());
  decoder.layers.resize(
      LayerCount(config, names::kDecoderLayers, family.decoder_layers > 0 ? family.decoder_layers : encoder_layers));
  const std::int64_t heads = config.Int(names::kDecoderHeads, decoder.attention.heads);
  if (heads != decoder.attention.heads) decoder.attention = AttentionOf(config, family, model.hidden, heads);
  decoder.feed_forward.width = config.Int(names::kDecoderIntermediate, decoder.feed_forward.width);
  if (decoder.experts.count > 0) {
    SetSwitchSparse(config, "encoder", encoder.layers);
    SetSwitchSparse(config, "decoder", decoder.layers);
  }
  if (family.model_type == "whisper") {
    static constexpr std::string_view kMelBins[] = {"num_mel_bins"};
    static constexpr std::string_view kSource[] = {"max_source_positions"};
    static constexpr std::string_view kTarget[] = {"max_target_positions"};
    model.mel_bins = config.Int(kMelBins, 80);
    encoder.positions = config.Int(kSource, 1500);
    decoder.positions = config.Int(kTarget, 448);
  }
  model.encoder = std::move(encoder);
  model.decoder = std::move(decoder);
}

void ReadImages(Config& config, Model& model) {
  static constexpr std::string_view kChannels[] = {"num_channels"};
  static constexpr std::string_view kPooler[] = {"pooler_output_size"};
  model.image = config.Side("image_size", 224);
  model.patch = config.Side("patch_size", 16);
  model.channels = config.Int(kChannels, 3);
  model.pooler_width = config.IntOrNone(kPooler, 0);
  if (model.patch > model.image) config.Refuse("patch_size", "is larger than image_size");
}

}  // namespace

absl::StatusOr<Model> Resolve(Config config) {
  static constexpr std::string_view kModelType[] = {"model_type"};
  Model model;
  const std::vector<std::string> architectures = config.Texts("architectures");
  const std::string architecture = architectures.empty() ? "" : architectures.front();
  model.model_type = config.Text(kModelType, "");
  model.dtype = DTypeOf(config);
  for (const std::string_view nested : {"text_config", "llm_config", "language_config"}) {
    std::optional<Config> text = config.Nested(nested);
    if (!text.has_value() || config.HasAny(names::kHidden)) continue;
    GPUETA_RETURN_IF_ERROR(config.status());
    if (text->HasAny(names::kDType)) model.dtype = DTypeOf(*text);
    const std::string text_type = text->Text(kModelType, "");
    if (!text_type.empty()) model.model_type = text_type;
    model.warnings.push_back(fmt::format("only the language model of {} is built, without its other inputs", nested));
    config = *std::move(text);
    break;
  }
  const Family* known = FindFamily(model.model_type);
  if (known == nullptr) {
    model.warnings.push_back(
        fmt::format("model_type: \"{}\" is not known; the model was built from its field names, and may differ",
                    model.model_type.substr(0, 80)));
  }
  const Family family = known != nullptr ? *known : Guess(config);

  model.weight_dtype = WeightDTypeOf(config, model.dtype, model.warnings);
  model.hidden = config.Int(names::kHidden, family.hidden);
  model.norm = {family.norm, family.norm_weight, family.norm_bias};
  model.embedding_and_head_norm = model.norm;
  if (!config.Flag("layer_norm_elementwise_affine", true)) model.norm.weight = model.norm.bias = false;
  model.tied = Read(config, family.tied);
  model.head_bias = Read(config, family.head_bias);
  model.attention_dropout = config.Positive(names::kAttentionDropout, family.attention_dropout);
  model.hidden_dropout = config.Positive(names::kHiddenDropout, family.hidden_dropout);
  model.embedding_norm = family.embedding_norm;
  static constexpr std::string_view kLabels[] = {"num_labels"};
  model.labels = config.SizeOf("id2label") > 0 ? config.SizeOf("id2label") : config.Int(kLabels, 2);
  const bool encodes = family.form == Form::kEncoder || family.form == Form::kEncoderDecoder;
  model.label_bias = encodes;
  model.label_pooler = family.token_types > 0 || !family.pooler || family.form == Form::kEncoderDecoder;
  if (family.model_type == "vit") {
    ReadImages(config, model);
  } else {
    model.vocabulary = config.Int(names::kVocabulary, family.vocabulary);
    model.embedding_width = config.IntOrNone(names::kEmbeddingWidth, 0);
    if (family.token_types > 0 || family.form == Form::kEncoder) {
      model.token_types = config.IntOrNone(names::kTokenTypes, family.token_types);
    }
  }
  if (model.embedding_width == 0) model.embedding_width = model.hidden;
  model.head = HeadOf(config, family, architecture, model);

  Stack stack = StackOf(config, family, model.hidden);
  if (family.form == Form::kEncoderDecoder) {
    SplitStacks(config, family, std::move(stack), model);
    if (Contains(architecture, "EncoderModel") || Contains(architecture, "ForTokenClassification")) {
      model.decoder.reset();
    } else if (Contains(architecture, "ForCausalLM")) {
      model.encoder.reset();
    }
  } else if (family.form == Form::kEncoder) {
    if (family.model_type == "vit") stack.final_norm = true;
    model.encoder = std::move(stack);
  } else {
    model.decoder = std::move(stack);
  }
  GPUETA_RETURN_IF_ERROR(config.status());
  return model;
}

}  // namespace gpueta::huggingface
