#include "core/importers/traces/trace_importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <fstream>
#include <map>
#include <sstream>
#include <tuple>

#include "core/base/csv.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/importers/traces/kineto_reader.h"

namespace gpueta {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kFolder[] = "tests/data/traces/";

std::vector<std::string> Works(const Graph& graph) {
  std::vector<std::string> works;
  for (const GraphNode& node : graph.nodes) works.push_back(Describe(node.kernel));
  return works;
}

// Real traces of torch.profiler against its own counts.
TEST(TraceTruthTest, CallsAreThoseOfKeyAverages) {
  std::ifstream in("tests/data/traces_truth.csv");
  absl::StatusOr<CsvReader> csv = CsvReader::Open(in, "traces_truth.csv");
  ASSERT_TRUE(csv.ok());
  int traces = 0;
  while (csv->Next()) {
    std::map<std::string, std::string> truth;
    for (std::size_t i = 0; i < csv->columns().size(); ++i) truth[csv->columns()[i]] = csv->cells()[i];
    SCOPED_TRACE(truth["file"]);
    const std::string path = kFolder + truth["file"];
    EXPECT_TRUE(IsTraceFile(path));
    const absl::StatusOr<Trace> trace = ReadTraceFile(path);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->steps, std::stoi(truth["steps"]));
    EXPECT_THAT(trace->calls, SizeIs(std::stoul(truth["cpu_ops"])));
    const absl::StatusOr<Graph> graph = ImportTraceFile(path);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto calls_of = [&](const std::string& op) {
      const auto found = graph->source_op_counts.find(op);
      return found == graph->source_op_counts.end() ? 0 : found->second;
    };
    EXPECT_EQ(calls_of("aten::convolution"), std::stoi(truth["calls_convolution"]));
    EXPECT_EQ(calls_of("aten::addmm"), std::stoi(truth["calls_addmm"]));
    EXPECT_EQ(calls_of("aten::mm"), std::stoi(truth["calls_mm"]));
    EXPECT_EQ(calls_of("aten::bmm"), std::stoi(truth["calls_bmm"]));
    std::map<std::string, int> nodes;
    for (const GraphNode& node : graph->nodes) ++nodes[node.source_op];
    EXPECT_EQ(nodes["aten::convolution"], std::stoi(truth["calls_convolution"]));
    EXPECT_EQ(nodes["aten::addmm"] + nodes["aten::mm"] + nodes["aten::bmm"],
              std::stoi(truth["calls_addmm"]) + std::stoi(truth["calls_mm"]) + std::stoi(truth["calls_bmm"]));
    // Every convolution of the training step but the first has two gradients.
    const int backward = truth["file"].starts_with("mobilenet") ? 2 * 52 - 1 : 0;
    EXPECT_EQ(nodes["aten::convolution_backward"], backward);
    ++traces;
  }
  EXPECT_EQ(traces, 3);
}

TEST(TraceTruthTest, MacsAreThoseOfTheModel) {
  const absl::StatusOr<Graph> graph = ImportTraceFile(std::string(kFolder) + "resnet18_b1_64px_infer.pt.trace.json");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::StatusOr<GraphCounts> counts = CountsOf(*graph, {});
  ASSERT_TRUE(counts.ok());
  // ResNet-18 at 64 pixels: 148,045,824 multiply-adds of convolutions, 512,000 of the classifier; two steps.
  EXPECT_EQ(counts->macs, 2 * (148'045'824 + 512'000));
  EXPECT_EQ(counts->kernels.at("conv2d"), 40);
  EXPECT_EQ(counts->kernels.at("gemm"), 2);
}

// The same run as both profilers record it: see make_synthetic.py.
class SyntheticTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SyntheticTest, KernelsAreAttributedToOperators) {
  const std::string path = std::string(kFolder) + GetParam();
  EXPECT_TRUE(IsTraceFile(path));
  const absl::StatusOr<Graph> graph = ImportTraceFile(path);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<std::string> step = {"gemm bf16 linear m=64 n=4096 k=1024", "vector bf16 relu/1 rows=64 cols=4096",
                                         "gemm bf16 gemm m=64 n=16 k=4096",  // its split-K kernel belongs to it
                                         "custom fp32 triton_poi_fused_mine_0 bytes=12234000"};  // 6 us at 2039 GB/s
  std::vector<std::string> works = Works(*graph);
  ASSERT_THAT(works, SizeIs(10));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(std::vector<std::string>(works.begin() + 5 * i, works.begin() + 5 * i + 4),
                ::testing::ContainerEq(step));
    EXPECT_THAT(works[static_cast<std::size_t>(5 * i + 4)], HasSubstr("bytes=2048"));
  }
  EXPECT_THAT(graph->nodes[0].inputs, SizeIs(0));
  EXPECT_THAT(graph->nodes[9].inputs, ElementsAre(8));
  EXPECT_EQ(graph->nodes[3].source_op, "mine::fused");
  EXPECT_THAT(graph->warnings, Contains(HasSubstr("scaled by bandwidth from a100-sxm4-80gb")));
  EXPECT_THAT(graph->warnings, Contains(HasSubstr("was busy for")));
}

