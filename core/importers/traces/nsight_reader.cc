#include "core/importers/traces/nsight_reader.h"

#include <sqlite3.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "core/base/errors.h"
#include "core/importers/traces/kernel_name.h"
#include "core/importers/traces/signature_table.h"

namespace gpueta {
namespace {

constexpr double kNanosecondsPerMicrosecond = 1e3;

// NVTX_EVENTS.eventType of ranges that a thread pushes and pops.
constexpr int kPushPopRange = 59;

struct CloseDb {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Db = std::unique_ptr<sqlite3, CloseDb>;

// One row of a query.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  std::int64_t Integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string Text(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text == nullptr ? std::string()
                           : std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }
  double Microseconds(int column) const { return static_cast<double>(Integer(column)) / kNanosecondsPerMicrosecond; }

 private:
  sqlite3_stmt* statement_;
};

bool HasColumn(sqlite3* db, const char* table, const char* column) {
  return sqlite3_table_column_metadata(db, nullptr, table, column, nullptr, nullptr, nullptr, nullptr, nullptr) ==
         SQLITE_OK;
}

bool HasTable(sqlite3* db, const char* table) { return HasColumn(db, table, nullptr); }

// Calls `row` for each row; stops at its first error.
template <class OnRow>
absl::Status ForEachRow(sqlite3* db, const char* query, OnRow on_row) {
  sqlite3_stmt* raw = nullptr;
  const int prepared = sqlite3_prepare_v2(db, query, -1, &raw, nullptr);
  const std::unique_ptr<sqlite3_stmt, Finalize> statement(raw);
  if (prepared != SQLITE_OK) return InvalidArgument("is no report of Nsight Systems: {}", sqlite3_errmsg(db));
  for (;;) {
    const int step = sqlite3_step(statement.get());
    if (step == SQLITE_DONE) return absl::OkStatus();
    if (step != SQLITE_ROW) return InvalidArgument("cannot be read: {}; export the report again", sqlite3_errmsg(db));
    GPUETA_RETURN_IF_ERROR(on_row(Row(statement.get())));
  }
}

class Reader {
 public:
  explicit Reader(sqlite3* db) : db_(db), signatures_(trace_) {}

  absl::StatusOr<Trace> Read() {
    if (!HasTable(db_, "CUPTI_ACTIVITY_KIND_KERNEL")) {
      return InvalidArgument("has no CUDA kernels; record with nsys profile --trace cuda,nvtx");
    }
    GPUETA_RETURN_IF_ERROR(ReadDevice());
    GPUETA_RETURN_IF_ERROR(ReadLaunches());
    GPUETA_RETURN_IF_ERROR(ReadKernels());
    GPUETA_RETURN_IF_ERROR(ReadCopies("CUPTI_ACTIVITY_KIND_MEMCPY", "memcpy"));
    GPUETA_RETURN_IF_ERROR(ReadCopies("CUPTI_ACTIVITY_KIND_MEMSET", "memset"));
    GPUETA_RETURN_IF_ERROR(ReadRanges());
    if (trace_.kernels.empty())
      return InvalidArgument("has no CUDA kernels; record with nsys profile --trace cuda,nvtx");
    return std::move(trace_);
  }

 private:
  absl::Status ReadDevice() {
    if (!HasTable(db_, "TARGET_INFO_GPU")) return absl::OkStatus();
    const bool has_sizes =
        HasColumn(db_, "TARGET_INFO_GPU", "smCount") && HasColumn(db_, "TARGET_INFO_GPU", "totalMemory");
    const std::string query = fmt::format("SELECT name{} FROM TARGET_INFO_GPU ORDER BY id LIMIT 1",
                                          has_sizes ? ", smCount, totalMemory" : "");
    return ForEachRow(db_, query.c_str(), [&](const Row& row) {
      trace_.device = {row.Text(0), has_sizes ? row.Integer(1) : 0, has_sizes ? row.Integer(2) : 0};
      return absl::OkStatus();
    });
  }

  absl::Status ReadLaunches() {
    if (!HasTable(db_, "CUPTI_ACTIVITY_KIND_RUNTIME")) return absl::OkStatus();
    return ForEachRow(db_, "SELECT correlationId, start, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME",
                      [this](const Row& row) {
                        launches_[row.Integer(0)] = {row.Microseconds(1), Thread(row.Integer(2))};
                        return CheckCount();
                      });
  }

  absl::Status ReadKernels() {
    return ForEachRow(db_,
                      "SELECT k.start, k.end, k.deviceId, k.streamId, k.correlationId, k.gridX, k.gridY, k.gridZ, "
                      "k.blockX, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s "
                      "ON s.id = k.demangledName",
                      [this](const Row& row) {
                        GPUETA_ASSIGN_OR_RETURN(DeviceKernel* const kernel, AddKernel(row, row.Text(9)));
                        kernel->grid_x = std::max<std::int64_t>(row.Integer(5), 0);
                        kernel->grid_y = std::max<std::int64_t>(row.Integer(6), 0);
                        kernel->grid_z = std::max<std::int64_t>(row.Integer(7), 0);
                        kernel->block_x = std::max<std::int64_t>(row.Integer(8), 0);
                        return CheckCount();
                      });
  }

