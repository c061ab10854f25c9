// Whether a profile may be published: what ParseProfile cannot see because it
// takes the device, physics or other profiles to see it.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "core/device/catalogue.h"
#include "core/profile/profile.h"

namespace gpueta {

// A profile is evaluated over shapes spread over the hull of each of its
// tables and this factor beyond.
inline constexpr double kProbeBeyondHull = 2.0;

// Data sheets round, and boost clocks exceed them a little.
inline constexpr double kPeakTolerance = 1.05;

// Winograd and FFT convolutions need fewer operations than are counted.
inline constexpr double kConvolutionSavings = 4.0;

// A pure function of its arguments. `device` is the slug the profile is
// published for, `others` the profiles it may not repeat.
//
// INVALID_ARGUMENT: the profile is of another device, or of one that neither
// the catalogue nor the profile describes.
// FAILED_PRECONDITION: it claims what is impossible (an estimate that is faster
// than the operations at kPeakTolerance times the peak, or than what must come
// from DRAM at kPeakTolerance times its bandwidth, where less than twice the
// last-level cache need not come from there; quantiles out of order or not
// finite), or it repeats the parameters of another device. The message names
// the table and the kernel, or the other device.
absl::Status ValidateProfile(const LoadedProfile& loaded, std::string_view device,
                             std::span<const Profile* const> others, const Catalogue& catalogue = Catalogue::BuiltIn());

}  // namespace gpueta
