#include "core/importers/traces/trace_importer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/importers/traces/aten_ops.h"
#include "core/importers/traces/aten_table.h"
#include "core/importers/traces/attribution.h"
#include "core/importers/traces/gzip_stream.h"
#include "core/importers/traces/kernel_name.h"
#include "core/importers/traces/kineto_reader.h"
#include "core/importers/traces/nsight_reader.h"

namespace gpueta {
namespace {

// A step has some thousand kernels; more than some dozen steps say nothing new.
constexpr std::size_t kMaxKernels = std::size_t{1} << 18;

// Of a device that is not in the catalogue: between cards of desktops and of
// data centres.
constexpr double kTypicalBandwidthGbS = 1000;

// Warnings name at most so many operators.
constexpr std::size_t kMaxNamed = 8;

std::string Listed(const std::set<std::string>& names) {
  std::string text;
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (++count > kMaxNamed) return text + fmt::format(" and {} more", names.size() - kMaxNamed);
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

// When a node ran.
struct Span {
  double start_us = 0;
  double end_us = 0;
};

// Appends nodes, each after the one before it on its stream.
class GraphWriter {
 public:
  explicit GraphWriter(Graph& graph) : graph_(graph) {}

  absl::Status Add(Kernel kernel, const std::string& name, const std::string& source_op, Costing costing,
                   std::int64_t stream) {
    if (graph_.nodes.size() == kMaxKernels) {
      return ResourceExhausted("the trace has more than {} kernels; record fewer steps", kMaxKernels);
    }
    const auto index = static_cast<int>(graph_.nodes.size());
    GraphNode& node = graph_.nodes.emplace_back();
    node.kernel = std::move(kernel);
    node.kernel.name = name;
    node.source_op = source_op;
    node.costing = costing;
    const auto [last, first] = last_.try_emplace(stream, index);
    if (!first) node.inputs.push_back(std::exchange(last->second, index));
    return absl::OkStatus();
  }

  // The last node ran then, on the busiest stream or beside it; nodes come in
  // the order of their starts. It needs the last of the other streams' nodes that had ended.
  void Place(const Span& span, bool beside) {
    const auto index = static_cast<int>(graph_.nodes.size()) - 1;
    GraphNode& node = graph_.nodes.back();
    if (beside) node.stream = DeviceStream::kCommunication;
    Side& other = sides_[beside ? 0 : 1];
    std::optional<int> last;
    for (; !other.running.empty() && other.running.top().first <= span.start_us; other.running.pop())
      last = other.running.top().second;
    if (last.has_value()) {
      node.inputs.push_back(*last);
      std::ranges::sort(node.inputs);
    }
    sides_[beside ? 1 : 0].running.emplace(span.end_us, index);
  }

 private:
  // Of the busiest stream, and of those beside it.
  struct Side {
    // When a node ends, and which, those that end first on top: of several streams, in any order.
    // Without those that had ended when the last node of the other side began.
    using Ends = std::pair<double, int>;
    std::priority_queue<Ends, std::vector<Ends>, std::greater<>> running;
  };
  Graph& graph_;
  std::map<std::int64_t, int> last_;  // node of each stream
  Side sides_[2];
};

Kernel CustomKernel(const std::string& name, std::int64_t bytes) {
  Kernel kernel;
  kernel.work = Custom{.op = name, .flops = 0, .bytes = std::max<std::int64_t>(bytes, 1)};
  return kernel;
}

// Letters, digits and a few signs; long names are cut.
std::string PrintableOp(const std::string& name) {
  std::string printable = name.substr(0, 128);
  for (char& c : printable) {
    if (c < ' ' || c > '~') c = '?';
  }
  return printable;
}

absl::Status AddCalls(const Trace& trace, const Attribution& attribution, GraphWriter& writer, Graph& graph) {
  std::vector<std::uint32_t> by_time = attribution.order();
  std::stable_sort(by_time.begin(), by_time.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return trace.calls[a].start_us < trace.calls[b].start_us; });
  std::set<std::string> unknown;
  for (std::uint32_t call : by_time) {
    const OpSignature& signature = trace.signatures[trace.calls[call].signature];
    const std::string name = PrintableOp(signature.name);
    const auto stream = static_cast<std::int64_t>(trace.calls[call].thread);
    if (attribution.OwnerOf(call) == call) {
      for (const Kernel& kernel : attribution.KernelsOfCall(call)) {
        GPUETA_RETURN_IF_ERROR(writer.Add(kernel, name, name, Costing::kKernel, stream));
      }
      continue;
    }
    const bool runs = attribution.OwnerOf(call) == kNoCall && attribution.IsLeaf(call) && signature.tensor_bytes > 0 &&
                      !aten::IsBookkeeping(signature.name);
    if (!runs) continue;
    unknown.insert(name);
    GPUETA_RETURN_IF_ERROR(
        writer.Add(CustomKernel(name, signature.tensor_bytes), name, name, Costing::kTraffic, stream));
  }
  if (!unknown.empty()) {
    graph.warnings.push_back(fmt::format("costed by the bytes of their arguments: {}", Listed(unknown)));
  }
  return absl::OkStatus();
}

// What an operator launched on the device.
struct Launched {
  double total_us = 0;
  double end_us = 0;  // of the last
  std::int64_t kernels = 0;
  std::uint32_t last = 0;
};

std::map<std::uint32_t, Launched> LaunchedBy(const Trace& trace, const Attribution& attribution) {
  std::map<std::uint32_t, Launched> by_owner;
  for (std::uint32_t i = 0; i < trace.kernels.size(); ++i) {
    const DeviceKernel& kernel = trace.kernels[i];
    const std::uint32_t owner = attribution.OwnerOf(kernel);
    if (owner == kNoCall) continue;
    Launched& launched = by_owner[owner];
    launched.total_us += kernel.duration_us;
    launched.end_us = std::max(launched.end_us, kernel.start_us + kernel.duration_us);
    ++launched.kernels;
    launched.last = i;
  }
  return by_owner;
}

// The stream that is busy for longest.
std::int64_t BusiestStream(const Trace& trace) {
  std::map<std::int64_t, double> busy_us;
  for (const DeviceKernel& kernel : trace.kernels) busy_us[kernel.stream] += kernel.duration_us;
  return std::ranges::max_element(busy_us, {}, [](const auto& stream) { return stream.second; })->first;
}

absl::Status AddDeviceKernels(const Trace& trace, const Attribution& attribution, GraphWriter& writer,
                              TracedGraph& traced) {
  Graph& graph = traced.graph;
  const std::string slug = CardCalled(trace.device);
  traced.device = slug;
  const std::map<std::uint32_t, Launched> launched_by = LaunchedBy(trace, attribution);
  const std::int64_t busiest = BusiestStream(trace);
  const CatalogueEntry* entry = slug.empty() ? nullptr : Catalogue::BuiltIn().Find(slug);
  const double bandwidth_gb_s = entry == nullptr ? kTypicalBandwidthGbS : entry->spec.mem_bandwidth_gb_s;
  std::vector<std::uint32_t> by_time(trace.kernels.size());
  for (std::uint32_t i = 0; i < by_time.size(); ++i) by_time[i] = i;
  std::stable_sort(by_time.begin(), by_time.end(), [&](std::uint32_t a, std::uint32_t b) {
    return trace.kernels[a].start_us < trace.kernels[b].start_us;
  });
  std::set<std::string> unknown;
  std::vector<bool> added(trace.calls.size(), false);
  double busy_us = 0;
  double unknown_us = 0;
  double idle_us = 0;
  double end_us = by_time.empty() ? 0 : trace.kernels[by_time.front()].start_us;
  for (std::uint32_t i : by_time) {
    const DeviceKernel& kernel = trace.kernels[i];
    busy_us += kernel.duration_us;
    idle_us += std::max(kernel.start_us - end_us, 0.0);
    end_us = std::max(end_us, kernel.start_us + kernel.duration_us);
    const std::uint32_t owner = attribution.OwnerOf(kernel);
    if (owner != kNoCall) {
      if (added[owner]) continue;
      added[owner] = true;
      const std::string name = PrintableOp(trace.signatures[trace.calls[owner].signature].name);
      const Launched& launched = launched_by.at(owner);
      const std::vector<Kernel>& computes = attribution.KernelsOfCall(owner);
      for (const Kernel& computed : computes) {
        GPUETA_RETURN_IF_ERROR(writer.Add(computed, name, name, Costing::kKernel, kernel.stream));
        writer.Place({kernel.start_us, launched.end_us}, kernel.stream != busiest);
        traced.node_us.push_back(launched.total_us / static_cast<double>(computes.size()));
      }
      continue;
    }
    const std::string name = ShortKernelName(trace.kernel_names[kernel.name]);
    const std::uint32_t call = attribution.CallOf(kernel);
    const std::string source = call == kNoCall ? name : PrintableOp(trace.signatures[trace.calls[call].signature].name);
    unknown.insert(name);
    unknown_us += kernel.duration_us;
    constexpr double kBytesPerGbMicrosecond = 1e3;
    constexpr double kMostBytes = 0x1p60;
    const double moved = std::min(kernel.duration_us * bandwidth_gb_s * kBytesPerGbMicrosecond, kMostBytes);
    const std::int64_t bytes = kernel.bytes > 0 ? kernel.bytes : std::llround(moved);
    GPUETA_RETURN_IF_ERROR(writer.Add(CustomKernel(name, std::min(bytes, std::int64_t{1} << 60)), name, source,
                                      Costing::kTraffic, kernel.stream));
    writer.Place({kernel.start_us, kernel.start_us + kernel.duration_us}, kernel.stream != busiest);
    traced.node_us.push_back(kernel.duration_us);
  }
  if (!unknown.empty()) {
    graph.warnings.push_back(fmt::format(
        "{:.1f} % of the device's time was in kernels of unknown operators, scaled by bandwidth from {}: {}",
        busy_us > 0 ? 100 * unknown_us / busy_us : 0,
        entry == nullptr ? fmt::format("an assumed {} GB/s", kTypicalBandwidthGbS) : entry->spec.slug,
        Listed(unknown)));
  }
  graph.warnings.push_back(
      fmt::format("the traced device was busy for {:.0f} us and idle for {:.0f} us", busy_us, idle_us));
  return absl::OkStatus();
}

double MedianOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Rows of equal work and launch, with their times.
class Rows {
 public:
  void Add(const Kernel& kernel, std::int64_t kernels, double latency_us) {
    if (!(latency_us > 0) || latency_us > kLargestLatencyUs) return;
    const Launch& launch = kernel.launch;
    std::string key = fmt::format("{}|{}|{}|{}x{}x{}x{}|{}", Describe(kernel), LabelOf(kernel), launch.kernel,
                                  launch.grid_x, launch.grid_y, launch.grid_z, launch.block_x, kernels);
    const auto [place, added] = places_.try_emplace(std::move(key), rows_.size());
    if (added) {
      Measurement& row = rows_.emplace_back();
      row.kernel = kernel;
      row.kernels = kernels;
      times_.emplace_back();
    }
    times_[place->second].push_back(latency_us);
  }

