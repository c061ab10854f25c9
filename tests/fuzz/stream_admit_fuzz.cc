// Bytes as the items of a StreamAdmit call, each behind its length: changes are
// taken or refused, candidates refused or decided.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/wire/serving_codec.h"
#include "tests/fuzz/fleets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view left(reinterpret_cast<const char*>(data), size);
  gpueta::Fleet fleet(gpueta::fuzz::kSmall);
  while (left.size() > 2) {
    const std::size_t length = static_cast<std::uint8_t>(left[0]) + 256U * static_cast<std::uint8_t>(left[1]);
    const std::string_view bytes = left.substr(2, length);
    left.remove_prefix(2 + bytes.size());
    gpueta::v1::StreamAdmitRequest item;
    if (!item.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return 0;
    auto change = gpueta::wire::Decode(item);
    if (!change.ok() || !fleet.Apply(*std::move(change)).ok()) continue;
    for (int i = 0; i < item.candidates_size() && i < 4; ++i) {
      gpueta::fuzz::JudgeOne(fleet, gpueta::wire::Decode(item.candidates(i)));
    }
  }
  return 0;
}
