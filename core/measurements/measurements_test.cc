#include "core/measurements/measurements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "core/base/csv.h"
#include "core/base/errors.h"
#include "core/measurements/columns.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<std::vector<Measurement>> Read(const std::string& text, const ReadOptions& options = {}) {
  std::istringstream in(text);
  std::vector<Measurement> rows;
  const absl::Status status = ReadMeasurements(in, "f.csv", options, [&](Measurement&& row) {
    rows.push_back(std::move(row));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return rows;
}

Measurement ReadOne(const std::string& text, const ReadOptions& options = {}) {
  const auto rows = Read(text, options);
  EXPECT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows.ok() ? rows->size() : 0, 1);
  return rows.ok() && rows->size() == 1 ? rows->front() : Measurement{};
}

std::string ErrorOf(const std::string& text, const ReadOptions& options = {}) {
  const auto rows = Read(text, options);
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(rows.status().message());
}

std::string Written(const std::vector<Measurement>& rows) {
  std::ostringstream out;
  const absl::Status status = WriteMeasurements(out, rows);
  EXPECT_TRUE(status.ok()) << status;
  return out.str();
}

std::string FileText(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.is_open()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ReadMeasurements, ReadsEveryOp) {
  const Measurement gemm = ReadOne(
      "device,source,timing,dtype,layer,batch,m,n,k,kernel,grid_x,grid_y,grid_z,block_x,kernels,latency_us\n"
      "t4,lab,eager,fp16,bmm,2,3,4,5,sgemm_128x64,7,8,9,256,2,10.5\n");
  EXPECT_EQ(gemm.device, "t4");
  EXPECT_EQ(gemm.source, "lab");
  EXPECT_EQ(gemm.timing, Timing::kEager);
  EXPECT_EQ(gemm.kernel.dtype, DType::kFp16);
  EXPECT_EQ(std::get<Gemm>(gemm.kernel.work), (Gemm{.layer = Gemm::Layer::kBmm, .batch = 2, .m = 3, .n = 4, .k = 5}));
  EXPECT_EQ(gemm.kernel.launch,
            (Launch{.kernel = "sgemm_128x64", .grid_x = 7, .grid_y = 8, .grid_z = 9, .block_x = 256}));
  EXPECT_EQ(gemm.kernels, 2);
  EXPECT_EQ(gemm.latency_us, 10.5);
  EXPECT_EQ(gemm.line, 2);

  const Measurement conv = ReadOne(
      "device,dtype,batch,in_channels,height,width,out_channels,kernel_h,kernel_w,stride_h,stride_w,pad_h,pad_w,groups,"
      "dilation_h,dilation_w,extra_pad_h,extra_pad_w,latency_us\n"
      "t4,fp32,1,4,30,31,6,3,2,2,1,1,0,2,3,2,-1,1,5\n");
  EXPECT_EQ(std::get<Conv2d>(conv.kernel.work), (Conv2d{.batch = 1,
                                                        .in_channels = 4,
                                                        .height = 30,
                                                        .width = 31,
                                                        .out_channels = 6,
                                                        .kernel_h = 3,
                                                        .kernel_w = 2,
                                                        .stride_h = 2,
                                                        .stride_w = 1,
                                                        .pad_h = 1,
                                                        .pad_w = 0,
                                                        .groups = 2,
                                                        .dilation_h = 3,
                                                        .dilation_w = 2,
                                                        .extra_pad_h = -1,
                                                        .extra_pad_w = 1}));

  const Measurement attention = ReadOne(
      "device,source,timing,dtype,kv_dtype,phase,batch,query_len,kv_len,heads,kv_heads,head_dim,causal,kernel,latency_"
      "us\n"
      "l40s,lab,graph,bf16,fp8,prefill,2,64,128,8,2,96,1,flash,5\n");
  EXPECT_EQ(std::get<Attention>(attention.kernel.work), (Attention{.phase = Attention::Phase::kPrefill,
                                                                   .batch = 2,
                                                                   .query_len = 64,
                                                                   .kv_len = 128,
                                                                   .heads = 8,
                                                                   .kv_heads = 2,
                                                                   .head_dim = 96,
                                                                   .causal = 1,
                                                                   .kv_dtype = DType::kFp8}));
  EXPECT_EQ(attention.timing, Timing::kGraph);
  EXPECT_EQ(attention.kernel.launch.kernel, "flash");

  const Measurement moe = ReadOne(
      "device,source,timing,dtype,num_tokens,hidden_size,inter_size,top_k,num_experts,tp,ep,distribution,latency_us\n"
      "l40s,lab,graph,bf16,7,2048,768,8,128,2,4,balanced,5\n");
  EXPECT_EQ(std::get<Moe>(moe.kernel.work), (Moe{.num_tokens = 7,
                                                 .hidden_size = 2048,
                                                 .inter_size = 768,
                                                 .top_k = 8,
                                                 .num_experts = 128,
                                                 .tp = 2,
                                                 .ep = 4,
                                                 .distribution = "balanced"}));

  const Measurement vector = ReadOne("device,dtype,name,rows,cols,operands,latency_us\nt4,fp32,add,3,4,2,5\n");
  EXPECT_EQ(std::get<Vector>(vector.kernel.work), (Vector{.op = "add", .rows = 3, .cols = 4, .operands = 2}));

  const Measurement collective = ReadOne(
      "device,source,timing,backend,collective,dtype,bytes,ranks,latency_us\nt4,lab,kernel,nccl,all_reduce,fp16,64,4,"
      "5\n");
  EXPECT_EQ(std::get<Collective>(collective.kernel.work),
            (Collective{.op = "all_reduce", .backend = "nccl", .bytes = 64, .ranks = 4}));

  const Measurement custom = ReadOne(
      "device,source,timing,dtype,name,flops,bytes,kernel,grid_x,grid_y,grid_z,block_x,kernels,latency_us\n"
      "t4,lab,kernel,bf16,swiglu,100,200,triton_swiglu,1,2,3,128,1,5\n");
  EXPECT_EQ(std::get<Custom>(custom.kernel.work), (Custom{.op = "swiglu", .flops = 100, .bytes = 200}));
}