  std::vector<Measurement> Take() {
    for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i].latency_us = MedianOf(times_[i]);
    return std::move(rows_);
  }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<Measurement> rows_;
  std::vector<std::vector<double>> times_;
};

void AddDeviceRows(const Trace& trace, const Attribution& attribution, Rows& rows) {
  for (const auto& [owner, launched] : LaunchedBy(trace, attribution)) {
    const std::vector<Kernel>& kernels = attribution.KernelsOfCall(owner);
    if (kernels.size() != 1) continue;
    Kernel kernel = kernels.front();
    if (launched.kernels == 1) {
      const DeviceKernel& device = trace.kernels[launched.last];
      kernel.launch = {ShortKernelName(trace.kernel_names[device.name]), device.grid_x, device.grid_y, device.grid_z,
                       device.block_x};
    }
    if (!Validate(kernel).ok()) kernel.launch = {};
    rows.Add(kernel, launched.kernels, launched.total_us);
  }
}

}  // namespace

bool IsTraceFile(const std::string& path) {
  if (path.ends_with(".sqlite")) return true;
  if (!path.ends_with(".json") && !path.ends_with(".json.gz")) return false;
  // Before the events stand the properties of devices.
  constexpr std::size_t kHead = 64 << 10;
  std::string head(kHead, '\0');
  GzipOrPlainFile file(path);
  head.resize(static_cast<std::size_t>(file.sgetn(head.data(), static_cast<std::streamsize>(head.size()))));
  return head.find("\"traceEvents\"") != std::string::npos;
}

