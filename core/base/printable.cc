#include "core/base/printable.h"

#include <fmt/format.h>

namespace gpueta {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

// Bytes of the UTF-8 character at the front; 0: none is there (RFC 3629).
std::size_t CharacterAt(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Longer than need be, surrogates, beyond U+10FFFF.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) || (first == 0xF0 && byte(1) < 0x90) ||
      (first == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return size;
}

}  // namespace

std::string Printable(std::string_view text, std::string_view keep) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = CharacterAt(text);
    const auto c = static_cast<unsigned char>(text.front());
    const bool c1 = size == 2 && c == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;  // U+0080 to U+009F
    if (size == 0) {
      out += kReplacement;
    } else if (c1 || ((c < 0x20 || c == 0x7F) && keep.find(text.front()) == std::string_view::npos)) {
      out += fmt::format("\\x{:02x}", c1 ? static_cast<unsigned char>(text[1]) : c);
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

}  // namespace gpueta