TEST(ReadMeasurements, FillsInWhatMayBeAbsent) {
  const Measurement gemm = ReadOne("latency_us,k,n,m,dtype,device\n9,3,2,1,bf16,t4\n");
  EXPECT_EQ(std::get<Gemm>(gemm.kernel.work), (Gemm{.m = 1, .n = 2, .k = 3}));
  EXPECT_EQ(gemm.timing, Timing::kKernel);
  EXPECT_EQ(gemm.source, "");
  EXPECT_EQ(gemm.kernel.launch, Launch{});

  const Measurement empty_cells = ReadOne(
      "device,source,timing,dtype,layer,batch,m,n,k,kernel,grid_x,grid_y,grid_z,block_x,kernels,latency_us\n"
      "t4,,,bf16,,,1,2,3,,,,,,,9\n");
  EXPECT_EQ(std::get<Gemm>(empty_cells.kernel.work), std::get<Gemm>(gemm.kernel.work));

  const Measurement attention = ReadOne(
      "device,dtype,phase,batch,query_len,kv_len,heads,kv_heads,head_dim,latency_us\nt4,fp16,decode,1,1,9,2,1,64,9\n");
  EXPECT_EQ(std::get<Attention>(attention.kernel.work).kv_dtype, DType::kFp16);
  EXPECT_EQ(std::get<Attention>(attention.kernel.work).causal, 0);
}

TEST(ReadMeasurements, TakesCpusAsTimedEagerly) {
  EXPECT_EQ(ReadOne("device,dtype,m,n,k,latency_us\ncpu-xeon-4t,fp32,1,2,3,9\n").timing, Timing::kEager);
  EXPECT_EQ(ReadOne("device,timing,dtype,m,n,k,latency_us\ncpu,,fp32,1,2,3,9\n").timing, Timing::kEager);
  EXPECT_EQ(ReadOne("device,timing,dtype,m,n,k,latency_us\ncpu,kernel,fp32,1,2,3,9\n").timing, Timing::kKernel);
}

TEST(ReadMeasurements, DoesNotLookAtLatenciesWhenTold) {
  const ReadOptions ignore{.ignore_latency = true};
  EXPECT_EQ(ReadOne("device,dtype,m,n,k,kernels,latency_us\nt4,fp32,1,2,3,x,nan\n", ignore).latency_us, 0);
  EXPECT_EQ(ReadOne("dtype,m,n,k\nfp32,1,2,3\n", ignore).device, "");
  EXPECT_EQ(ReadOne("device,dtype,m,n,k\n,fp32,1,2,3\n", ignore).device, "");
  EXPECT_THAT(ErrorOf("dtype,m,n,k,latency_us\nfp32,1,2,3,4\n"), HasSubstr("f.csv:1:device: the column is missing"));
  EXPECT_THAT(ErrorOf("device,dtype,m,n,k\nt4,fp32,1,2,3\n"), HasSubstr("f.csv:1:latency_us: the column is missing"));
}

