#include "server/feedback/prediction_id.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <random>

namespace gpueta {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kHasTiming = 1;
constexpr std::uint8_t kCorrected = 2;

// As it lies in an id, little-endian; then the device, then the hash of both.
struct Fixed {
  std::uint8_t version;
  std::uint8_t family;
  std::uint8_t dtype;
  std::uint8_t provenance;
  std::uint8_t timing;
  std::uint8_t flags;
  std::uint8_t unused[2];
  std::uint32_t rows;
  std::uint32_t issued_unix_s;
  std::uint64_t serial;
  std::uint64_t profile;
  std::uint64_t model;
  float latency_us[3];
  float correction[kSizeClasses];
};
static_assert(sizeof(Fixed) == 64);
constexpr std::size_t kHashBytes = 8;

// Threads take numbers in blocks; a random start keeps processes apart.
std::uint64_t NextSerial() {
  constexpr std::uint64_t kBlock = 1 << 16;
  static std::atomic<std::uint64_t> next_block{RandomKey()[0]};
  thread_local std::uint64_t next = 0, end = 0;
  if (next == end) {
    next = next_block.fetch_add(kBlock, std::memory_order_relaxed);
    end = next + kBlock;
  }
  return next++;
}

}  // namespace

std::uint64_t ProfileNumber(std::string_view id) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number, 16);
  return error == std::errc() && end == id.data() + id.size() ? number : 0;
}

std::uint64_t PredictionIds::Make(const PredictionTicket& ticket, std::string& id) const {
  Fixed fixed{};
  fixed.version = kVersion;
  fixed.family = static_cast<std::uint8_t>(ticket.family);
  fixed.dtype = static_cast<std::uint8_t>(ticket.dtype);
  fixed.provenance = static_cast<std::uint8_t>(ticket.provenance);
  fixed.timing = static_cast<std::uint8_t>(ticket.timing);
  fixed.flags = static_cast<std::uint8_t>((ticket.has_timing ? kHasTiming : 0) | (ticket.corrected ? kCorrected : 0));
  fixed.rows = ticket.rows;
  fixed.issued_unix_s = ticket.issued_unix_s;
  fixed.serial = NextSerial();
  fixed.profile = ticket.profile;
  fixed.model = ticket.model;
  fixed.latency_us[0] = static_cast<float>(ticket.latency_us.p50);
  fixed.latency_us[1] = static_cast<float>(ticket.latency_us.p90);
  fixed.latency_us[2] = static_cast<float>(ticket.latency_us.p99);
  std::copy(ticket.correction.factor.begin(), ticket.correction.factor.end(), fixed.correction);
  const std::string_view device = ticket.device.substr(0, kLongestDevice);

  char bytes[sizeof(Fixed) + kLongestDevice + kHashBytes];
  std::memcpy(bytes, &fixed, sizeof(Fixed));
  std::memcpy(bytes + sizeof(Fixed), device.data(), device.size());
  const std::size_t size = sizeof(Fixed) + device.size();
  const std::uint64_t hash = SipHash(key_, {bytes, size});
  std::memcpy(bytes + size, &hash, kHashBytes);
  id.assign(bytes, size + kHashBytes);
  return fixed.serial;
}

std::optional<PredictionTicket> PredictionIds::Open(std::string_view id) const {
  if (id.size() < sizeof(Fixed) + kHashBytes || id.size() > sizeof(Fixed) + kLongestDevice + kHashBytes)
    return std::nullopt;
  const std::size_t size = id.size() - kHashBytes;
  std::uint64_t hash;
  std::memcpy(&hash, id.data() + size, kHashBytes);
  if (hash != SipHash(key_, id.substr(0, size))) return std::nullopt;
  Fixed fixed;
  std::memcpy(&fixed, id.data(), sizeof(Fixed));
  if (fixed.version != kVersion) return std::nullopt;
  PredictionTicket ticket{
      .family = static_cast<Family>(fixed.family),
      .dtype = static_cast<DType>(fixed.dtype),
      .provenance = static_cast<Provenance>(fixed.provenance),
      .timing = static_cast<Timing>(fixed.timing),
      .has_timing = (fixed.flags & kHasTiming) != 0,
      .corrected = (fixed.flags & kCorrected) != 0,
      .rows = fixed.rows,
      .issued_unix_s = fixed.issued_unix_s,
      .serial = fixed.serial,
      .profile = fixed.profile,
      .model = fixed.model,
      .latency_us = {fixed.latency_us[0], fixed.latency_us[1], fixed.latency_us[2]},
      .correction = {},
      .device = id.substr(sizeof(Fixed), size - sizeof(Fixed)),
  };
  std::copy_n(fixed.correction, kSizeClasses, ticket.correction.factor.begin());
  return ticket;
}

SipHashKey RandomKey() {
  std::random_device random;
  const auto word = [&random] { return static_cast<std::uint64_t>(random()) << 32 | random(); };
  return {word(), word()};
}

}  // namespace gpueta