TEST_P(SyntheticTest, NodesHaveTheTimeOfWhatTheyLaunched) {
  const absl::StatusOr<TracedGraph> traced = ImportTracedFile(std::string(kFolder) + GetParam());
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_EQ(traced->device, "a100-sxm4-80gb");
  // The second product has its split-K kernel with it.
  EXPECT_THAT(traced->node_us, ElementsAre(50, 4, 23, 6, 2, 51, 4, 23, 6, 2));
  for (const GraphNode& node : traced->graph.nodes) EXPECT_EQ(node.stream, DeviceStream::kCompute);
}

TEST_P(SyntheticTest, MeasurementsAreMediansWithTheLaunch) {
  const absl::StatusOr<Trace> trace = ReadTraceFile(std::string(kFolder) + GetParam());
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(CardCalled(trace->device), "a100-sxm4-80gb");
  const auto rows = MeasurementsOfTrace(*trace, "a100-sxm4-80gb", "synthetic");
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_THAT(*rows, SizeIs(3));
  const Measurement& linear = rows->front();
  EXPECT_EQ(Describe(linear.kernel).substr(0, 35), "gemm bf16 linear m=64 n=4096 k=1024");
  EXPECT_EQ(linear.timing, Timing::kKernel);
  EXPECT_DOUBLE_EQ(linear.latency_us, 50.5);
  EXPECT_EQ(linear.kernels, 1);
  EXPECT_EQ(linear.kernel.launch.kernel, "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn");
  EXPECT_EQ(linear.kernel.launch.grid_x, 32);
  EXPECT_EQ(linear.kernel.launch.block_x, 256);
  const Measurement& split = rows->back();
  EXPECT_EQ(split.kernels, 2);
  EXPECT_EQ(split.kernel.launch.kernel, "");
  EXPECT_DOUBLE_EQ(split.latency_us, 23);
}

INSTANTIATE_TEST_SUITE_P(Profilers, SyntheticTest,
                         ::testing::Values("synthetic_cuda.pt.trace.json", "synthetic_nsight.sqlite"),
                         [](const auto& param) { return std::string(param.index == 0 ? "Kineto" : "Nsight"); });

// Kernels of two streams: (name, stream, start, duration).
Trace OfStreams(const std::vector<std::tuple<const char*, int, double, double>>& kernels) {
  std::string text = R"({"traceEvents": [)";
  for (const auto& [name, stream, start, duration] : kernels) {
    text += fmt::format(
        R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": {}, "ts": {}, "dur": {}, "args": {{"device": 0,)"
        R"( "stream": {}, "grid": [1, 1, 1], "block": [64, 1, 1]}}}},)",
        name, stream, start, duration, stream);
  }
  text.back() = ']';
  std::istringstream in(text + "}");
  return ReadKinetoTrace(in).value();
}

TEST(TraceStreamsTest, WhatRanBesideTheBusiestStreamStaysBesideIt) {
  const TracedGraph traced =
      *GraphOfTrace(OfStreams({{"a", 7, 0, 10}, {"side", 20, 5, 10}, {"b", 7, 10, 20}, {"c", 7, 30, 10}}), "t");
  const std::vector<GraphNode>& nodes = traced.graph.nodes;
  ASSERT_THAT(nodes, SizeIs(4));
  EXPECT_THAT(traced.node_us, ElementsAre(10, 10, 20, 10));
  EXPECT_EQ(nodes[1].stream, DeviceStream::kCommunication);
  for (const std::size_t i : {0, 2, 3}) EXPECT_EQ(nodes[i].stream, DeviceStream::kCompute);
  // "side" began while "a" ran and "b" while "side" did; "c" when both had ended.
  EXPECT_THAT(nodes[1].inputs, SizeIs(0));
  EXPECT_THAT(nodes[2].inputs, ElementsAre(0));
  EXPECT_THAT(nodes[3].inputs, ElementsAre(1, 2));
}

