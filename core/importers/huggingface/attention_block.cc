#include <algorithm>
#include <string>

#include "core/importers/huggingface/blocks.h"

namespace gpueta::huggingface {
namespace {

struct Heads {
  Value query;
  Value key;
  Value value;
};

// Part of x's columns; no kernel runs.
Value View(const Value& x, const SymInt& cols) {
  Value part = x;
  part.cols = cols;
  return part;
}

// Keys that `query` tokens see under a causal mask and a window, as one number
// for all of them: with it, query·keys is the number of pairs that are left.
struct Seen {
  SymInt keys;
  SymInt causal;  // 1: the mask is the usual triangle
};

Seen Behind(std::int64_t window, const Sequence& s) {
  if (s.decodes()) return {window == 0 ? s.seen : Min(s.seen, window), 0};
  if (!s.causal) return {s.seen, 0};
  if (window == 0) return {s.seen, 1};
  // Inside the window nothing changes. Beyond it each token sees `window`, the
  // first ones less: with d = window − (seen − tokens) missing to the first,
  // d(d − 1)/2 pairs fewer in all.
  const SymInt inside = Min(1, FloorDiv(window, s.seen));
  const SymInt missing = Max(0, SymInt(window) - s.seen + s.tokens);
  const SymInt beyond = SymInt(window) - FloorDiv(missing * (missing - 1), SymInt(2) * s.tokens);
  return {inside * s.seen + (SymInt(1) - inside) * Max(1, beyond), inside};
}

DType CacheType(const Writer& writer) { return writer.options().kv_dtype.value_or(writer.model().dtype); }

// The rotation written out for one tensor: x·cos + rotate_half(x)·sin.
Value RotateOpByOp(Writer& writer, const std::string& name, const Value& x) {
  const Value negated = writer.Vector(name + ".negate", "neg", View(x, FloorDiv(x.cols, 2)));
  Value half = writer.Vector(name + ".join", "copy", x, 1, {negated});
  half = writer.Vector(name + ".sin", "mul", half);
  const Value straight = writer.Vector(name + ".cos", "mul", x);
  return writer.Add(name + ".sum", straight, half);
}

void Rotate(Writer& writer, Heads& heads) {
  if (writer.op_by_op()) {
    heads.query = RotateOpByOp(writer, "rope_query", heads.query);
    heads.key = RotateOpByOp(writer, "rope_key", heads.key);
    return;
  }
  const Value both =
      writer.Vector("rope", "rope", View(heads.query, heads.query.cols + heads.key.cols), 1, {heads.key});
  heads.query = View(both, heads.query.cols);
  heads.key = View(both, heads.key.cols);
}

void Normalise(Writer& writer, const AttentionShape& a, Heads& heads) {
  const auto normalised = [&](std::string_view name, const Value& x, std::int64_t count) {
    huggingface::Norm norm = writer.model().norm;
    if (a.qk_norm == QkNorm::kAll) norm.bias = false;
    if (a.qk_norm == QkNorm::kAll && norm.kind == Norm::Kind::kRms) {
      return writer.Norm(name, x, norm, count * a.head_dim);
    }
    // Over each head; kAll has weights for each.
    Value by_head{x.node, x.rows * count, a.head_dim, x.split == Split::kColumns ? Split::kHeads : x.split};
    by_head = writer.Norm(name, by_head, norm, a.qk_norm == QkNorm::kAll ? count * a.head_dim : a.head_dim);
    return Value{by_head.node, x.rows, x.cols, x.split};
  };
  heads.query = normalised("query_norm", heads.query, a.heads);
  heads.key = normalised("key_norm", heads.key, a.kv_heads);
}

Heads Project(Writer& writer, const AttentionShape& a, const Value& x) {
  const std::int64_t query = a.heads * a.head_dim;
  const std::int64_t key = a.kv_heads * a.head_dim;
  if (!a.packed && writer.op_by_op()) {
    return {writer.Linear("query", x, query, a.query_bias, Split::kColumns),
            writer.Linear("key", x, key, a.key_bias, Split::kColumns),
            writer.Linear("value", x, key, a.value_bias, Split::kColumns)};
  }
  const Value all = writer.Linear("query_key_value", x, query + 2 * key, false, Split::kColumns);
  const Count biases = Count(a.query_bias ? query : 0) + Count(a.key_bias ? key : 0) + Count(a.value_bias ? key : 0);
  writer.Parameters(biases);
  writer.LastReads(Count(writer.model().hidden) * Count(query + 2 * key) + biases);
  return {View(all, query), View(all, key), View(all, key)};
}

// Batched products want heads apart: [batch, tokens, heads, dim] is copied.
Value SplitHeads(Writer& writer, std::string_view name, const Value& x, const SymInt& pairs, const SymInt& tokens,
                 std::int64_t head_dim) {
  return writer.Vector(name, "copy", {x.node, pairs * tokens, head_dim, Split::kHeads});
}

// Two products around a softmax, as eager code writes them.
Value WrittenOut(Writer& writer, const AttentionShape& a, Heads heads, const Sequence& s, const SymInt& keys) {
  const SymInt pairs = s.batch * a.heads;
  if (a.scales_query) heads.query = writer.Vector("scale_query", "mul", heads.query);
  if (a.kv_heads < a.heads) {
    heads.key = SplitHeads(writer, "repeat_keys", heads.key, pairs, keys, a.head_dim);
    heads.value = SplitHeads(writer, "repeat_values", heads.value, pairs, keys, a.head_dim);
  } else {
    heads.key = SplitHeads(writer, "split_keys", heads.key, pairs, keys, a.head_dim);
    heads.value = SplitHeads(writer, "split_values", heads.value, pairs, keys, a.head_dim);
  }
  heads.query = SplitHeads(writer, "split_query", heads.query, pairs, s.tokens, a.head_dim);
  Value scores = writer.Bmm("scores", heads.query, heads.key, pairs, s.tokens, keys, a.head_dim);
  for (const std::string_view op : a.score_ops) scores = writer.Vector(op, op, scores);
  scores = writer.AttentionDropout(writer.Vector("softmax", "softmax", scores));
  const Value context = writer.Bmm("context", scores, heads.value, pairs, s.tokens, a.head_dim, keys);
  return writer.Vector("merge_heads", "copy", {context.node, s.rows(), a.heads * a.head_dim, Split::kColumns});
}

// head_dim is that of `a` unless queries and values differ.
Value Fused(Writer& writer, const AttentionShape& a, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t out,
            const Heads& heads, const Sequence& s, const Seen& seen) {
  return writer.Kernel("attention", "Attention", Attention{.phase = s.phase, .kv_dtype = CacheType(writer)},
                       {{"batch", s.batch},
                        {"query_len", s.tokens},
                        {"kv_len", seen.keys},
                        {"heads", a.heads},
                        {"kv_heads", kv_heads},
                        {"head_dim", head_dim},
                        {"causal", seen.causal}},
                       {heads.query, heads.key, heads.value}, s.rows(), out, Split::kHeads);
}

Value Out(Writer& writer, const AttentionShape& a, Value context) {
  context.split = Split::kColumns;
  return writer.Linear("output", context, writer.model().hidden, a.out_bias, Split::kRows);
}

// Latent attention. When decoding, the products with the key's and value's
// up-projection move to queries and outputs ("absorbed"): all heads then share
// one key of rank + rope_dim and its first rank as the value.
Value LatentAttention(Writer& writer, const AttentionShape& a, const Value& x, const Sequence& s, const Seen& seen) {
  const Latent& l = *a.latent;
  const std::int64_t query_dim = l.nope_dim + l.rope_dim;
  Heads heads;
  if (l.query_rank > 0) {
    const Value low = writer.Linear("query_down", x, l.query_rank, a.query_bias);
    const Value norm = writer.Norm("query_norm", low, writer.model().norm, l.query_rank);
    heads.query = writer.Linear("query_up", norm, a.heads * query_dim, false, Split::kColumns);
  } else {
    heads.query = writer.Linear("query", x, a.heads * query_dim, false, Split::kColumns);
  }
  const Value low = writer.Linear("key_value_down", x, l.kv_rank + l.rope_dim, a.query_bias);
  const Value norm = writer.Norm("key_value_norm", View(low, l.kv_rank), writer.model().norm, l.kv_rank);
  heads.key = heads.value = norm;
  const Value rotated = writer.Vector("rope", "rope", View(heads.query, (a.heads + 1) * l.rope_dim), 1, {low});
  heads.query = View(rotated, heads.query.cols);
  const std::int64_t out = a.heads * l.value_dim;
  if (!s.decodes()) {
    heads.key = heads.value =
        writer.Linear("key_value_up", norm, a.heads * (l.nope_dim + l.value_dim), false, Split::kColumns);
    return Out(writer, a, Fused(writer, a, a.heads, (query_dim + l.value_dim + 1) / 2, out, heads, s, seen));
  }
  const Count up = Count(l.kv_rank) * Count(a.heads) * Count(l.nope_dim + l.value_dim);
  writer.Parameters(up);
  writer.StoredAsWeights(up);
  heads.query = writer.Bmm("absorb_key", heads.query, norm, a.heads, s.rows(), l.kv_rank, l.nope_dim);
  Value context = Fused(writer, a, 1, (2 * l.kv_rank + l.rope_dim) / 2, a.heads * l.kv_rank, heads, s, seen);
  context = writer.Bmm("absorb_value", context, norm, a.heads, s.rows(), l.value_dim, l.kv_rank);
  return Out(writer, a, {context.node, s.rows(), out});
}

}  // namespace

Value SelfAttention(Writer& writer, const AttentionShape& a, const Layer& layer, bool first, const Value& x,
                    const Sequence& s) {
  const int bits = BitsOf(CacheType(writer)).activation;
  if (a.sinks) writer.Parameters(Count(a.heads));
  if (first) writer.Parameters(Count(a.buckets) * Count(a.heads));
  if (s.causal) {
    const Count cached =
        a.latent.has_value() ? Count(a.latent->kv_rank + a.latent->rope_dim) : Product({2, a.kv_heads, a.head_dim});
    writer.AddKvBytes(BytesOf(cached, bits));
  }
  const Seen seen = Behind(layer.window, s);
  if (a.latent.has_value()) return LatentAttention(writer, a, x, s, seen);
  Heads heads = Project(writer, a, x);
  if (a.qk_norm != QkNorm::kNone) Normalise(writer, a, heads);
  if (a.rope) Rotate(writer, heads);
  if (writer.options().written_out_attention) return Out(writer, a, WrittenOut(writer, a, heads, s, s.seen));
  return Out(writer, a, Fused(writer, a, a.kv_heads, a.head_dim, a.heads * a.head_dim, heads, s, seen));
}

Value CrossAttention(Writer& writer, const AttentionShape& a, const Value& x, const Sequence& s, const Value& memory,
                     const SymInt& memory_tokens) {
  Heads heads;
  heads.query = writer.Linear("query", x, a.heads * a.head_dim, a.query_bias, Split::kColumns);
  const bool muted = writer.muted();
  writer.Mute(muted || s.decodes());
  heads.key = writer.Linear("key", memory, a.kv_heads * a.head_dim, a.key_bias, Split::kColumns);
  heads.value = writer.Linear("value", memory, a.kv_heads * a.head_dim, a.value_bias, Split::kColumns);
  writer.Mute(muted);
  if (writer.options().written_out_attention) return Out(writer, a, WrittenOut(writer, a, heads, s, memory_tokens));
  return Out(writer, a, Fused(writer, a, a.kv_heads, a.head_dim, a.heads * a.head_dim, heads, s, {memory_tokens, 0}));
}

}  // namespace gpueta::huggingface
