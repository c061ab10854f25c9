// The page of `gpueta report PROFILE`: what a profile holds, what it rests on,
// and how far it is off.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/report/eval_report.h"
#include "client/report/roofline.h"
#include "core/profile/profile.h"

namespace gpueta::report {

struct ProfileReport {
  LoadedProfile loaded;
  std::vector<std::string> facts;     // a paragraph each
  std::vector<RooflinePoint> points;  // measured where rows were given, else predicted
  std::optional<EvalReport> judged;   // where rows were given
};

std::string RenderProfileReport(const ProfileReport& report);

}  // namespace gpueta::report
