// SipHash-2-4 (Aumasson & Bernstein, INDOCRYPT 2012): a keyed hash of short
// messages that whoever lacks the key cannot guess.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace gpueta {

using SipHashKey = std::array<std::uint64_t, 2>;
std::uint64_t SipHash(const SipHashKey& key, std::string_view bytes);

}  // namespace gpueta
