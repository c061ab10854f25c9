// What a campaign has measured so far, on disk, so that a worker that was stopped
// goes on where it was.
#pragma once

#include <cstddef>
#include <fstream>
#include <istream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/measure.h"

namespace gpueta {

class Journal {
 public:
  // Of one campaign on one device: `campaign` says which (device, labels, budget,
  // seed). A file of another campaign, or one that cannot be understood, is started
  // anew. UNAVAILABLE naming the file.
  static absl::StatusOr<Journal> Open(const std::string& path, const std::string& campaign);

  // What Open reads: a journal without a file. Empty for another campaign.
  static Journal Read(std::istream& in, const std::string& campaign);

  // How many kernels an earlier process measured.
  std::size_t size() const { return measured_.size(); }

  // What was measured of this kernel by the same algorithm.
  std::optional<MeasuredKernel> Find(const Kernel& kernel) const;
  // It was begun more than once and never ended: it takes the worker down with it.
  bool IsFatal(const Kernel& kernel) const;

  // Written at once. UNAVAILABLE naming the file.
  absl::Status Begin(const Kernel& kernel);
  absl::Status End(const Kernel& kernel, const MeasuredKernel& measured);
  // Ended without a result: not fatal, and not to be tried again.
  absl::Status Skip(const Kernel& kernel);
  bool WasSkipped(const Kernel& kernel) const;

  // Deletes the file: the campaign is done.
  void Finish();

 private:
  absl::Status Write(const std::string& line);

  bool resumed_ = false;
  std::string path_;
  std::ofstream out_;
  std::map<std::string, MeasuredKernel> measured_;
  std::map<std::string, int> begun_;
  std::set<std::string> skipped_;
};

}  // namespace gpueta