TEST(ReadMeasurements, AcceptsAHeaderWithoutRows) {
  const auto rows = Read("device,dtype,m,n,k,latency_us\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_TRUE(rows->empty());
}

TEST(ReadMeasurements, CountsLinesFromTheHeader) {
  const auto rows = Read("device,dtype,m,n,k,latency_us\nt4,fp32,1,2,3,4\nt4,fp32,1,2,3,5\n");
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->at(0).line, 2);
  EXPECT_EQ(rows->at(1).line, 3);
}

TEST(ReadMeasurements, StopsAtTheCallersError) {
  std::istringstream in("device,dtype,m,n,k,latency_us\nt4,fp32,1,2,3,4\nt4,fp32,1,2,3,5\n");
  int calls = 0;
  const absl::Status status = ReadMeasurements(in, "f.csv", {}, [&](Measurement&&) {
    ++calls;
    return absl::CancelledError("enough");
  });
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_EQ(calls, 1);
}

TEST(ReadMeasurements, NamesLineAndColumnOfErrors) {
  const std::string header = "device,timing,dtype,m,n,k,latency_us\n";
  const std::string conv =
      "device,dtype,batch,in_channels,height,width,out_channels,kernel_h,kernel_w,groups,latency_us\n";
  struct Case {
    std::string text;
    std::string error;
  };
  const Case cases[] = {
      {"", "f.csv: is empty"},
      {"device,dtype,batch,m,n,latency_us\n", "f.csv:1:k: the column is missing"},
      {"device,dtype,m,n,k,latency_us,shape\n", "f.csv:1: unknown column \"shape\"; known columns are device, source"},
      {"device,dtype,m,n,k,k,latency_us\n", "f.csv:1:k: the column is given twice"},
      {"a,b\n", "f.csv:1: the header is of no kind of measurement; the known headers are gemm: device,source"},
      {header + "t4,,fp32,1,2,3,nan\n", "f.csv:2:latency_us: \"nan\" is not finite"},
      {header + "t4,,fp32,1,2,3,inf\n", "f.csv:2:latency_us: \"inf\" is not finite"},
      {header + "t4,,fp32,1,2,3,0\n", "f.csv:2:latency_us: must be above 0"},
      {header + "t4,,fp32,1,2,3,-1\n", "f.csv:2:latency_us: must be above 0"},
      {header + "t4,,fp32,1,2,3,1e13\n", "f.csv:2:latency_us: 10000000000000 µs is more than"},
      {header + "t4,,fp32,1,2,3,\n", "f.csv:2:latency_us: is empty"},
      {header + "t4,,fp32,1,2,3,4us\n", "f.csv:2:latency_us: \"4us\" is not a number"},
      {header + "t4,,fp32,1,2,3,1e999\n", "f.csv:2:latency_us: \"1e999\" is out of range"},
      {header + "t4,,fp32,1,2,3,4\nt4,,fp32,-1,2,3,4\n", "f.csv:3: gemm.m: is -1, must be at least 1"},
      {header + "t4,,fp32,0,2,3,4\n", "f.csv:2: gemm.m: is 0, must be at least 1"},
      {header + "t4,,fp32,,2,3,4\n", "f.csv:2:m: is empty"},
      {header + "t4,,fp32,1.5,2,3,4\n", "f.csv:2:m: \"1.5\" is not a whole number"},
      {header + "t4,,fp32,9223372036854775808,2,3,4\n", "f.csv:2:m: \"9223372036854775808\" is out of range"},
      {header + "t4,,fp32,4611686018427387904,2,3,4\n", "f.csv:2: gemm.dims: more than 2^62"},
      {header + "t4,,fp33,1,2,3,4\n", "f.csv:2:dtype: \"fp33\" is unknown; use one of fp64, fp32"},
      {header + "t4,,,1,2,3,4\n", "f.csv:2:dtype: is empty"},
      {header + "t4,wall,fp32,1,2,3,4\n", "f.csv:2:timing: \"wall\" is unknown; use one of eager, graph, kernel"},
      {header + ",,fp32,1,2,3,4\n", "f.csv:2:device: is empty"},
      {header + "t4,,fp32,1,2,3\n", "f.csv:2: has 6 cells, the header has 7"},
      {header + "t4,,fp32,1,2,3,4,5\n", "f.csv:2: has 8 cells, the header has 7"},
      {header + "\"t4,,fp32,1,2,3,4\n", "f.csv:2:device: the quote is not closed"},
      {header + "t4,,fp32,1,2,3,4" + std::string(1, '\0') + "\n", "f.csv:2: control character 0x00"},
      {header + std::string(kMaxLineBytes, 't') + ",,fp32,1,2,3,4\n", "f.csv: line 2 is longer than 65536 bytes"},
      {"device,dtype,layer,m,n,k,latency_us\nt4,fp32,lin,1,2,3,4\n", "f.csv:2:layer: \"lin\" is unknown"},
      {"device,dtype,m,n,k,grid_x,latency_us\nt4,fp32,1,2,3,-4,4\n", "f.csv:2:grid_x: must not be negative"},
      {"device,dtype,m,n,k,kernels,latency_us\nt4,fp32,1,2,3,-4,4\n", "f.csv:2:kernels: must not be negative"},
      {"device,dtype,name,rows,cols,latency_us\nt4,fp32,,2,3,4\n", "f.csv:2:name: is empty"},
      {"device,dtype,name,flops,bytes,latency_us\nt4,fp32,x,0,0,4\n",
       "f.csv:2: custom.bytes: flops and bytes are both 0"},
      {conv + "t4,fp32,1,4,8,8,4,3,3,3,4\n", "f.csv:2: conv2d.groups: 3 does not divide in_channels 4"},
      {conv + "t4,fp32,1,4,2,8,4,3,3,1,4\n", "f.csv:2: conv2d.kernel_h: the kernel is larger"},
      {conv + "t4,fp32,1,4,9223372036854775807,9223372036854775807,4,1,1,1,4\n",
       "f.csv:2: conv2d.dims: more than 2^62"},
      {"device,backend,collective,dtype,bytes,ranks,latency_us\nt4,n,all_reduce,fp16,9223372036854775807,2,1\n",
       "f.csv:2: collective.dims: more than 2^62"},
      {"device,dtype,num_tokens,hidden_size,inter_size,top_k,num_experts,distribution,latency_us\n"
       "t4,bf16,1,1,9223372036854775807,1,1,,1\n",
       "f.csv:2: moe.dims: more than 2^62"},
      {"device,dtype,phase,batch,query_len,kv_len,heads,kv_heads,head_dim,latency_us\nt4,fp16,train,1,1,9,2,1,64,9\n",
       "f.csv:2:phase: \"train\" is unknown; use one of prefill, decode"},
  };
  for (const Case& c : cases) EXPECT_THAT(ErrorOf(c.text), HasSubstr(c.error)) << c.text.substr(0, 200);
}

