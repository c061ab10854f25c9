// What transformers are made of: each function writes one block and returns its
// output. Values are [batch·tokens, width].
#pragma once

#include "core/importers/huggingface/writer.h"

namespace gpueta::huggingface {

// The tokens that a stack works on.
struct Sequence {
  SymInt batch;
  SymInt tokens;  // new ones in each sequence
  SymInt seen;    // tokens that the last of them sees, itself included
  Attention::Phase phase = Attention::Phase::kPrefill;
  bool causal = true;

  SymInt rows() const { return batch * tokens; }
  bool decodes() const { return phase == Attention::Phase::kDecode; }
};

// attention_block.cc. Projections, attention, output projection. `first`: the
// first layer of its stack, which holds what all layers share.
Value SelfAttention(Writer& writer, const AttentionShape& shape, const Layer& layer, bool first, const Value& x,
                    const Sequence& sequence);
// `memory` is the encoder's output of `memory_tokens` a sequence; its keys and
// values are cached when decoding.
Value CrossAttention(Writer& writer, const AttentionShape& shape, const Value& x, const Sequence& sequence,
                     const Value& memory, const SymInt& memory_tokens);

// feed_forward_block.cc
Value FeedForwardBlock(Writer& writer, const FeedForward& shape, const Value& x);
// Router, the experts that tokens choose, the shared expert.
Value ExpertsBlock(Writer& writer, const Experts& experts, const FeedForward& shape, const Value& x,
                   const SymInt& batch);

// state_space_block.cc
Value StateSpaceBlock(Writer& writer, const StateSpace& shape, const Value& x, const Sequence& sequence);

// ends.cc. Token, position and type embeddings of a stack.
Value EmbedTokens(Writer& writer, const Stack& stack, const Sequence& sequence, bool shares_tokens);
// Patches of images, a class token before them.
Value EmbedImage(Writer& writer, const SymInt& batch);
// Mel spectrograms of twice as many frames as `positions`.
Value EmbedSpeech(Writer& writer, const SymInt& batch, std::int64_t positions);
// Patches and the class token.
std::int64_t ImageTokens(const Model& model);
void WriteHead(Writer& writer, const Value& x, const Sequence& sequence);

}  // namespace gpueta::huggingface
