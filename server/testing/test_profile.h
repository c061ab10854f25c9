// A profile made by hand, for tests that need one but no measurements.
#pragma once

#include <string>
#include <string_view>

#include "core/profile/profile.h"

namespace gpueta::testing_util {

// Tables for all op families in bf16 and fp32 with the forms' start values,
// scaled a little by slug and `variation`: profiles of different devices and
// different variations give different estimates and ids. Passes validation for
// every device of the catalogue.
Profile MakeTestProfile(std::string_view slug, int variation = 0);

// Gives every table a learnt residual as large as fitted profiles have, with
// small random weights.
void AddTestResiduals(Profile& profile);

// The file's bytes of MakeTestProfile.
std::string MakeTestProfileFile(std::string_view slug, int variation = 0);

}  // namespace gpueta::testing_util
