#include "core/base/sha256.h"

#include <fmt/format.h>
#include <openssl/sha.h>

namespace gpueta {

Sha256Digest Sha256(std::string_view bytes) {
  Sha256Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

std::string Hex(const Sha256Digest& digest, std::size_t digits) {
  std::string hex;
  for (std::uint8_t byte : digest) hex += fmt::format("{:02x}", byte);
  return hex.substr(0, digits);
}

}  // namespace gpueta
