// Files from users: measurements, model measurements, specs. Besides not
// crashing, what is read must be writable and read the same again.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/device/catalogue.h"
#include "core/measurements/copy_lines.h"
#include "core/measurements/measurements.h"
#include "core/measurements/model_measurements.h"

namespace gpueta {
namespace {

std::vector<Measurement> Read(const std::string& text, bool ignore_latency) {
  std::istringstream in(text);
  std::vector<Measurement> rows;
  const absl::Status status =
      ReadMeasurements(in, "fuzz", {.ignore_latency = ignore_latency}, [&rows](Measurement&& row) {
        rows.push_back(std::move(row));
        return absl::OkStatus();
      });
  if (!status.ok()) rows.clear();
  return rows;
}

std::string Write(const std::vector<Measurement>& rows) {
  std::ostringstream out;
  if (!WriteMeasurements(out, rows).ok()) std::abort();
  return out.str();
}

void CheckMeasurements(const std::string& text, bool ignore_latency) {
  const std::vector<Measurement> rows = Read(text, ignore_latency);
  if (rows.empty()) return;
  const std::string written = Write(rows);
  const std::vector<Measurement> again = Read(written, ignore_latency);
  if (again.size() != rows.size() || Write(again) != written) std::abort();

  const std::int64_t lines[] = {rows.back().line, rows.front().line};
  std::istringstream in(text);
  std::ostringstream out;
  if (!CopyLines(in, lines, out).ok() || Read(out.str(), ignore_latency).size() != 2) std::abort();
}

void CheckSpecs(const std::string& text) {
  if (const auto spec = ParseSpecRow(text); spec.ok()) {
    const DeviceSpec whole = WithInferredCells(*spec);
    for (const DType dtype : kAllDTypes) {
      if (!(PeakTflops(whole, dtype) > 0)) std::abort();
    }
  }
  if (const auto catalogue = Catalogue::Parse(text); catalogue.ok()) {
    for (const CatalogueEntry& entry : catalogue->entries()) {
      if (catalogue->Find(entry.spec.slug) != &entry) std::abort();
    }
    if (catalogue->Get(text).ok()) std::abort();  // no slug is a whole file
  }
}

}  // namespace
}  // namespace gpueta

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  gpueta::CheckMeasurements(text, false);
  gpueta::CheckMeasurements(text, true);
  gpueta::CheckSpecs(text);
  std::istringstream in(text);
  (void)gpueta::ReadModelMeasurements(in, "fuzz", [](gpueta::ModelMeasurement&&) { return absl::OkStatus(); });
  return 0;
}
