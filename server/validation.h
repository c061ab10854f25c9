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

// An estimate is impossible if it is faster than the operations at this many
// times the peak rate, or than what must come from DRAM at this many times its
// bandwidth; below twice the last-level cache nothing must. Data sheets round,
// and boost clocks exceed them a little.
inline constexpr double kPeakTolerance = 1.05;
// A CPU's peaks are measured, on machines that others use as well.
inline constexpr double kMeasuredPeakTolerance = 1.5;

// Winograd and FFT convolutions need fewer operations than are counted.
inline constexpr double kConvolutionSavings = 4.0;

// A table is refused when more than this share of the estimates that the
// device limits is impossible. It is not 0: shapes drawn from a hull include
// combinations far from any measurement, where good fits err too. Of the
// profiles fitted to public measurements the worst table has 0.38, nearly all
// are below 0.1; times that are half of what they should be give 0.5 to 0.9.
inline constexpr double kImpossibleShare = 0.45;
// Nor may any single one be faster than possible by this factor.
inline constexpr double kImpossibleFactor = 4.0;

// A pure function of its arguments. `device` is the slug the profile is
// published for, `others` the profiles it may not repeat.
//
// INVALID_ARGUMENT: the profile is of another device, or of one that neither
// the catalogue nor the profile describes.
// FAILED_PRECONDITION: it claims what is impossible (see above; of whole steps at
// either end of what was measured), has quantiles
// that are out of order or not finite, or repeats the parameters of another
// device. The message names the table and a kernel, or the other device.
absl::Status ValidateProfile(const LoadedProfile& loaded, std::string_view device,
                             std::span<const Profile* const> others, const Catalogue& catalogue = Catalogue::BuiltIn());

}  // namespace gpueta