TEST(TraceStreamsTest, WhatBeganWhenAnotherStreamHadEndedNeedsIt) {
  const TracedGraph traced =
      *GraphOfTrace(OfStreams({{"a", 7, 0, 10}, {"b", 7, 10, 30}, {"send", 20, 12, 5}, {"sent", 20, 17, 5}}), "t");
  const std::vector<GraphNode>& nodes = traced.graph.nodes;
  EXPECT_THAT(nodes[2].inputs, ElementsAre(0));
  EXPECT_THAT(nodes[3].inputs, ElementsAre(2));  // "a" by the one before
  EXPECT_EQ(nodes[3].stream, DeviceStream::kCommunication);
}

// Streams beside the busiest one end in any order.
TEST(TraceStreamsTest, WhatStillRunsElsewhereHidesNothingThatHasEnded) {
  const TracedGraph traced = *GraphOfTrace(
      OfStreams({{"a", 7, 0, 40}, {"long", 20, 1, 55}, {"short", 21, 2, 3}, {"b", 7, 41, 10}, {"c", 7, 60, 30}}), "t");
  const std::vector<GraphNode>& nodes = traced.graph.nodes;
  EXPECT_THAT(nodes[3].inputs, ElementsAre(0, 2));
  EXPECT_THAT(nodes[4].inputs, ElementsAre(1, 3));
}

TEST(TraceTest, HostCallsAreEagerMeasurements) {
  const absl::StatusOr<Trace> trace = ReadTraceFile(std::string(kFolder) + "resnet18_b1_64px_infer.pt.trace.json");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(CardCalled(trace->device), "");
  const auto rows = MeasurementsOfTrace(*trace, "cpu", "resnet18");
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::map<Op, int> ops;
  for (const Measurement& row : *rows) {
    ++ops[row.kernel.op()];
    EXPECT_EQ(row.timing, Timing::kEager);
    EXPECT_GT(row.latency_us, 0);
  }
  EXPECT_EQ(ops[Op::kConv2d], 11);  // distinct shapes among 20 convolutions
  EXPECT_EQ(ops[Op::kGemm], 1);
}

struct BadTrace {
  const char* text;
  const char* problem;
};

class BadTraceTest : public ::testing::TestWithParam<BadTrace> {};

TEST_P(BadTraceTest, SaysWhatIsWrong) {
  std::istringstream in(GetParam().text);
  const absl::StatusOr<Trace> trace = ReadKinetoTrace(in);
  EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(trace.status()), HasSubstr(GetParam().problem));
}