absl::StatusOr<Trace> ReadTraceFile(const std::string& path) {
  absl::StatusOr<Trace> trace = Trace();
  if (path.ends_with(".sqlite")) {
    trace = ReadNsightTrace(path);
  } else {
    GzipOrPlainFile file(path);
    if (!file.status().ok()) return Prefixed(file.status(), path);
    std::istream in(&file);
    trace = ReadKinetoTrace(in);
    if (!file.status().ok()) return Prefixed(file.status(), path);
  }
  if (!trace.ok()) return Prefixed(trace.status(), path);
  return trace;
}

absl::StatusOr<TracedGraph> GraphOfTrace(const Trace& trace, std::string display_name) {
  TracedGraph traced;
  Graph& graph = traced.graph;
  graph.display_name = std::move(display_name);
  const Attribution attribution(trace);
  GraphWriter writer(graph);
  GPUETA_RETURN_IF_ERROR(trace.kernels.empty() ? AddCalls(trace, attribution, writer, graph)
                                               : AddDeviceKernels(trace, attribution, writer, traced));
  if (graph.nodes.empty()) {
    return InvalidArgument("the trace has no operator with recorded shapes; record with record_shapes=True");
  }
  for (const auto& [name, count] : trace.call_counts) graph.source_op_counts[PrintableOp(name)] += count;
  if (trace.steps > 1) {
    graph.warnings.push_back(
        fmt::format("the trace holds {} steps; the graph and its latency are of all of them", trace.steps));
  }
  GPUETA_RETURN_IF_ERROR(Validate(graph));
  return traced;
}

