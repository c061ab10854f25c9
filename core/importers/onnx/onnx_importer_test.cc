#include "core/importers/onnx/onnx_importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "core/base/errors.h"
#include "core/importers/onnx/testing_models.h"

namespace gpueta {
namespace {

using onnx_import::ModelFromText;
using onnx_import::NodeTexts;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

constexpr char kSmallModel[] = "tests/data/onnx/vgg16.ts-op14.onnx";

absl::StatusOr<Graph> ImportModel(const onnx::ModelProto& model) { return ImportOnnx(model.SerializeAsString(), "m"); }

std::string ReadFile(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

TEST(ImportOnnxTest, FileIsShownByItsName) {
  const absl::StatusOr<Graph> graph = ImportOnnxFile(kSmallModel);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->display_name, "vgg16.ts-op14");
  EXPECT_THAT(graph->inputs, ElementsAre("input: fp32[batch,3,224,224]"));
  EXPECT_THAT(graph->symbols, ElementsAre(Field(&Graph::Symbol::name, "batch")));
  EXPECT_EQ(graph->parameters, 138357544);
  EXPECT_EQ(graph->parameter_bytes, 4 * 138357544);
}

TEST(ImportOnnxTest, FilesThatAreNoneAreErrorsWithTheirPath) {
  const absl::Status missing = ImportOnnxFile("no/such.onnx").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(missing), StartsWith("no/such.onnx: "));
  const absl::Status directory = ImportOnnxFile("tests/data").status();
  EXPECT_EQ(directory.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(directory), StartsWith("tests/data: "));
}

TEST(ImportOnnxTest, RejectsTruncatedFiles) {
  const std::string bytes = ReadFile(kSmallModel);
  const std::string hash = HashOf(ImportOnnx(bytes, "").value());
  for (std::size_t length = 0; length < bytes.size(); length += length < 200 ? 1 : 97) {
    const absl::StatusOr<Graph> graph = ImportOnnx(std::string_view(bytes).substr(0, length), "");
    ASSERT_FALSE(graph.ok()) << length;
    ASSERT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
    ASSERT_THAT(MessageOf(graph.status()), HasSubstr("is not an ONNX file or is cut short")) << length;
  }
}

TEST(ImportOnnxTest, RejectsRandomBytes) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(std::uniform_int_distribution<std::size_t>(0, 300)(random), '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const absl::StatusOr<Graph> graph = ImportOnnx(bytes, "");
    ASSERT_FALSE(graph.ok());
    ASSERT_THAT(MessageOf(graph.status()), HasSubstr("is not an ONNX file or is cut short"));
  }
}

TEST(ImportOnnxTest, SurvivesFlippedBytes) {
  const std::string bytes = ReadFile(kSmallModel);
  std::mt19937 random(5);
  int imported = 0;
  for (int i = 0; i < 500; ++i) {
    std::string damaged = bytes;
    for (int j = 0; j < 3; ++j) damaged[random() % damaged.size()] = static_cast<char>(random());
    const absl::StatusOr<Graph> graph = ImportOnnx(damaged, "");
    if (!graph.ok()) continue;
    ASSERT_TRUE(Validate(*graph).ok());
    ++imported;
  }
  EXPECT_GT(imported, 0);
}

TEST(ImportOnnxTest, LargePayloadsAreSkipped) {
  onnx::ModelProto model = ModelFromText("float[n,100] x, float[100,100] w", "y = MatMul (x, w)");
  model.mutable_graph()->mutable_initializer(0)->set_raw_data(std::string(40000, 'x'));
  const absl::StatusOr<Graph> graph = ImportModel(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->parameters, 10000);
  EXPECT_THAT(NodeTexts(*graph), ElementsAre("gemm fp32 linear m=n n=100 k=100"));
}

