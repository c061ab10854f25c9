# Makes ${CMAKE_CURRENT_BINARY_DIR}/gpu_specs_csv.cc: the catalogue's CSV as string
# literals, one a line.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/gpu_specs.csv)
file(READ ${CMAKE_CURRENT_LIST_DIR}/gpu_specs.csv csv)
string(REPLACE "\\" "\\\\" csv "${csv}")
string(REPLACE "\"" "\\\"" csv "${csv}")
string(REPLACE "\n" "\\n\"\n    \"" csv "${csv}")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/gpu_specs_csv.cc @ONLY CONTENT [[
#include "core/device/gpu_specs_csv.h"

namespace gpueta {

const std::string_view kGpuSpecsCsv =
    "@csv@";

}  // namespace gpueta
]])
