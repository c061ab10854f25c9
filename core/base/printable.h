// Text from files and callers, made fit to be shown.
#pragma once

#include <string>
#include <string_view>

namespace gpueta {

// Control characters as \x1b, what is no UTF-8 as U+FFFD; the rest stays. Of
// control characters `keep` stay, too.
std::string Printable(std::string_view text, std::string_view keep = "");

}  // namespace gpueta
