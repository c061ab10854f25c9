// gpu_specs.csv, compiled in; the build generates the source file.
#pragma once

#include <string_view>

namespace gpueta {

extern const std::string_view kGpuSpecsCsv;

}  // namespace gpueta
