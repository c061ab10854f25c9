// Bytes as a profile file. The fuzzer cannot guess a checksum, so the payload
// is also read as if its checksum were right.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/sha256.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"
#include "core/profile/profile.h"
#include "gpueta/v1/profile.pb.h"

namespace {

using namespace gpueta;

void Check(const Quantiles& us) {
  if (!(us.p50 <= us.p90 && us.p90 <= us.p99)) std::abort();
}

// What is accepted must survive being evaluated and written again.
void Use(LoadedProfile loaded) {
  const std::string written = SerializeProfile(loaded.profile);
  const auto again = ParseProfile(written);
  if (!again.ok() || SerializeProfile(again->profile) != written) std::abort();
  const auto compiled = std::make_shared<const CompiledProfile>(std::move(loaded));
  const Predictor predictor(compiled->loaded().profile.spec, compiled, nullptr);
  for (const Table& table : compiled->loaded().profile.tables) {
    Kernel kernel;
    kernel.dtype = table.key.dtype;
    switch (table.key.op) {
      case Op::kGemm: kernel.work = Gemm{.m = 100, .n = 200, .k = 300}; break;
      case Op::kConv2d:
        kernel.work =
            Conv2d{.in_channels = 8, .height = 9, .width = 9, .out_channels = 8, .kernel_h = 3, .kernel_w = 3};
        break;
      case Op::kAttention:
        kernel.work = Attention{.phase = table.key.phase,
                                .query_len = 1,
                                .kv_len = 77,
                                .heads = 8,
                                .kv_heads = 2,
                                .head_dim = 64,
                                .kv_dtype = table.key.kv_dtype};
        break;
      case Op::kMoe:
        kernel.work = Moe{.num_tokens = 9, .hidden_size = 64, .inter_size = 64, .top_k = 2, .num_experts = 8};
        break;
      case Op::kVector: kernel.work = Vector{.op = "add", .rows = 10, .cols = 10}; break;
      case Op::kCollective:
        kernel.work = Collective{.op = "all_reduce", .backend = table.key.backend, .bytes = 1024, .ranks = 4};
        break;
      case Op::kCustom: kernel.work = Custom{.op = "x", .flops = 10, .bytes = 10}; break;
    }
    const auto estimate = predictor.EstimateKernel(kernel, {.timing = table.key.timing});
    if (estimate.ok()) Check(estimate->latency_us);
  }
  for (const EndToEnd& line : compiled->loaded().profile.end_to_end) {
    Graph graph;
    for (const char* op : {"add", "clear_gradient"}) {
      if (!line.training && graph.nodes.size() == 1) break;
      graph.nodes.push_back(
          {.kernel = {.name = "", .dtype = line.dtype, .work = Vector{.op = op, .rows = 9, .cols = 9}, .launch = {}}});
    }
    graph.nodes.push_back(
        {.kernel = {.name = "", .dtype = line.dtype, .work = Gemm{.m = 1 << 12, .n = 200, .k = 300}, .launch = {}}});
    const auto estimate = predictor.EstimateGraph(graph, {}, {.estimator = "end-to-end"});
    if (estimate.ok()) Check(estimate->latency_us);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (auto loaded = ParseProfile(bytes); loaded.ok()) Use(*std::move(loaded));
  v1::ProfileFile file;
  if (!file.ParseFromArray(data, static_cast<int>(size))) file.set_payload(std::string(bytes));
  file.set_schema_version(kProfileSchemaVersion);
  const Sha256Digest digest = Sha256(file.payload());
  file.set_sha256(std::string(digest.begin(), digest.end()));
  if (auto loaded = ParseProfile(file.SerializeAsString()); loaded.ok()) Use(*std::move(loaded));
  return 0;
}