TEST(ImportOnnxTest, RefusesWhatUnpacksToGigabytes) {
  // A node of 2 bytes in the file takes a hundred times that in memory.
  onnx::ModelProto model = ModelFromText("float[n] x", "y = Neg (x)");
  std::string graph = model.graph().SerializeAsString();
  for (int i = 0; i < 6000000; ++i) graph.append("\x0A\x00", 2);
  model.clear_graph();
  std::string bytes = model.SerializeAsString() + "\x3A";
  for (std::size_t rest = graph.size(); rest > 0; rest >>= 7) {
    bytes += static_cast<char>((rest & 0x7F) | (rest > 0x7F ? 0x80 : 0));
  }
  EXPECT_EQ(ImportOnnx(bytes + graph, "").status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ImportOnnxTest, DeepNestingIsRefused) {
  onnx::AttributeProto attribute;
  for (int i = 0; i < 60; ++i) {
    onnx::AttributeProto outer;
    *outer.mutable_g()->add_node()->add_attribute() = attribute;
    attribute = outer;
  }
  onnx::ModelProto model = ModelFromText("float[n] x", "y = Neg (x)");
  *model.mutable_graph()->mutable_node(0)->add_attribute() = attribute;
  EXPECT_EQ(ImportModel(model).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ImportOnnxTest, ManyNodesInALine) {
  std::string nodes = "t0 = Neg (x)";
  for (int i = 1; i < 20000; ++i) nodes += " t" + std::to_string(i) + " = Relu (t" + std::to_string(i - 1) + ")";
  const absl::StatusOr<Graph> graph = ImportModel(ModelFromText("float[n,5] x", nodes + " y = Neg (t19999)"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes.size(), 20001U);
}

struct BadModel {
  std::string inputs;
  std::string nodes;
  std::vector<std::string> problems;  // all in the message
};

class BadModelTest : public ::testing::TestWithParam<BadModel> {};

TEST_P(BadModelTest, NamesNodeAndTensor) {
  const absl::Status status = ImportModel(ModelFromText(GetParam().inputs, GetParam().nodes)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& problem : GetParam().problems) EXPECT_THAT(MessageOf(status), HasSubstr(problem));
}

INSTANTIATE_TEST_SUITE_P(
    Errors, BadModelTest,
    ::testing::Values(
        BadModel{"float[n] x", "a = Add (x, b) b = Neg (c) c = Neg (a) y = Neg (b)", {"has a cycle", "reads tensor"}},
        BadModel{"float[n] x", "a = Add (x, a) y = Neg (a)", {"has a cycle", "node \"a\" (Add) reads tensor \"a\""}},
        BadModel{"float[n] x", "y = Add (x, ghost)", {"node \"y\" (Add)", "tensor \"ghost\", which is no input"}},
        BadModel{"float[n] x",
                 "a = Neg (x) a = Relu (x) y = Neg (a)",
                 {"node \"a\" (Relu)", "produces tensor \"a\", which something else produces"}},
        BadModel{"float[n] x", "x = Neg (x) y = Neg (x)", {"produces tensor \"x\""}},
        BadModel{"float[n,3] x, float[4,5] w",
                 "y = MatMul (x, w)",
                 {"node \"y\" (MatMul)", "[n,3] and [4,5] cannot be multiplied"}},
        BadModel{"float[n,3] x, float[n,4] z", "y = Add (x, z)", {"node \"y\" (Add)", "does not broadcast"}},
        BadModel{"float[n,3] x", "y = Softmax <axis = 2> (x)", {"axis 2 is outside a tensor of 2 dims"}},
        BadModel{"float[n,3] x", "y = Transpose <perm = [0,0]> (x)", {"no permutation of 2 axes"}},
        BadModel{"float[2,3] x",
                 "p = Constant <value_ints = [7]> () y = Reshape (x, p)",
                 {"6 elements of shape [2,3] cannot take the shape [7]"}},
        BadModel{"float[2,3] x", "p = Constant <value_ints = [-1,-1]> () y = Reshape (x, p)", {"leaves two dims open"}},
        BadModel{
            "float[n,3,8,8] x, float[4,3,3,3] w", "y = Conv <strides = [0,1]> (x, w)", {"attribute strides holds 0"}},
        BadModel{
            "float[n,3,8,8] x, float[4,3,3,3] w", "y = Conv <pads = [1,1]> (x, w)", {"attribute pads has 2 values"}},
        BadModel{"float[n,3,8,8] x, float[4,3,3,3] w", "y = Conv <group = 0> (x, w)", {"attribute group is 0"}},
        BadModel{"float[n,5,8,8] x, float[4,3,3,3] w", "y = Conv (x, w)", {"do not fit 5 input channels"}},
        BadModel{"float[1,3,2,8] x, float[4,3,3,3] w", "y = Conv (x, w)", {"window of 3 elements does not fit"}},
        BadModel{"float[n,3] x", "y = Concat <axis = \"one\"> (x, x)", {"attribute axis is no integer"}},
        BadModel{"float[n,3] x", "y = MatMul (x)", {"node \"y\" (MatMul): input 1 is missing"}},
        BadModel{"float[4611686018427387904,4] x", "y = Neg (x)", {"node \"y\" (Neg)"}},
        BadModel{"float[4611686018427387904,s] x, float[4611686018427387904,s] z",
                 "y = Concat <axis = 0> (x, z)",
                 {"node \"y\" (Concat)", "overflow"}},
        BadModel{"float[-2,4] x", "y = Neg (x)", {"input \"x\", dim 0: is -2"}}));

struct BadProto {
  void (*damage)(onnx::ModelProto&);
  absl::StatusCode code;
  std::string problem;
};

// Makes the model's node a call of a function that goes wrong in this way.
void AddFunctionThat(onnx::ModelProto& model, const std::string& problem) {
  onnx::NodeProto& call = *model.mutable_graph()->mutable_node(0);
  call.set_domain("mine");
  call.set_op_type(problem + "0");
  const bool doubles = problem == "Twice";
  for (int i = 0; i < (doubles ? 20 : 1); ++i) {
    onnx::FunctionProto& function = *model.add_functions();
    function.set_domain("mine");
    function.set_name(problem + std::to_string(i));
    if (problem != "TakesNothing") {
      function.add_input("a");
      function.add_input("w");
    }
    function.add_output("b");
    if (problem == "YieldsNothing") continue;
    for (const char* output : {"b", "c"}) {
      onnx::NodeProto& node = *function.add_node();
      node.set_domain("mine");
      node.set_op_type(problem + std::to_string(doubles ? i + 1 : i));
      node.add_input("a");
      node.add_output(output);
    }
  }
}

class BadProtoTest : public ::testing::TestWithParam<BadProto> {};

TEST_P(BadProtoTest, NamesThePlace) {
  onnx::ModelProto model = ModelFromText("float[n,3] x, float[3,5] w", "y = MatMul (x, w)");
  GetParam().damage(model);
  const absl::Status status = ImportModel(model).status();
  EXPECT_EQ(status.code(), GetParam().code);
  EXPECT_THAT(MessageOf(status), HasSubstr(GetParam().problem));
}

INSTANTIATE_TEST_SUITE_P(
    Errors, BadProtoTest,
    ::testing::Values(
        BadProto{[](onnx::ModelProto& m) { m.mutable_graph()->mutable_initializer(0)->set_dims(0, -1); },
                 absl::StatusCode::kInvalidArgument, "initialiser \"w\": has the negative dim -1"},
        BadProto{[](onnx::ModelProto& m) { m.mutable_graph()->mutable_initializer(0)->set_dims(0, INT64_MAX); },
                 absl::StatusCode::kInvalidArgument, "initialiser \"w\": has more than 2^55 elements"},
        BadProto{[](onnx::ModelProto& m) { *m.mutable_graph()->add_initializer() = m.graph().initializer(0); },
                 absl::StatusCode::kInvalidArgument, "initialiser \"w\": there are two of this name"},
        BadProto{[](onnx::ModelProto& m) {
                   for (int i = 0; i < 40; ++i) {
                     onnx::TensorProto& stored = *m.mutable_graph()->add_initializer();
                     stored.set_name("w" + std::to_string(i));
                     stored.set_data_type(onnx::TensorProto::FLOAT);
                     stored.add_dims(std::int64_t{1} << 55);
                   }
                 },
                 absl::StatusCode::kInvalidArgument, "the initialisers together have more than 2^62 bytes"},
        BadProto{[](onnx::ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_op_type("Loop"); },
                 absl::StatusCode::kInvalidArgument, "node \"y\" (Loop): attribute body is no graph"},
        BadProto{[](onnx::ModelProto& m) { AddFunctionThat(m, "Twice"); }, absl::StatusCode::kResourceExhausted,
                 "functions and loops expand to more than 262144 nodes"},
        BadProto{[](onnx::ModelProto& m) { AddFunctionThat(m, "CallsItself"); }, absl::StatusCode::kInvalidArgument,
                 "nested more than 24 deep, or call themselves"},
        BadProto{[](onnx::ModelProto& m) { AddFunctionThat(m, "YieldsNothing"); }, absl::StatusCode::kInvalidArgument,
                 "the function does not produce its output \"b\""},
        BadProto{[](onnx::ModelProto& m) { AddFunctionThat(m, "TakesNothing"); }, absl::StatusCode::kInvalidArgument,
                 "the function has 0 inputs and 1 outputs, the call 2 and 1"},
        BadProto{[](onnx::ModelProto& m) { m.mutable_graph()->mutable_node(0)->clear_output(); },
                 absl::StatusCode::kInvalidArgument, "it has no output"},
        BadProto{[](onnx::ModelProto& m) {
                   auto* shape =
                       m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
                   for (int i = 0; i < 40; ++i) shape->add_dim()->set_dim_value(1);
                 },
                 absl::StatusCode::kInvalidArgument, "input \"x\" has 42 dims"},
        BadProto{[](onnx::ModelProto& m) { m.clear_opset_import(); }, absl::StatusCode::kInvalidArgument,
                 "is not an ONNX file"}));

TEST(ImportOnnxTest, NodesOutOfOrderAreSorted) {
  const absl::StatusOr<Graph> graph =
      ImportModel(ModelFromText("float[n,5] x", "y = Neg (b) b = Relu (a) a = Exp (x)"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAre("vector fp32 exp rows=n cols=5", "vector fp32 relu rows=n cols=5",
                                             "vector fp32 neg rows=n cols=5"));
  EXPECT_THAT(graph->nodes[1].inputs, ElementsAre(0));
  EXPECT_THAT(graph->nodes[2].inputs, ElementsAre(1));
}

TEST(ImportOnnxTest, EdgesFollowDataThroughViewsAndNotThroughShapes) {
  const absl::StatusOr<Graph> graph = ImportModel(ModelFromText(
      "float[n,6] x, float[6,4] w",
      "a = MatMul (x, w) z = Shape (a) b = Relu (x) r = Reshape (b, z2) z2 = Constant <value_ints = [-1,3]> () "
      "e = Expand (c, z) c = Constant <value_float = 1.0> () y = Add (a, e) unused = Neg (r)"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_THAT(NodeTexts(*graph),
              ElementsAre("gemm fp32 linear m=n n=4 k=6", "vector fp32 relu rows=n cols=6",
                          "(free) vector fp32 view rows=2*n cols=3", "vector fp32 copy rows=n cols=4",
                          "vector fp32 add rows=n cols=4 operands=2", "vector fp32 neg rows=2*n cols=3"));
  EXPECT_THAT(graph->nodes[0].inputs, IsEmpty());
  EXPECT_THAT(graph->nodes[2].inputs, ElementsAre(1));
  EXPECT_THAT(graph->nodes[3].inputs, IsEmpty());  // a's shape, not its data
  EXPECT_THAT(graph->nodes[4].inputs, ElementsAre(0, 3));
  EXPECT_THAT(graph->nodes[5].inputs, ElementsAre(2));
}

TEST(ImportOnnxTest, ParametersAreFloatInitialisers) {
  const absl::StatusOr<Graph> graph = ImportModel(
      ModelFromText("float[n,6] x, float16[6,4] w, int8[6,4] wq, float[4] wb, float[4] wunused",
                    "h = Cast <to = 1> (w) a = Gemm (x, h, wb) b = Add (wb, a) c = Add (b, b) y = Mul (c, k) "
                    "k = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> ()"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->parameters, 24 + 4 + 4);
  EXPECT_EQ(graph->parameter_bytes, 24 * 2 + 24 + 4 * 4 + 4 * 4);
  EXPECT_EQ(graph->nodes[0].parameters, 24 + 4);
  EXPECT_EQ(graph->nodes[1].parameters, 4);
  EXPECT_EQ(graph->nodes[2].parameters, 0);
  EXPECT_EQ(graph->nodes[3].parameters, 0);
}

TEST(ImportOnnxTest, EveryNodeOfTheFileIsCountedByType) {
  const absl::StatusOr<Graph> graph =
      ImportModel(ModelFromText("float[n,6] x", "z = Shape (x) t = my.Foo (x) y = Expand (t, z)"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->source_op_counts, ElementsAre(Pair("Expand", 1), Pair("Foo", 1), Pair("Shape", 1)));
}

TEST(ImportOnnxTest, InputDimsMayBeExpressions) {
  onnx::ModelProto model = ModelFromText("float[n,6] x", "y = Neg (x)");
  auto* shape = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->mutable_dim(0)->set_dim_param("64*batch");
  shape->mutable_dim(1)->set_dim_param("Min(512, sequence)");
  const absl::StatusOr<Graph> graph = ImportModel(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->symbols,
              ElementsAre(Field(&Graph::Symbol::name, "batch"), Field(&Graph::Symbol::name, "sequence")));
  EXPECT_THAT(NodeTexts(*graph), ElementsAre("vector fp32 neg rows=64*batch cols=min(512, sequence)"));
  EXPECT_EQ(CountsOf(*graph, {{"batch", 1}}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ImportOnnxTest, NamesThatAreNoSymbolsBecomeSome) {
  onnx::ModelProto model = ModelFromText("float[n,6] x", "y = Neg (x)");
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("batch size");
  const absl::StatusOr<Graph> graph = ImportModel(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAre("vector fp32 neg rows=batch_size cols=6"));
  EXPECT_THAT(graph->warnings, ElementsAre(HasSubstr("the symbol batch_size stands for it")));
}

// Foo's output is declared as [<dim>, 7] of fp16.
onnx::ModelProto ModelWithDeclaredShape(const std::string& dim) {
  onnx::ModelProto model = ModelFromText("float[n,6] x", "t = my.Foo (x) y = Neg (t)");
  onnx::ValueInfoProto& value = *model.mutable_graph()->add_value_info();
  value.set_name("t");
  auto* type = value.mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT16);
  if (dim.empty()) {
    type->mutable_shape()->add_dim();
  } else {
    type->mutable_shape()->add_dim()->set_dim_param(dim);
  }
  type->mutable_shape()->add_dim()->set_dim_value(7);
  return model;
}

TEST(ImportOnnxTest, DeclaredShapesFillInWhatInferenceCannotTell) {
  const absl::StatusOr<Graph> graph = ImportModel(ModelWithDeclaredShape("2*n"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph),
              ElementsAre("(traffic) vector fp16 foo rows=2*n cols=7", "vector fp16 neg rows=2*n cols=7"));
  EXPECT_THAT(graph->warnings, ElementsAre(HasSubstr("Foo (1 nodes")));
}

TEST(ImportOnnxTest, DeclaredDimsOfUnknownNameAreAssumed) {
  for (const char* dim : {"unk__7", "a b", ""}) {
    const absl::StatusOr<Graph> graph = ImportModel(ModelWithDeclaredShape(dim));
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(NodeTexts(*graph).back(), "vector fp16 neg rows=n cols=7");
    EXPECT_THAT(graph->warnings[0], HasSubstr("node \"t\" (Foo): dim 0 of tensor \"t\" is unknown; assumed to be n"));
  }
}

TEST(ImportOnnxTest, OwnInferenceWinsOverDeclaredShapes) {
  onnx::ModelProto model = ModelWithDeclaredShape("n");
  model.mutable_graph()->mutable_node(0)->set_op_type("Relu");
  model.mutable_graph()->mutable_node(0)->clear_domain();
  const absl::StatusOr<Graph> graph = ImportModel(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAre("vector fp32 relu rows=n cols=6", "vector fp32 neg rows=n cols=6"));
  EXPECT_THAT(graph->warnings, IsEmpty());
}

TEST(ImportOnnxTest, NamesOutsideAsciiAreMadePrintable) {
  onnx::ModelProto model = ModelFromText("float[n,6] x", "y = Neg (x)");
  model.mutable_graph()->mutable_node(0)->set_name(std::string("a\x01\xFF") + std::string(1000, 'b'));
  const absl::StatusOr<Graph> graph = ImportModel(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->nodes[0].kernel.name, StartsWith("a??bbb"));
  EXPECT_LT(graph->nodes[0].kernel.name.size(), 300U);
}

}  // namespace
}  // namespace gpueta
