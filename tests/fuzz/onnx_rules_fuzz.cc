// Models of known operators with arbitrary attributes, shapes and constants, in
// functions and subgraphs as well: reaches the rules of operators, which arbitrary
// bytes seldom do.
#include <fuzzer/FuzzedDataProvider.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/importers/onnx/onnx_importer.h"
#include "core/importers/onnx/op_rule.h"

namespace {

constexpr int kMaxNodes = 12;
constexpr int kMaxInputs = 4;
constexpr int kMaxList = 5;

constexpr const char* kAttributes[] = {"axis",
                                       "axes",
                                       "perm",
                                       "pads",
                                       "strides",
                                       "kernel_shape",
                                       "dilations",
                                       "group",
                                       "keepdims",
                                       "transA",
                                       "transB",
                                       "to",
                                       "ceil_mode",
                                       "blocksize",
                                       "split",
                                       "starts",
                                       "ends",
                                       "steps",
                                       "start",
                                       "end",
                                       "output_padding",
                                       "allowzero",
                                       "output_shape",
                                       "batch_dims",
                                       "k",
                                       "dtype",
                                       "shape",
                                       "num_outputs",
                                       "num_groups",
                                       "value_ints",
                                       "value_int",
                                       "value_float",
                                       "scales",
                                       "N",
                                       "K",
                                       "bits",
                                       "num_heads",
                                       "value_floats",
                                       "noop_with_empty_axes"};
constexpr const char* kAutoPads[] = {"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"};
constexpr const char* kEquations[] = {"ij,jk->ik", "bhqd,bhkd->bhqk", "...i,ij->...j", "ii->i", "ij->",
                                      "i,i",       "a...->..."};
constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 4, 7, 12, 224, 257, 4096, INT32_MAX, INT64_MAX};
constexpr const char* kParams[] = {"n", "s", "2*n", "Min(512, s)", "n//2 + 1", ""};

std::int64_t SmallOrAny(FuzzedDataProvider& data) {
  if (data.ConsumeIntegralInRange<int>(0, 15) == 0) return data.ConsumeIntegral<std::int64_t>();
  return data.ConsumeIntegralInRange<std::int64_t>(-3, 9);
}

void AddAttribute(FuzzedDataProvider& data, onnx::NodeProto& node) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  switch (data.ConsumeIntegralInRange<int>(0, 9)) {
    case 0:
      attribute.set_name("auto_pad");
      attribute.set_s(data.PickValueInArray(kAutoPads));
      return;
    case 1:
      attribute.set_name("equation");
      attribute.set_s(data.PickValueInArray(kEquations));
      return;
    default: break;
  }
  attribute.set_name(data.PickValueInArray(kAttributes));
  switch (data.ConsumeIntegralInRange<int>(0, 3)) {
    case 0: attribute.set_i(SmallOrAny(data)); break;
    case 1: attribute.set_f(data.ConsumeFloatingPoint<float>()); break;
    case 2:
      for (int i = data.ConsumeIntegralInRange<int>(0, kMaxList); i > 0; --i)
        attribute.add_floats(static_cast<float>(SmallOrAny(data)));
      break;
    default:
      for (int i = data.ConsumeIntegralInRange<int>(0, kMaxList); i > 0; --i) attribute.add_ints(SmallOrAny(data));
  }
}

void AddInput(FuzzedDataProvider& data, const std::string& name, onnx::GraphProto& graph) {
  onnx::ValueInfoProto& input = *graph.add_input();
  input.set_name(name);
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(data.ConsumeIntegralInRange<int>(0, 23));
  type.mutable_shape();
  for (int i = data.ConsumeIntegralInRange<int>(0, kMaxList); i > 0; --i) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (data.ConsumeBool()) {
      dim.set_dim_value(data.PickValueInArray(kSizes));
    } else {
      dim.set_dim_param(data.PickValueInArray(kParams));
    }
  }
}

void AddInitialiser(FuzzedDataProvider& data, const std::string& name, onnx::GraphProto& graph) {
  onnx::TensorProto& stored = *graph.add_initializer();
  stored.set_name(name);
  if (data.ConsumeBool()) {  // a list of integers
    stored.set_data_type(onnx::TensorProto::INT64);
    const int size = data.ConsumeIntegralInRange<int>(0, kMaxList);
    if (size != 1 || data.ConsumeBool()) stored.add_dims(size);
    for (int i = 0; i < size; ++i) stored.add_int64_data(SmallOrAny(data));
  } else {  // weights
    stored.set_data_type(data.ConsumeIntegralInRange<int>(0, 23));
    for (int i = data.ConsumeIntegralInRange<int>(0, kMaxList); i > 0; --i)
      stored.add_dims(data.PickValueInArray(kSizes));
  }
}

class ModelMaker {
 public:
  explicit ModelMaker(FuzzedDataProvider& data) : data_(data) {}

