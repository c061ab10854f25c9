// How many tokens a request will generate, before anybody knows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta {

// A quantile in [0, 1) at which lengths are drawn, with ln(1 − u): the same ones
// are drawn at for every engine.
struct LengthQuantile {
  double u = 0;
  double ln_beyond = 0;
  static LengthQuantile Of(double u);
};

// A distribution over lengths of at least 1 token. A value type.
class OutputLengths {
 public:
  static OutputLengths Fixed(std::int64_t tokens);
  // Memoryless with this mean: what is assumed where nothing is known.
  static OutputLengths Geometric(double mean);
  // As observed; INVALID_ARGUMENT for no sample or one below 1.
  static absl::StatusOr<OutputLengths> FromSamples(std::vector<std::int64_t> tokens);

  double mean() const { return mean_; }
  // Those observed, sorted; empty where only the mean is known.
  std::span<const std::int64_t> samples() const { return sorted_; }
  // The length at quantile u in [0, 1) of those longer than `generated`. Beyond
  // the longest that was observed, a memoryless rest of the mean length.
  std::int64_t Draw(const LengthQuantile& at, std::int64_t generated = 0) const;
  std::int64_t Draw(double u, std::int64_t generated = 0) const { return Draw(LengthQuantile::Of(u), generated); }

 private:
  OutputLengths(std::vector<std::int64_t> sorted, double mean);
  // 1, 2, … with P(> n) = (1 − 1/mean)^n.
  std::int64_t DrawGeometric(double ln_beyond) const;
  std::vector<std::int64_t> sorted_;  // empty: geometric
  double mean_ = 1;
  double ln_longer_ = 0;  // ln(1 − 1/mean)
};

}  // namespace gpueta
