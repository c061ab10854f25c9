// Measured times of whole models.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/dtype.h"

namespace gpueta {

// One row of a CSV in the form of model_e2e.csv.
struct ModelMeasurement {
  enum class Mode : std::uint8_t {
    kInference,  // one forward pass
    kTrain,      // one training step
  };

  std::string device;  // slug
  std::string source;
  std::string model;
  Mode mode = Mode::kInference;
  std::string options;  // as the source writes them, e.g. "amp;nchw"
  DType dtype = DType::kFp32;
  std::int64_t batch = 0;
  std::int64_t seq_len = 0;     // tokens; 0: not a sequence model
  std::int64_t image_size = 0;  // pixels a side; 0: not an image model
  double latency_ms = 0;
  // Predictions published with the row.
  std::optional<double> neusight_ms;
  std::optional<double> roofline_ms;
  std::optional<double> habitat_ms;
  std::optional<double> li_ms;
  std::int64_t line = 0;  // in its file, the header being line 1

  friend bool operator==(const ModelMeasurement&, const ModelMeasurement&) = default;
};

std::string_view Name(ModelMeasurement::Mode mode);

// Reads row by row, calling `row` for each; column order is free. Columns
// source, mode, options, seq_len, image_size and the predictions may be absent,
// and their cells empty. Stops at the first error: INVALID_ARGUMENT with file,
// line and column, or what `row` returns if that is not OK.
absl::Status ReadModelMeasurements(std::istream& in, std::string_view file_name,
                                   const std::function<absl::Status(ModelMeasurement&&)>& row);

// The rows of a file in order. NOT_FOUND if it cannot be opened.
absl::StatusOr<std::vector<ModelMeasurement>> ReadModelMeasurementFile(const std::string& path);

}  // namespace gpueta