  absl::Status ReadCopies(const char* table, const std::string& name) {
    if (!HasTable(db_, table)) return absl::OkStatus();
    const std::string query = fmt::format("SELECT start, end, deviceId, streamId, correlationId, bytes FROM {}", table);
    return ForEachRow(db_, query.c_str(), [&](const Row& row) {
      GPUETA_ASSIGN_OR_RETURN(DeviceKernel* const kernel, AddKernel(row, name));
      kernel->bytes = std::max<std::int64_t>(row.Integer(5), 0);
      return CheckCount();
    });
  }

  // Columns 0 to 4: start, end, device, stream, correlation.
  absl::StatusOr<DeviceKernel*> AddKernel(const Row& row, const std::string& name) {
    DeviceKernel& kernel = trace_.kernels.emplace_back();
    kernel.start_us = row.Microseconds(0);
    kernel.duration_us = row.Microseconds(1) - row.Microseconds(0);
    if (kernel.duration_us < 0) return InvalidArgument("kernel \"{}\" ends before it starts", ShortKernelName(name));
    constexpr std::int64_t kStreamsOfDevice = 1 << 20;
    kernel.stream = (row.Integer(2) % kStreamsOfDevice) * kStreamsOfDevice + row.Integer(3) % kStreamsOfDevice;
    const auto [number, added] = kernel_names_.Add(name);
    if (added) trace_.kernel_names.push_back(name);
    kernel.name = number;
    if (const auto launch = launches_.find(row.Integer(4)); launch != launches_.end()) {
      kernel.launch_us = launch->second.first;
      kernel.launch_thread = launch->second.second;
    }
    return &kernel;
  }

  // "aten::addmm, seq = 12, op_id = 7, sizes = [[8, 10], [], [[2, 3], [4]]]"
  absl::Status ReadRanges() {
    if (!HasTable(db_, "NVTX_EVENTS")) return absl::OkStatus();
    const std::string type = TypeOfKernels();
    const std::string query = fmt::format(
        "SELECT e.start, e.end, e.globalTid, coalesce(e.text, s.value) FROM NVTX_EVENTS e LEFT JOIN StringIds s "
        "ON s.id = e.textId WHERE e.eventType = {} AND e.end IS NOT NULL",
        kPushPopRange);
    return ForEachRow(db_, query.c_str(), [&](const Row& row) {
      const std::string text = row.Text(3);
      const std::string name = text.substr(0, text.find(','));
      if (name.find("::") == std::string::npos) return absl::OkStatus();
      OpCall& call = trace_.calls.emplace_back();
      call.start_us = row.Microseconds(0);
      call.duration_us = std::max(row.Microseconds(1) - row.Microseconds(0), 0.0);
      call.thread = Thread(row.Integer(2));
      call.signature = signatures_.Add(name, ArgumentsIn(text, type));
      return CheckCount();
    });
  }

  static std::vector<TraceArgument> ArgumentsIn(const std::string& text, const std::string& type) {
    constexpr std::string_view kSizes = "sizes = ";
    const std::size_t at = text.find(kSizes);
    if (at == std::string::npos) return {};
    const std::size_t begin = at + kSizes.size();
    std::size_t end = begin;
    int depth = 0;
    do {
      depth += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
      ++end;
    } while (depth > 0 && depth < 8 && end < text.size());
    const nlohmann::json sizes = nlohmann::json::parse(text.substr(begin, end - begin), nullptr, false);
    std::vector<TraceArgument> arguments;
    if (!sizes.is_array()) return arguments;
    for (const nlohmann::json& size : sizes) {
      TraceArgument& argument = arguments.emplace_back();
      if (!size.is_array() || size.empty()) continue;
      argument.type = type;
      const bool list = size.front().is_array();
      for (const nlohmann::json& dims : list ? size : nlohmann::json::array({size})) {
        std::vector<std::int64_t>& tensor = argument.tensors.emplace_back();
        if (!dims.is_array()) continue;
        for (const nlohmann::json& dim : dims) tensor.push_back(dim.is_number_integer() ? dim.get<std::int64_t>() : 0);
      }
    }
    return arguments;
  }

  // Ranges do not say what is computed in: what most matrix kernels' names do.
  std::string TypeOfKernels() const {
    std::map<std::string, int> votes;
    for (const DeviceKernel& kernel : trace_.kernels) {
      const std::string type = TypeInKernelName(trace_.kernel_names[kernel.name]);
      if (!type.empty()) ++votes[type];
    }
    const auto most =
        std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == votes.end() ? "float" : most->first;
  }

  absl::Status CheckCount() const {
    if (trace_.calls.size() + trace_.kernels.size() + launches_.size() <= kMaxTraceEvents) return absl::OkStatus();
    return ResourceExhausted("has more than {} events; record fewer steps", kMaxTraceEvents);
  }

  std::uint32_t Thread(std::int64_t global) { return threads_.Add(std::to_string(global)).first; }

  sqlite3* db_;
  Trace trace_;
  SignatureTable signatures_;
  Interner threads_;
  Interner kernel_names_;
  std::unordered_map<std::int64_t, std::pair<double, std::uint32_t>> launches_;  // by correlation
};

}  // namespace

absl::StatusOr<Trace> ReadNsightTrace(const std::string& path) {
  sqlite3* raw = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  const Db db(raw);
  if (opened != SQLITE_OK) return NotFound("cannot be opened: {}", sqlite3_errmsg(raw));
  // Reports come from anywhere: no schema may do more than hold tables.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  return Reader(raw).Read();
}

}  // namespace gpueta
