#include "core/base/siphash.h"

#include <bit>
#include <cstring>

namespace gpueta {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

struct State {
  std::uint64_t a, b, c, d;

  void Round() {
    a += b;
    c += d;
    b = std::rotl(b, 13) ^ a;
    d = std::rotl(d, 16) ^ c;
    a = std::rotl(a, 32);
    c += b;
    a += d;
    b = std::rotl(b, 17) ^ c;
    d = std::rotl(d, 21) ^ a;
    c = std::rotl(c, 32);
  }

  void Absorb(std::uint64_t word) {
    d ^= word;
    Round();
    Round();
    a ^= word;
  }
};

}  // namespace

std::uint64_t SipHash(const SipHashKey& key, std::string_view bytes) {
  // "somepseudorandomlygeneratedbytes", as in the paper.
  State state{key[0] ^ 0x736f6d6570736575U, key[1] ^ 0x646f72616e646f6dU, key[0] ^ 0x6c7967656e657261U,
              key[1] ^ 0x7465646279746573U};
  std::uint64_t last = static_cast<std::uint64_t>(bytes.size()) << 56;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    state.Absorb(word);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i)
    last |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  state.Absorb(last);
  state.c ^= 0xff;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.a ^ state.b ^ state.c ^ state.d;
}

}  // namespace gpueta
