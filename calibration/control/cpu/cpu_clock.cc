#include "calibration/control/cpu/cpu_clock.h"

#include <cmath>
#include <cstdlib>

#include "calibration/control/card/card_settings.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr double kStepMhz = 100;
constexpr double kKhzPerMhz = 1000;

absl::StatusOr<double> ReadMhz(const CardSettings& card, const std::string& setting) {
  GPUETA_ASSIGN_OR_RETURN(const std::string text, card.Read(setting));
  char* end = nullptr;
  const double khz = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !(khz > 0)) {
    return FailedPrecondition("{}: \"{}\" is no clock in kHz", setting, text);
  }
  return khz / kKhzPerMhz;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuClock>> CpuClock::Open(const std::string& settings_directory,
                                                         std::span<const int> cores, const GuardOptions& guard) {
  std::unique_ptr<CpuClock> clock(new CpuClock);
  GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<CardSettings> card, OpenCardSettings(FilesCardId(settings_directory)));
  for (const int core : cores) {
    const std::string cpufreq = fmt::format("cpu{}/cpufreq/", core);
    GPUETA_ASSIGN_OR_RETURN(const double least, ReadMhz(*card, cpufreq + "cpuinfo_min_freq"));
    GPUETA_ASSIGN_OR_RETURN(const double most, ReadMhz(*card, cpufreq + "cpuinfo_max_freq"));
    if (!clock->settings_.empty() && most != clock->range_.most) {
      return FailedPrecondition(
          "core {} runs at up to {:g} MHz, others at up to {:g}: restrict the process to one kind", core, most,
          clock->range_.most);
    }
    const double steps = std::floor((most - least) / kStepMhz);
    clock->range_ = {.least = most - steps * kStepMhz, .most = most, .step = kStepMhz};
    clock->settings_.push_back(cpufreq + "scaling_max_freq");
  }
  GPUETA_ASSIGN_OR_RETURN(clock->card_, GuardedCard::Open(card->id(), guard));
  return clock;
}

absl::Status CpuClock::Set(double clock_mhz) {
  for (const std::string& setting : settings_) {
    GPUETA_RETURN_IF_ERROR(card_->Set(setting, fmt::format("{:.0f}", clock_mhz * kKhzPerMhz)));
  }
  return absl::OkStatus();
}

}  // namespace gpueta
