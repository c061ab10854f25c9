// The output of `gpueta eval` as text and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "client/cli/eval_judge.h"
#include "client/report/eval_report.h"

namespace gpueta::cli {

// What there is to know besides the groups when two sides are compared: rows
// left out, rows that a side answers from the data sheet alone. A sentence each.
std::vector<std::string> NotesOf(const Judged& judged);

// A table of the groups: their errors, or where two sides are compared the
// paired difference.
std::string EvalText(const std::vector<std::string>& columns, const std::vector<report::EvalGroup>& groups);

// Alone: the figures of one group where no columns are given, else a list of
// groups. Compared: {"unanswered": [...], "groups": [...]}. The shape depends
// on what is asked only.
nlohmann::json EvalJson(const std::vector<std::string>& columns, const std::vector<report::EvalGroup>& groups,
                        const Judged& judged);

}  // namespace gpueta::cli