TEST(ReadMeasurementFile, SaysWhichFileIsMissing) {
  const auto rows = ReadMeasurementFile("no/such.csv");
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(rows.status().message()), HasSubstr("no/such.csv: cannot be opened: No such file"));
}

TEST(ReadMeasurementFile, RefusesADirectory) { EXPECT_FALSE(ReadMeasurementFile("core").ok()); }

TEST(OpOfHeader, KnowsEveryOpByItsHeader) {
  for (const Op op : kAllOps) {
    std::string all;
    std::string required;
    for (const MeasurementColumn& column : ColumnsOf(op)) {
      all += (all.empty() ? "" : ",") + std::string(column.name);
      if (column.required) required += (required.empty() ? "" : ",") + std::string(column.name);
    }
    EXPECT_EQ(OpOfHeader(all).value(), op) << all;
    if (op != Op::kCustom) {
      EXPECT_EQ(OpOfHeader(required).value(), op) << required;
    }
  }
  EXPECT_EQ(OpOfHeader("name,flops,dtype").value(), Op::kCustom);
}

TEST(OpOfHeader, RefusesOtherFiles) {
  for (const char* header :
       {"device", "m,n", "device,source,model,mode,options,dtype,batch,seq_len,image_size,latency_ms",
        "device,source,model,tp,num_tokens,op,latency_us", "name,rows,cols,flops,bytes"}) {
    EXPECT_THAT(std::string(OpOfHeader(header).status().message()), HasSubstr("the known headers are gemm")) << header;
  }
}

