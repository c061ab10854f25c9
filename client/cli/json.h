// JSON as the commands print it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gpueta::cli {

// Indented. Names from files may be no UTF-8: what is not is replaced.
inline std::string Dump(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace gpueta::cli