INSTANTIATE_TEST_SUITE_P(
    Errors, BadTraceTest,
    ::testing::Values(BadTrace{"", "is no JSON at byte"}, BadTrace{"{\"traceEvents\": [", "is no JSON at byte"},
                      BadTrace{"{}", "has no traceEvents"}, BadTrace{"[1, 2]", "has no traceEvents"},
                      BadTrace{"{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"a\", \"ts\": 1, \"dur\": -1}]}",
                               "event \"a\": ts 1 and dur -1 are no times"},
                      BadTrace{"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "nested deeper than any trace"}));

// A trace of one call after another, made as it is read.
class EndlessCalls : public std::streambuf {
 public:
  explicit EndlessCalls(int calls) : calls_(calls) { Show("{\"traceEvents\": ["); }

 protected:
  int_type underflow() override {
    if (calls_ < 0) return traits_type::eof();
    if (calls_-- == 0) {
      Show("{}]}");
    } else {
      Show(
          fmt::format("{{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::relu\", \"pid\": 1, \"tid\": 1, "
                      "\"ts\": {}, \"dur\": 1, \"args\": {{\"stack\": \"{:400}\", \"Input Dims\": [[4, 8]], "
                      "\"Input type\": [\"float\"], \"Concrete Inputs\": [\"\"]}}}},",
                      2 * calls_, ""));
    }
    return traits_type::to_int_type(*gptr());
  }

 private:
  void Show(std::string text) {
    text_ = std::move(text);
    setg(text_.data(), text_.data(), text_.data() + text_.size());
  }

  int calls_;
  std::string text_;
};

TEST(TraceTest, MemoryGoesWithEventsNotWithText) {
  constexpr int kCalls = 100'000;  // 60 MB of text
  EndlessCalls buffer(kCalls);
  std::istream in(&buffer);
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  const absl::StatusOr<Trace> trace = ReadKinetoTrace(in);
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->calls, SizeIs(kCalls));
  EXPECT_THAT(trace->signatures, SizeIs(1));
#if !defined(__SANITIZE_ADDRESS__) && !defined(GPUETA_TSAN)  // which keep freed memory
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 20 << 10);   // KiB
#endif
}

class GzipTest : public ::testing::Test {
 protected:
  // A file of `members` pieces, each compressed by itself.
  std::string Write(const std::string& text, std::size_t members = 1) {
    const std::string path = ::testing::TempDir() + "/gzip_test.pt.trace.json.gz";
    for (std::size_t i = 0; i < members; ++i) {
      const std::size_t from = text.size() * i / members, to = text.size() * (i + 1) / members;
      gzFile file = gzopen(path.c_str(), i == 0 ? "wb" : "ab");
      EXPECT_EQ(gzwrite(file, text.data() + from, static_cast<unsigned>(to - from)), static_cast<int>(to - from));
      gzclose(file);
    }
    return path;
  }
  std::string WriteRaw(const std::string& bytes) {
    const std::string path = ::testing::TempDir() + "/gzip_test_raw.json.gz";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  const std::string plain_path_ = std::string(kFolder) + "synthetic_cuda.pt.trace.json";
  const std::string plain_ = ReadWholeFile(plain_path_).value();
};

TEST_F(GzipTest, CompressedTracesAreThoseThatWereCompressed) {
  const auto rows_of = [](const std::string& path) {
    std::vector<std::string> rows;
    const auto read = MeasurementsOfTrace(ReadTraceFile(path).value(), "a100-sxm4-80gb", "synthetic");
    for (const Measurement& row : *read) rows.push_back(fmt::format("{} {}", Describe(row.kernel), row.latency_us));
    return rows;
  };
  for (const std::size_t members : {1, 3}) {
    const std::string path = Write(plain_, members);
    EXPECT_TRUE(IsTraceFile(path));
    EXPECT_EQ(rows_of(path), rows_of(plain_path_)) << members;
    EXPECT_EQ(ImportTraceFile(path)->nodes.size(), ImportTraceFile(plain_path_)->nodes.size());
  }
}

TEST_F(GzipTest, WhatIsNoGzipIsSaid) {
  std::string bytes = ReadWholeFile(Write(plain_)).value();
  EXPECT_THAT(MessageOf(ReadTraceFile(WriteRaw(bytes.substr(0, bytes.size() / 2))).status()),
              HasSubstr("the gzip file is cut short"));
  for (std::size_t i = 20; i < 60; ++i) bytes[i] = '\xff';
  EXPECT_THAT(MessageOf(ReadTraceFile(WriteRaw(bytes)).status()), HasSubstr("the gzip file is corrupt: "));
  EXPECT_THAT(MessageOf(ReadTraceFile("none.json.gz").status()), HasSubstr("none.json.gz: cannot be opened"));
}

TEST(TraceTest, EmptyTracesHaveNoGraph) {
  std::istringstream in("{\"traceEvents\": [{\"ph\": \"M\", \"name\": \"process_name\"}]}");
  const absl::StatusOr<Trace> trace = ReadKinetoTrace(in);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(MessageOf(GraphOfTrace(*trace, "t").status()), HasSubstr("record with record_shapes=True"));
  EXPECT_THAT(MessageOf(MeasurementsOfTrace(*trace, "cpu", "t").status()), HasSubstr("record_shapes=True"));
}

TEST(TraceTest, FilesThatAreNoReportsAreRefused) {
  EXPECT_THAT(MessageOf(ReadTraceFile("tests/data/none.sqlite").status()), HasSubstr("cannot be opened"));
  EXPECT_THAT(MessageOf(ReadTraceFile("tests/data/traces_truth.csv").status()), HasSubstr("is no JSON"));
  EXPECT_FALSE(IsTraceFile("tests/data/traces_truth.csv"));
}

}  // namespace
}  // namespace gpueta
