#include "calibration/worker/journal.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::string_view kMagic = "gpueta-journal-2";
// Once may be the node's fault.
constexpr int kFatalBeginnings = 2;

std::string KeyOfKernel(const Kernel& kernel) {
  return kernel.launch.kernel.empty() ? Describe(kernel) : Describe(kernel) + " by " + kernel.launch.kernel;
}

std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
  return fields;
}

template <class Number>
bool Parse(const std::string& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string HeaderOf(const std::string& campaign) { return fmt::format("{}\t{}", kMagic, campaign); }

// Of a line about a measured kernel.
constexpr std::size_t kDoneFields = 16;

std::string DoneLine(const std::string& key, const MeasuredKernel& m) {
  const Launch& launch = m.measurement.kernel.launch;
  return fmt::format("done\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", key, m.measurement.device,
                     m.measurement.source, Name(m.measurement.timing), m.timing.latency_us, m.timing.spread_us,
                     m.timing.relative_error, m.timing.disturbed ? 1 : 0, m.timing.slowed ? 1 : 0,
                     m.timing.shared ? 1 : 0, launch.grid_x, launch.grid_y, launch.grid_z, launch.block_x,
                     launch.kernel.empty() ? "-" : launch.kernel);
}

std::optional<MeasuredKernel> ParseDone(const std::vector<std::string>& f) {
  MeasuredKernel m;
  if (f.size() != kDoneFields) return std::nullopt;
  m.measurement.device = f[2];
  m.measurement.source = f[3];
  const auto timing = ParseTiming(f[4]);
  int disturbed = 0;
  int slowed = 0;
  int shared = 0;
  Launch& launch = m.measurement.kernel.launch;
  if (!timing.has_value() || !Parse(f[5], m.timing.latency_us) || !Parse(f[6], m.timing.spread_us) ||
      !Parse(f[7], m.timing.relative_error) || !Parse(f[8], disturbed) || !Parse(f[9], slowed) ||
      !Parse(f[10], shared) || !Parse(f[11], launch.grid_x) || !Parse(f[12], launch.grid_y) ||
      !Parse(f[13], launch.grid_z) || !Parse(f[14], launch.block_x) || !std::isfinite(m.timing.latency_us) ||
      m.timing.latency_us <= 0) {
    return std::nullopt;
  }
  m.measurement.timing = *timing;
  m.measurement.latency_us = m.timing.latency_us;
  m.timing.disturbed = disturbed != 0;
  m.timing.slowed = slowed != 0;
  m.timing.shared = shared != 0;
  if (f[15] != "-") launch.kernel = f[15];
  return m;
}

}  // namespace

Journal Journal::Read(std::istream& in, const std::string& campaign) {
  Journal journal;
  std::string line;
  // A line that was cut short ends the file: no line break follows it.
  journal.resumed_ = std::getline(in, line) && !in.eof() && line == HeaderOf(campaign);
  while (journal.resumed_ && std::getline(in, line) && !in.eof()) {
    const std::vector<std::string> fields = Fields(line);
    if (fields.size() < 2) continue;
    if (fields[0] == "begun") ++journal.begun_[fields[1]];
    if (fields[0] == "skipped") journal.skipped_.insert(fields[1]);
    if (fields[0] == "skipped" || fields[0] == "done") journal.begun_.erase(fields[1]);
    if (fields[0] != "done") continue;
    if (std::optional<MeasuredKernel> measured = ParseDone(fields); measured.has_value())
      journal.measured_[fields[1]] = *std::move(measured);
  }
  return journal;
}

absl::StatusOr<Journal> Journal::Open(const std::string& path, const std::string& campaign) {
  std::ifstream in(path);
  Journal journal = Read(in, campaign);
  journal.path_ = path;
  journal.out_.open(path, journal.resumed_ ? std::ios::app : std::ios::trunc);
  // After a line that was cut short; an empty line means nothing.
  GPUETA_RETURN_IF_ERROR(journal.Write(journal.resumed_ ? "" : HeaderOf(campaign)));
  return journal;
}

std::optional<MeasuredKernel> Journal::Find(const Kernel& kernel) const {
  const auto at = measured_.find(KeyOfKernel(kernel));
  if (at == measured_.end()) return std::nullopt;
  MeasuredKernel measured = at->second;
  const Launch launch = measured.measurement.kernel.launch;
  measured.measurement.kernel = kernel;
  if (!launch.kernel.empty()) measured.measurement.kernel.launch = launch;
  return measured;
}

bool Journal::IsFatal(const Kernel& kernel) const {
  const auto at = begun_.find(KeyOfKernel(kernel));
  return at != begun_.end() && at->second >= kFatalBeginnings;
}

bool Journal::WasSkipped(const Kernel& kernel) const { return skipped_.contains(KeyOfKernel(kernel)); }

absl::Status Journal::Begin(const Kernel& kernel) { return Write("begun\t" + KeyOfKernel(kernel)); }
absl::Status Journal::Skip(const Kernel& kernel) { return Write("skipped\t" + KeyOfKernel(kernel)); }
absl::Status Journal::End(const Kernel& kernel, const MeasuredKernel& measured) {
  return Write(DoneLine(KeyOfKernel(kernel), measured));
}

void Journal::Finish() {
  out_.close();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

absl::Status Journal::Write(const std::string& line) {
  out_ << line << '\n' << std::flush;
  return out_.good() ? absl::OkStatus() : Unavailable("{}: cannot be written", path_);
}

}  // namespace gpueta
