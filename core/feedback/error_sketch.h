// Quantiles of errors in bounded memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpueta {

// Counts of ln(predicted/observed) by sign and size, in bins whose edges grow by
// a constant factor: DDSketch (Masson, Rim & Lee, PVLDB 12, 2019) with both signs
// and a fixed range. Any error it returns is within kRelativeError of one that
// was added at that rank, as long as its size lies in [kSmallest, kLargest];
// smaller ones are 0, larger ones kLargest. At most 299 bins, 2.4 kB. Merging two
// sketches gives the sketch of both.
class ErrorSketch {
 public:
  static constexpr double kRelativeError = 0.03;
  static constexpr double kSmallest = 1e-3;  // a tenth of a percent
  static constexpr double kLargest = 7;      // a factor of 1000

  struct Bin {
    std::int16_t index = 0;  // sign and size; ascending with the error
    std::uint32_t count = 0;
    friend bool operator==(const Bin&, const Bin&) = default;
  };
  // The error that stands for a bin.
  static double ValueOf(std::int16_t index);

  // The bin of one error. NaN counts as 0.
  static Bin BinOf(double ln_error);

  void Add(double ln_error) { Add(BinOf(ln_error)); }
  void Add(Bin bin);
  void Merge(const ErrorSketch& other);

  std::int64_t count() const { return count_; }
  // Ascending; no empty ones.
  std::span<const Bin> bins() const { return bins_; }
  // Bins out of order or out of range are left out.
  static ErrorSketch FromBins(std::span<const Bin> bins);

 private:
  std::vector<Bin> bins_;
  std::int64_t count_ = 0;
};

}  // namespace gpueta
