// SHA-256, through OpenSSL.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpueta {

using Sha256Digest = std::array<std::uint8_t, 32>;
Sha256Digest Sha256(std::string_view bytes);

// The first `digits` lower-case hex digits; at most 64.
std::string Hex(const Sha256Digest& digest, std::size_t digits);

}  // namespace gpueta
