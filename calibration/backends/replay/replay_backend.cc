#include "calibration/backends/replay/replay_backend.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/measurements/measurements.h"

namespace gpueta {
namespace {

bool IsSameWork(const Kernel& a, const Kernel& b) {
  return a.dtype == b.dtype && a.work == b.work && LabelOf(a) == LabelOf(b);
}

// What one kernel's rows say.
struct Record {
  double latency_us = 0;
  Timing timing = Timing::kKernel;
  std::string source;
};

Sample SampleOf(const Record& record) { return {.latency_us = record.latency_us, .recorded = true}; }

class ReplayedKernel : public PreparedKernel {
 public:
  explicit ReplayedKernel(Record record) : record_(std::move(record)) {}

  absl::StatusOr<Sample> TakeSample(std::size_t) override { return SampleOf(record_); }
  Timing timing() const override { return record_.timing; }
  std::string source() const override { return record_.source; }

 private:
  Record record_;
};

class ReplayedGraph : public PreparedGraph {
 public:
  ReplayedGraph(GraphSample sample, Timing timing) : sample_(std::move(sample)), timing_(timing) {}

  absl::StatusOr<GraphSample> Run() override { return sample_; }
  Timing timing() const override { return timing_; }

 private:
  GraphSample sample_;
  Timing timing_;
};

class ReplayBackend : public Backend {
 public:
  ReplayBackend(std::string path, std::vector<Measurement> rows) : path_(std::move(path)), rows_(std::move(rows)) {
    for (std::size_t i = 0; i < rows_.size(); ++i) by_hash_.emplace(HashOf(rows_[i].kernel), i);
  }

  std::string slug() const override { return rows_.front().device; }
  Timing timing() const override { return rows_.front().timing; }
  std::map<std::string, std::string> labels() const override { return {{"source", rows_.front().source}}; }

  absl::StatusOr<DeviceSpec> Describe() override {
    const CatalogueEntry* entry = Catalogue::BuiltIn().Find(slug());
    return entry != nullptr ? entry->spec : DeviceSpec{.slug = slug()};
  }

  absl::Status Supports(const Kernel& kernel) const override { return Find(kernel).status(); }

  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Kernel& kernel) override {
    GPUETA_ASSIGN_OR_RETURN(Record record, Find(kernel));
    return std::make_unique<ReplayedKernel>(std::move(record));
  }

  absl::StatusOr<std::unique_ptr<PreparedGraph>> PrepareGraph(std::span<const Kernel> kernels) override {
    GraphSample sample;
    Timing timing = rows_.front().timing;
    for (const Kernel& kernel : kernels) {
      GPUETA_ASSIGN_OR_RETURN(const Record record, Find(kernel));
      timing = record.timing;
      sample.kernels.push_back(SampleOf(record));
    }
    return std::make_unique<ReplayedGraph>(std::move(sample), timing);
  }

 private:
  absl::StatusOr<Record> Find(const Kernel& kernel) const {
    std::vector<double> latencies;
    const Measurement* first = nullptr;
    const auto [begin, end] = by_hash_.equal_range(HashOf(kernel));
    for (auto it = begin; it != end; ++it) {
      const Measurement& row = rows_[it->second];
      if (!IsSameWork(row.kernel, kernel)) continue;
      if (first == nullptr) first = &row;
      if (row.timing != first->timing) {
        return FailedPrecondition("{} has rows with timing {} and {} for {}: keep one kind", path_, Name(first->timing),
                                  Name(row.timing), gpueta::Describe(kernel));
      }
      latencies.push_back(row.latency_us);
    }
    if (first == nullptr) return NotFound("{} has no row for {}", path_, gpueta::Describe(kernel));
    const auto middle = latencies.begin() + static_cast<std::ptrdiff_t>(latencies.size() / 2);
    std::nth_element(latencies.begin(), middle, latencies.end());
    return Record{.latency_us = *middle, .timing = first->timing, .source = first->source};
  }

  std::string path_;
  std::vector<Measurement> rows_;  // not empty
  std::unordered_multimap<std::uint32_t, std::size_t> by_hash_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenReplayBackend(const std::string& path) {
  GPUETA_ASSIGN_OR_RETURN(std::vector<Measurement> rows, ReadMeasurementFile(path));
  if (rows.empty()) return InvalidArgument("{}: no rows to replay", path);
  for (const Measurement& row : rows) {
    if (row.device != rows.front().device) {
      return InvalidArgument("{}: line {}: device \"{}\" after \"{}\": a replay is of one device", path, row.line,
                             row.device, rows.front().device);
    }
  }
  return std::make_unique<ReplayBackend>(path, std::move(rows));
}

}  // namespace gpueta
