// `gpueta report PROFILE`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "client/report/profile_report.h"

namespace gpueta::cli {

// All that the page shows of the profile in a file, judged on the rows of its
// device in `measurements`, if there are any.
absl::StatusOr<report::ProfileReport> MakeProfileReport(const std::string& path,
                                                        const std::vector<std::string>& measurements,
                                                        const Globals& globals);

}  // namespace gpueta::cli
