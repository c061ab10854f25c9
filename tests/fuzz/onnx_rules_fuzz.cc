// Models of known operators with arbitrary attributes, shapes and constants:
// reaches the rules of operators, which arbitrary bytes seldom do.
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

onnx::ModelProto RandomModel(FuzzedDataProvider& data) {
  static const std::vector<std::string> ops = [] {
    std::vector<std::string> names;
    for (const auto& [name, rule] : gpueta::onnx_import::KnownOps()) names.emplace_back(name);
    std::sort(names.begin(), names.end());
    return names;
  }();
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(data.ConsumeIntegralInRange<int>(1, 23));
  onnx::GraphProto& graph = *model.mutable_graph();
  std::vector<std::string> tensors = {""};
  const auto new_name = [&tensors] { return tensors.emplace_back("t" + std::to_string(tensors.size())); };
  for (int i = data.ConsumeIntegralInRange<int>(1, kMaxInputs); i > 0; --i) AddInput(data, new_name(), graph);
  for (int i = data.ConsumeIntegralInRange<int>(1, kMaxInputs); i > 0; --i) AddInitialiser(data, new_name(), graph);
  for (int i = data.ConsumeIntegralInRange<int>(1, kMaxNodes); i > 0; --i) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type(ops[data.ConsumeIntegralInRange<std::size_t>(0, ops.size() - 1)]);
    for (int j = data.ConsumeIntegralInRange<int>(0, kMaxInputs); j > 0; --j) {
      node.add_input(tensors[data.ConsumeIntegralInRange<std::size_t>(0, tensors.size() - 1)]);
    }
    for (int j = data.ConsumeIntegralInRange<int>(0, kMaxInputs); j > 0; --j) AddAttribute(data, node);
    for (int j = data.ConsumeIntegralInRange<int>(1, 3); j > 0; --j) node.add_output(new_name());
  }
  graph.add_output()->set_name(tensors.back());
  return model;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  const absl::StatusOr<gpueta::Graph> graph = gpueta::ImportOnnx(RandomModel(data).SerializeAsString(), "fuzzed");
  if (!graph.ok()) return 0;
  gpueta::SymbolValues values;
  for (const gpueta::Graph::Symbol& symbol : graph->symbols) values[symbol.name] = 3;
  // Fails where symbols of 3 give impossible dims.
  const absl::StatusOr<gpueta::GraphCounts> counts = gpueta::CountsOf(*graph, values);
  if (counts.ok() && (counts->macs < 0 || counts->bytes < 0)) std::abort();
  return 0;
}
