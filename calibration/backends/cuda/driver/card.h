// A card as NVML sees it: its state, who uses it, and settings that concern
// everybody on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpueta {

// Why a card does not run at the clocks it could; bits of CardState::limits.
enum class ClockLimit : std::uint32_t {
  kIdle = 1 << 0,
  kSetting = 1 << 1,      // clocks locked or set by an administrator
  kPowerCap = 1 << 2,     // the power limit
  kHardware = 1 << 3,     // slowed down by hardware, without saying why
  kSyncBoost = 1 << 4,    // clocks follow another card's
  kSoftThermal = 1 << 5,  // the driver keeps the temperature down
  kHardThermal = 1 << 6,  // hardware keeps the temperature down
  kPowerBrake = 1 << 7,   // the host's power supply asked for it
  kDisplay = 1 << 8,
};

// At one moment.
struct CardState {
  double sm_clock_mhz = 0;
  double memory_clock_mhz = 0;
  double power_w = 0;
  double temperature_c = 0;
  double busy = 0;           // share of the last sampling period (1/6 to 1 s) in which any kernel ran
  std::uint32_t limits = 0;  // of ClockLimit

  bool Limited(ClockLimit limit) const { return (limits & static_cast<std::uint32_t>(limit)) != 0; }
};

// A process with a context on the card.
struct CardProcess {
  std::uint32_t pid = 0;
  std::uint64_t memory_bytes = 0;  // 0 where the driver does not tell
};

// What rarely changes. 0 and empty mean unknown.
struct CardInfo {
  std::string uuid;
  std::string name;
  std::string driver_version;  // "580.65.06"
  std::string vbios_version;
  bool ecc = false;
  bool mig = false;          // split into MIG instances
  bool persistence = false;  // the driver stays loaded without clients
  bool exclusive = false;    // only one process may use it
  double max_sm_clock_mhz = 0;
  double max_memory_clock_mhz = 0;
  double power_limit_w = 0;  // in force
  double default_power_limit_w = 0;
  double min_power_limit_w = 0;
  double max_power_limit_w = 0;
};

// Thread-safe, as NVML is. Errors: UNIMPLEMENTED where the card or the driver does
// not offer it, PERMISSION_DENIED where the process may not, UNAVAILABLE for a
// card that was lost. Messages name the call.
class Card {
 public:
  virtual ~Card() = default;

  virtual absl::StatusOr<CardInfo> Info() = 0;
  virtual absl::StatusOr<CardState> State() = 0;
  virtual absl::StatusOr<std::vector<CardProcess>> Processes() = 0;

  // Clocks that can be locked, highest first, in MHz.
  virtual absl::StatusOr<std::vector<double>> MemoryClocks() = 0;
  virtual absl::StatusOr<std::vector<double>> SmClocks(double memory_clock_mhz) = 0;

  // Card-wide: they stay after the process ends. Whoever calls these keeps a
  // journal and undoes them (calibration/control). Reset returns to the default.
  virtual absl::Status LockSmClocks(double lowest_mhz, double highest_mhz) = 0;
  virtual absl::Status ResetSmClocks() = 0;
  virtual absl::Status LockMemoryClocks(double lowest_mhz, double highest_mhz) = 0;
  virtual absl::Status ResetMemoryClocks() = 0;
  virtual absl::Status SetPowerLimit(double watts) = 0;
};

}  // namespace gpueta
