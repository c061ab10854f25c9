// Where models begin and end.
#include <algorithm>

#include "core/importers/huggingface/blocks.h"

namespace gpueta::huggingface {
namespace {

Value Embedding(Writer& writer, std::string_view name, const SymInt& rows, std::int64_t entries, std::int64_t width,
                bool own) {
  const Value out = writer.Vector(name, "embedding", {-1, rows, width});
  const Count parameters = Count(entries) * Count(width);
  if (own) writer.Parameters(parameters);
  writer.LastReads(parameters);
  return out;
}

Value Convolution(Writer& writer, std::string_view name, const SymInt& batch, const Conv2d& shape, const Value& x,
                  const SymInt& rows) {
  const Count parameters =
      Product({shape.in_channels, shape.kernel_h, shape.kernel_w, shape.out_channels}) + Count(shape.out_channels);
  const Value out =
      writer.Kernel(name, "Conv", shape, {{"batch", batch}}, {x}, rows, shape.out_channels, Split::kWhole);
  writer.Parameters(parameters);
  writer.LastReads(parameters);
  return out;
}

Value Pooler(Writer& writer, const Value& x, const SymInt& batch, std::int64_t width) {
  Value first = x;
  first.rows = batch;
  first = writer.Linear("pooler", first, width, true);
  return writer.Activation("pooler.activation", "tanh", first);
}

// Logits over the vocabulary, by the embedding's own weights where tied.
Value Logits(Writer& writer, const Value& x, bool tied, bool bias) {
  const Model& m = writer.model();
  const Value out = writer.Product("lm_head", x, m.vocabulary, Split::kColumns);
  const Count weights = Count(m.vocabulary) * x.cols.constant().value_or(0);
  writer.Parameters((tied ? Count(0) : weights) + Count(bias ? m.vocabulary : 0));
  writer.LastReads(weights);
  if (writer.options().training) {
    // Logits shifted by a token against their labels.
    const Value shifted = writer.Vector("loss.shift", "copy", out);
    writer.Vector("loss.log_softmax", "softmax", shifted);
  }
  return out;
}

Value MaskedLanguageHead(Writer& writer, const Value& x, const FeedForward& shape) {
  const Model& m = writer.model();
  Value y = writer.Linear("transform", x, m.hidden, true);
  y = writer.Activation("transform.activation", shape.activation, y);
  y = writer.Norm("transform.norm", y, m.norm, m.hidden);
  if (!m.tied) writer.Parameters(Count(m.vocabulary));  // the untied product has a bias of its own
  return Logits(writer, y, m.tied, true);
}

}  // namespace

Value EmbedTokens(Writer& writer, const Stack& stack, const Sequence& s, bool shares_tokens) {
  const Model& m = writer.model();
  Value x = Embedding(writer, "tokens", s.rows(), m.vocabulary, m.embedding_width, !shares_tokens);
  if (m.embedding_width != m.hidden) x = writer.Linear("project_in", x, m.hidden, false);
  if (stack.positions > 0) {
    const Value positions = Embedding(writer, "positions", s.rows(), stack.positions, m.hidden, true);
    x = writer.Add("add_positions", x, positions);
  }
  if (m.token_types > 0) {
    const Value types = Embedding(writer, "types", s.rows(), m.token_types, m.hidden, true);
    x = writer.Add("add_types", x, types);
  }
  if (m.embedding_norm) x = writer.Norm("norm", x, m.norm, m.hidden);
  return writer.HiddenDropout(x);
}

std::int64_t ImageTokens(const Model& m) {
  const std::int64_t side = m.image / m.patch;
  return side * side + 1;
}

Value EmbedImage(Writer& writer, const SymInt& batch) {
  const Model& m = writer.model();
  const Value patches = Convolution(writer, "patches", batch,
                                    {.in_channels = m.channels,
                                     .height = m.image,
                                     .width = m.image,
                                     .out_channels = m.hidden,
                                     .kernel_h = m.patch,
                                     .kernel_w = m.patch,
                                     .stride_h = m.patch,
                                     .stride_w = m.patch},
                                    {}, batch * (ImageTokens(m) - 1));
  writer.Parameters(Count(ImageTokens(m) + 1) * Count(m.hidden));  // positions and the class token
  const Value joined = writer.Vector("join_class", "copy", {patches.node, batch * ImageTokens(m), m.hidden});
  return writer.Vector("add_positions", "add", joined);
}

Value EmbedSpeech(Writer& writer, const SymInt& batch, std::int64_t positions) {
  const Model& m = writer.model();
  Conv2d shape = {.in_channels = m.mel_bins,
                  .height = 1,
                  .width = 2 * positions,
                  .out_channels = m.hidden,
                  .kernel_h = 1,
                  .kernel_w = 3,
                  .pad_w = 1};
  Value x = Convolution(writer, "conv1", batch, shape, {}, batch * (2 * positions));
  x = writer.Activation("conv1.activation", "gelu", x);
  shape.in_channels = m.hidden;
  shape.stride_w = 2;
  x = Convolution(writer, "conv2", batch, shape, x, batch * positions);
  x = writer.Activation("conv2.activation", "gelu", x);
  writer.Parameters(Count(positions) * Count(m.hidden));
  return writer.Vector("add_positions", "add", x);
}

void WriteHead(Writer& writer, const Value& x, const Sequence& s) {
  const Model& m = writer.model();
  const Stack& stack = m.decoder.has_value() ? *m.decoder : *m.encoder;
  Value y = x;
  if (m.head == Head::kLanguage && writer.options().last_logits_only) y.rows = s.batch;
  if (m.decoder.has_value() && m.embedding_width != m.hidden) {
    y = writer.Linear("project_out", y, m.embedding_width, false);
  }
  switch (m.head) {
    case Head::kNone: return;
    case Head::kLanguage: Logits(writer, y, m.tied, m.head_bias); return;
    case Head::kMaskedLanguage: MaskedLanguageHead(writer, y, stack.feed_forward); return;
    case Head::kPooler: Pooler(writer, y, s.batch, m.pooler_width > 0 ? m.pooler_width : m.hidden); return;
    case Head::kPreTraining: {
      const Value pooled = Pooler(writer, y, s.batch, m.hidden);
      writer.Linear("next_sentence", pooled, 2, true);
      MaskedLanguageHead(writer, y, stack.feed_forward);
      return;
    }
    case Head::kTokens: writer.Linear("labels", y, m.labels, true); return;
    case Head::kSequence: {
      Value first = y;
      if (m.label_bias) first.rows = s.batch;
      if (m.label_pooler) first = Pooler(writer, y, s.batch, m.hidden);
      writer.Linear("labels", first, m.labels, m.label_bias);
      return;
    }
  }
}

}  // namespace gpueta::huggingface
