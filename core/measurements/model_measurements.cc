#include "core/measurements/model_measurements.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/base/csv.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using Row = ModelMeasurement;
using Mode = ModelMeasurement::Mode;

// A column and the member it fills, if that is a text, count or prediction.
struct Column {
  std::string_view name;
  bool required = false;
  std::string Row::*text = nullptr;
  std::int64_t Row::*count = nullptr;
  std::optional<double> Row::*prediction = nullptr;
};

constexpr std::string_view kMode = "mode";
constexpr std::string_view kDType = "dtype";
constexpr std::string_view kLatency = "latency_ms";

// In the order of model_e2e.csv.
constexpr Column kColumns[] = {
    {.name = "device", .required = true, .text = &Row::device},
    {.name = "source", .text = &Row::source},
    {.name = "model", .required = true, .text = &Row::model},
    {.name = kMode},
    {.name = "options", .text = &Row::options},
    {.name = kDType, .required = true},
    {.name = "batch", .required = true, .count = &Row::batch},
    {.name = "seq_len", .count = &Row::seq_len},
    {.name = "image_size", .count = &Row::image_size},
    {.name = kLatency, .required = true},
    {.name = "neusight_ms", .prediction = &Row::neusight_ms},
    {.name = "roofline_ms", .prediction = &Row::roofline_ms},
    {.name = "habitat_ms", .prediction = &Row::habitat_ms},
    {.name = "li_ms", .prediction = &Row::li_ms},
};

// Times above this (11 days) are taken for a wrong unit.
constexpr double kLargestMs = 1e9;

absl::StatusOr<double> ReadMs(const CsvReader& csv, std::size_t cell) {
  GPUETA_ASSIGN_OR_RETURN(const double ms, csv.Number(cell));
  if (!(ms > 0)) return csv.ErrorInCell(cell, "must be above 0");
  if (ms > kLargestMs) {
    return csv.ErrorInCell(cell, fmt::format("{} ms is more than {}; is the unit right?", ms, kLargestMs));
  }
  return ms;
}

absl::StatusOr<std::int64_t> ReadCount(const CsvReader& csv, std::size_t cell) {
  GPUETA_ASSIGN_OR_RETURN(const std::int64_t count, csv.Integer(cell));
  if (count < 1) return csv.ErrorInCell(cell, "must be at least 1");
  return count;
}

absl::Status ReadCell(const CsvReader& csv, std::size_t cell, const Column& column, Row& row) {
  const std::string_view text = csv.cells()[cell];
  if (text.empty()) return column.required ? csv.ErrorInCell(cell, "is empty") : absl::OkStatus();
  if (column.text != nullptr) row.*column.text = text;
  if (column.count != nullptr) {
    GPUETA_ASSIGN_OR_RETURN(row.*column.count, ReadCount(csv, cell));
  }
  if (column.prediction != nullptr) {
    GPUETA_ASSIGN_OR_RETURN(row.*column.prediction, ReadMs(csv, cell));
  }
  if (column.name == kLatency) {
    GPUETA_ASSIGN_OR_RETURN(row.latency_ms, ReadMs(csv, cell));
  }
  if (column.name == kDType) return csv.Named(cell, kAllDTypes, row.dtype);
  if (column.name == kMode) return csv.Named(cell, std::array{Mode::kInference, Mode::kTrain}, row.mode);
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(ModelMeasurement::Mode mode) {
  switch (mode) {
    case Mode::kInference: return "inference";
    case Mode::kTrain: return "train";
  }
  return "?";
}

absl::Status ReadModelMeasurements(std::istream& in, std::string_view file_name,
                                   const std::function<absl::Status(ModelMeasurement&&)>& row) {
  GPUETA_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(in, file_name));
  std::vector<CsvColumn> known;
  for (const Column& column : kColumns) known.push_back({column.name, column.required});
  GPUETA_ASSIGN_OR_RETURN(const std::vector<std::size_t> indices, MatchColumns(csv, known));
  while (csv.Next()) {
    ModelMeasurement measurement;
    measurement.line = csv.line();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      GPUETA_RETURN_IF_ERROR(ReadCell(csv, i, kColumns[indices[i]], measurement));
    }
    GPUETA_RETURN_IF_ERROR(row(std::move(measurement)));
  }
  return csv.status();
}

absl::StatusOr<std::vector<ModelMeasurement>> ReadModelMeasurementFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("{}: cannot be opened: {}", path, std::strerror(errno));
  std::vector<ModelMeasurement> rows;
  GPUETA_RETURN_IF_ERROR(ReadModelMeasurements(in, path, [&](ModelMeasurement&& row) {
    rows.push_back(std::move(row));
    return absl::OkStatus();
  }));
  return rows;
}

}  // namespace gpueta
