// Prediction ids: what a prediction said, in some eighty bytes that only this
// server (or one with its store) can make. docs/decisions says why the id
// carries it and no table remembers it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/siphash.h"
#include "core/ops/dtype.h"
#include "core/ops/timing.h"
#include "core/predict/correction.h"
#include "core/predict/estimate.h"
#include "server/feedback/family.h"

namespace gpueta {

// What an id says.
struct PredictionTicket {
  Family family = Family::kGemm;
  DType dtype = DType::kFp32;                     // kernels and columns
  Provenance provenance = Provenance::kRoofline;  // of columns: of the first row
  Timing timing = Timing::kKernel;
  bool has_timing = false;  // the question named it
  bool corrected = false;   // corrections were not left out
  std::uint32_t rows = 0;   // of columns; 0: one prediction
  std::uint32_t issued_unix_s = 0;
  std::uint64_t serial = 0;    // no two predictions share it
  std::uint64_t profile = 0;   // see ProfileNumber
  std::uint64_t model = 0;     // the first 16 digits of a registered model's hash; 0: none
  Quantiles latency_us;        // as answered (floats); of columns: empty
  CorrectionCurve correction;  // what was applied; of single predictions all nodes are the factor
  std::string_view device;     // canonical slug, at most kLongestDevice bytes
};

// A profile id of 16 hex digits as a number; 0 if it is none.
std::uint64_t ProfileNumber(std::string_view id);

// Safe to use from any thread.
class PredictionIds {
 public:
  static constexpr std::size_t kLongestDevice = 63;

  explicit PredictionIds(const SipHashKey& key) : key_(key) {}

  // Replaces `id`; the device is cut if too long. Neither locks nor allocates
  // but for the string. `ticket.serial` is not read: each call takes a new one
  // and returns it.
  std::uint64_t Make(const PredictionTicket& ticket, std::string& id) const;
  // nullopt unless Make made it with this key. The ticket's device points into
  // `id`.
  std::optional<PredictionTicket> Open(std::string_view id) const;

 private:
  SipHashKey key_;
};

// A key nobody else has.
SipHashKey RandomKey();

}  // namespace gpueta
