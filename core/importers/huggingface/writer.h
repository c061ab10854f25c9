// Writes the kernels of a model into a graph and counts its parameters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/importers/huggingface/huggingface_importer.h"
#include "core/importers/huggingface/model.h"

namespace gpueta::huggingface {

// A tensor of rows × cols elements on its way through the model.
struct Value {
  int node = -1;  // that wrote it; -1: an input
  SymInt rows;
  SymInt cols;
  Split split = Split::kWhole;
};

class Writer {
 public:
  Writer(const Model& model, const HuggingFaceOptions& options) : model_(model), options_(options) {}

  const Model& model() const { return model_; }
  const HuggingFaceOptions& options() const { return options_; }
  bool op_by_op() const { return options_.op_by_op; }

  // What the following kernels belong to: their names begin with it.
  void Enter(std::string scope, int layer = -1);
  // Counts parameters only, until switched back.
  void Mute(bool mute) { muted_ = mute; }
  bool muted() const { return muted_; }

  // x·W, with rows(x) the tokens.
  Value Linear(std::string_view name, const Value& x, std::int64_t out, bool bias, Split split = Split::kWhole);
  // The same in the model's own type although linear layers are quantised, and
  // of parameters that are counted elsewhere.
  Value Product(std::string_view name, const Value& x, std::int64_t out, Split split = Split::kWhole);
  // A batch of products of activations: [batch, m, k]·[batch, k, n].
  Value Bmm(std::string_view name, const Value& a, const Value& b, const SymInt& batch, const SymInt& m,
            const SymInt& n, const SymInt& k);
  // A vector operator over a tensor of x's shape that reads `operands` tensors
  // of that size; `more` are further inputs.
  Value Vector(std::string_view name, std::string_view op, const Value& x, int operands = 1,
               const std::vector<Value>& more = {});
  Value Add(std::string_view name, const Value& a, const Value& b) { return Vector(name, "add", a, 2, {b}); }
  Value Norm(std::string_view name, const Value& x, const huggingface::Norm& norm, std::int64_t width);
  // Where training asks for it; else x.
  Value HiddenDropout(const Value& x) { return Dropout(x, model_.hidden_dropout); }
  Value AttentionDropout(const Value& x) { return Dropout(x, model_.attention_dropout); }
  Value Activation(std::string_view name, std::string_view activation, const Value& x);
  // activation(gate)·up
  Value GatedActivation(std::string_view name, std::string_view activation, const Value& gate, const Value& up);
  // Any kernel, with symbolic dims by name.
  struct Dim {
    std::string_view name;
    SymInt value;
  };
  Value Kernel(std::string_view name, std::string source_op, Work work, const std::vector<Dim>& dims,
               const std::vector<Value>& inputs, const SymInt& rows, const SymInt& cols, Split split);

  // Counts parameters without a kernel of their own; of `active` a token meets.
  void Parameters(Count total, Count active);
  void Parameters(Count total) { Parameters(total, total); }
  // Of those counted, these are stored in the type of linear layers.
  void StoredAsWeights(Count parameters) { quantised_ = quantised_ + parameters; }
  // The last kernel reads this many of them.
  void LastReads(Count parameters);
  // The last kernel is one of those whose weights may be quantised.
  void LastRunsInWeightType();
  void AddKvBytes(Count bytes) { kv_bytes_ = kv_bytes_ + bytes; }

  // INVALID_ARGUMENT for more than 2^60 parameters.
  absl::StatusOr<Graph> Finish(std::string display_name);

 private:
  Value Dropout(const Value& x, bool drops) { return drops && options_.training ? Vector("dropout", "dropout", x) : x; }
  Value Append(GraphNode node, std::string_view name, const std::vector<Value>& inputs, const SymInt& rows,
               const SymInt& cols, Split split);

  const Model& model_;
  const HuggingFaceOptions& options_;
  Graph graph_;
  std::string scope_;
  int layer_ = -1;
  bool muted_ = false;
  Count total_;
  Count active_;
  Count quantised_;  // parameters in the type of weights
  Count kv_bytes_;
};

}  // namespace gpueta::huggingface