absl::StatusOr<TracedGraph> ImportTracedFile(const std::string& path) {
  GPUETA_ASSIGN_OR_RETURN(const Trace trace, ReadTraceFile(path));
  const std::string name = std::filesystem::path(path).filename().string();
  absl::StatusOr<TracedGraph> graph = GraphOfTrace(trace, name.substr(0, name.find('.')));
  if (!graph.ok()) return Prefixed(graph.status(), path);
  return graph;
}

absl::StatusOr<Graph> ImportTraceFile(const std::string& path) {
  GPUETA_ASSIGN_OR_RETURN(TracedGraph traced, ImportTracedFile(path));
  return std::move(traced.graph);
}

absl::StatusOr<std::vector<Measurement>> MeasurementsOfTrace(const Trace& trace, const std::string& device,
                                                             const std::string& source) {
  const Attribution attribution(trace);
  Rows rows;
  if (trace.kernels.empty()) {
    for (std::uint32_t call = 0; call < trace.calls.size(); ++call) {
      if (attribution.OwnerOf(call) != call || attribution.KernelsOfCall(call).size() != 1) continue;
      rows.Add(attribution.KernelsOfCall(call).front(), 0, trace.calls[call].duration_us);
    }
  } else {
    AddDeviceRows(trace, attribution, rows);
  }
  std::vector<Measurement> measurements = rows.Take();
  if (measurements.empty()) {
    return InvalidArgument("the trace has no operator with recorded shapes; record with record_shapes=True");
  }
  for (Measurement& row : measurements) {
    row.device = device;
    row.source = source;
    row.timing = trace.kernels.empty() ? Timing::kEager : Timing::kKernel;
  }
  return measurements;
}

}  // namespace gpueta