TEST(TextOf, SaysWhatTheRowHasUnquotedAndNothingWhereItHasNothing) {
  const Measurement row{.device = "a,b",
                        .timing = Timing::kGraph,
                        .kernel = {.dtype = DType::kBf16, .work = Gemm{.m = 8, .n = 16, .k = 32}},
                        .latency_us = 0};
  std::map<std::string_view, std::string> texts;
  for (const MeasurementColumn& column : ColumnsOf(Op::kGemm)) texts[column.name] = TextOf(column, row);
  EXPECT_EQ(texts["device"], "a,b");
  EXPECT_EQ(texts["timing"], "graph");
  EXPECT_EQ(texts["layer"], "gemm");
  EXPECT_EQ(texts["n"], "16");
  for (const char* column : {"source", "kernel", "grid_x", "kernels", "latency_us"}) EXPECT_EQ(texts[column], "");
}

TEST(WriteMeasurements, ReproducesPublicRows) {
  for (const char* name : {"gemm", "gemm_fp8", "conv2d", "vector", "attention", "moe", "collective"}) {
    const std::string path = std::string("core/measurements/testdata/") + name + ".csv";
    const auto rows = ReadMeasurementFile(path);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(Written(*rows), FileText(path)) << name;
  }
}

TEST(WriteMeasurements, AddsColumnsOnlyWhereARowNeedsThem) {
  Measurement conv = ReadOne(
      "device,dtype,batch,in_channels,height,width,out_channels,kernel_h,kernel_w,latency_us\nt4,fp32,1,4,30,30,6,3,3,"
      "5\n");
  EXPECT_THAT(Written({conv}), Not(HasSubstr("dilation")));
  Measurement dilated = conv;
  std::get<Conv2d>(dilated.kernel.work).dilation_w = 2;
  const std::string text = Written({conv, dilated});
  EXPECT_THAT(text, HasSubstr("groups,dilation_w,kernel"));
  EXPECT_EQ(Written(Read(text).value()), text);

  Measurement moe = ReadOne(
      "device,dtype,num_tokens,hidden_size,inter_size,top_k,num_experts,distribution,latency_us\nt4,bf16,1,8,8,1,1,,"
      "1\n");
  moe.kernel.launch.grid_x = 5;
  EXPECT_THAT(Written({moe}), HasSubstr("distribution,grid_x,latency_us"));
}

TEST(WriteMeasurements, WritesAnyTextThatCanBeRead) {
  Measurement row = ReadOne("device,dtype,name,flops,bytes,latency_us\nt4,fp32,x,1,2,1234567.8\n");
  row.source = "a, \"b\"";
  row.kernel.launch.kernel = "kernel<float, 2>";
  std::get<Custom>(row.kernel.work).op = "µ-kernel";
  const Measurement again = ReadOne(Written({row}));
  EXPECT_EQ(again.source, row.source);
  EXPECT_EQ(again.kernel.launch, row.kernel.launch);
  EXPECT_EQ(std::get<Custom>(again.kernel.work), std::get<Custom>(row.kernel.work));
  EXPECT_EQ(again.latency_us, 1234570);
}

TEST(WriteMeasurements, LeavesLatenciesThatWereNotReadEmpty) {
  const ReadOptions ignore{.ignore_latency = true};
  const Measurement row = ReadOne("device,dtype,m,n,k\nt4,fp32,1,2,3\n", ignore);
  const std::string text = Written({row});
  EXPECT_THAT(text, HasSubstr("t4,,kernel,fp32,gemm,1,1,2,3,,,,,,,\n"));
  EXPECT_EQ(ReadOne(text, ignore).latency_us, 0);
}

TEST(WriteMeasurements, RefusesWhatItCouldNotReadBack) {
  std::ostringstream out;
  const Measurement gemm = ReadOne("device,dtype,m,n,k,latency_us\nt4,fp32,1,2,3,4\n");
  const Measurement vector = ReadOne("device,dtype,name,rows,cols,latency_us\nt4,fp32,add,2,3,4\n");
  EXPECT_EQ(WriteMeasurements(out, {}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteMeasurements(out, {gemm, vector}).code(), absl::StatusCode::kInvalidArgument);
  Measurement bad = gemm;
  bad.source = "two\nlines";
  EXPECT_EQ(WriteMeasurements(out, {bad}).code(), absl::StatusCode::kInvalidArgument);
  for (const double latency_us :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    bad = gemm;
    bad.latency_us = latency_us;
    EXPECT_EQ(WriteMeasurements(out, {bad}).code(), absl::StatusCode::kInvalidArgument);
  }
  std::ostream broken(nullptr);
  EXPECT_EQ(WriteMeasurements(broken, {gemm}).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace gpueta