  onnx::ModelProto Make() {
    onnx::ModelProto model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(data_.ConsumeIntegralInRange<int>(1, 23));
    onnx::GraphProto& graph = *model.mutable_graph();
    for (int i = data_.ConsumeIntegralInRange<int>(1, kMaxInputs); i > 0; --i) AddInput(data_, NewName(), graph);
    for (int i = data_.ConsumeIntegralInRange<int>(1, kMaxInputs); i > 0; --i) AddInitialiser(data_, NewName(), graph);
    AddNodes(*graph.mutable_node(), 0);
    graph.add_output()->set_name(tensors_.back());
    for (const char* name : kFunctions) AddFunction(name, model);
    return model;
  }

 private:
  static constexpr const char* kFunctions[] = {"f0", "f1"};
  static constexpr int kMaxDepth = 2;

  std::string NewName() { return tensors_.emplace_back("t" + std::to_string(tensors_.size())); }
  std::string AnyName() { return tensors_[data_.ConsumeIntegralInRange<std::size_t>(0, tensors_.size() - 1)]; }

  void AddNodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int depth) {
    for (int i = data_.ConsumeIntegralInRange<int>(1, depth == 0 ? kMaxNodes : 3); i > 0; --i) {
      AddNode(*nodes.Add(), depth);
    }
  }

  void AddNode(onnx::NodeProto& node, int depth) {
    static const std::vector<std::string> ops = [] {
      std::vector<std::string> names;
      for (const auto& [name, rule] : gpueta::onnx_import::KnownOps()) names.emplace_back(name);
      std::sort(names.begin(), names.end());
      return names;
    }();
    for (int j = data_.ConsumeIntegralInRange<int>(0, kMaxInputs); j > 0; --j) node.add_input(AnyName());
    const int kind = data_.ConsumeIntegralInRange<int>(0, 15);
    if (kind < 3 && depth < kMaxDepth) {
      static constexpr const char* kFlow[] = {"If", "Loop", "Scan"};
      node.set_op_type(kFlow[kind]);
      for (const char* name :
           kind == 0 ? std::vector<const char*>{"then_branch", "else_branch"} : std::vector<const char*>{"body"}) {
        AddBody(name, kind == 0 ? 0 : node.input_size(), node, depth);
      }
      if (kind == 2) {
        onnx::AttributeProto& scanned = *node.add_attribute();
        scanned.set_name("num_scan_inputs");
        scanned.set_i(SmallOrAny(data_));
      }
    } else if (kind == 3) {
      node.set_op_type(data_.PickValueInArray(kFunctions));
      node.set_domain("mine");
    } else {
      node.set_op_type(ops[data_.ConsumeIntegralInRange<std::size_t>(0, ops.size() - 1)]);
    }
    for (int j = data_.ConsumeIntegralInRange<int>(0, kMaxInputs); j > 0; --j) {
      AddAttribute(data_, node);
      if (data_.ConsumeIntegralInRange<int>(0, 7) == 0) {
        node.mutable_attribute(node.attribute_size() - 1)->set_ref_attr_name(data_.PickValueInArray(kAttributes));
      }
    }
    for (int j = data_.ConsumeIntegralInRange<int>(1, 3); j > 0; --j) node.add_output(NewName());
  }

  void AddBody(const char* name, int inputs, onnx::NodeProto& node, int depth) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    onnx::GraphProto& body = *attribute.mutable_g();
    for (int i = 0; i < inputs; ++i) body.add_input()->set_name(NewName());
    if (data_.ConsumeBool()) AddInitialiser(data_, NewName(), body);
    AddNodes(*body.mutable_node(), depth + 1);
    for (int i = data_.ConsumeIntegralInRange<int>(1, kMaxInputs + 1); i > 0; --i)
      body.add_output()->set_name(AnyName());
  }

  void AddFunction(const char* name, onnx::ModelProto& model) {
    onnx::FunctionProto& function = *model.add_functions();
    function.set_domain("mine");
    function.set_name(name);
    tensors_ = {""};
    for (int i = data_.ConsumeIntegralInRange<int>(0, kMaxInputs); i > 0; --i) function.add_input(NewName());
    AddNodes(*function.mutable_node(), 1);
    for (int i = data_.ConsumeIntegralInRange<int>(1, 3); i > 0; --i) function.add_output(AnyName());
  }

  FuzzedDataProvider& data_;
  std::vector<std::string> tensors_ = {""};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  const absl::StatusOr<gpueta::Graph> graph = gpueta::ImportOnnx(ModelMaker(data).Make().SerializeAsString(), "fuzzed");
  if (!graph.ok()) return 0;
  gpueta::SymbolValues values;
  for (const gpueta::Graph::Symbol& symbol : graph->symbols) values[symbol.name] = 3;
  // Fails where symbols of 3 give impossible dims.
  const absl::StatusOr<gpueta::GraphCounts> counts = gpueta::CountsOf(*graph, values);
  if (counts.ok() && (counts->macs < 0 || counts->bytes < 0)) std::abort();
  return 0;
}
