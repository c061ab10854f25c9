#include "calibration/backends/cuda/device/identity.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/base/errors.h"
#include "core/base/sha256.h"
#include "core/device/card_name.h"
#include "core/device/catalogue.h"

namespace gpueta {
namespace {

constexpr std::string_view kMig = " MIG ";

// A MIG instance: that of the card it is a part of, as far as its name alone says.
std::string CardSlug(const DeviceProperties& device) {
  if (const std::size_t mig = device.name.find(kMig); mig != std::string::npos) {
    return CardCalled({.name = device.name.substr(0, mig)});
  }
  return CardCalled({.name = device.name,
                     .sm_count = device.sm_count,
                     .memory_bytes = static_cast<std::int64_t>(device.memory_bytes)});
}

std::string Hyphenated(std::string_view name) {
  std::string slug;
  for (char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.') {
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (slug.ends_with('-')) slug.pop_back();
  if (constexpr std::string_view kMaker = "nvidia-"; slug.starts_with(kMaker)) slug = slug.substr(kMaker.size());
  return slug.empty() ? "unknown-gpu" : slug;
}

// "13.0" of 13000.
std::string CudaVersion(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

std::optional<std::string> MigProfileOf(const DeviceProperties& device) {
  const std::size_t at = device.name.find(kMig);
  if (at == std::string::npos) return std::nullopt;
  return device.name.substr(at + kMig.size());
}

std::string SlugOf(const DeviceProperties& device) {
  std::string slug = CardSlug(device);
  if (slug.empty()) slug = Hyphenated(device.name.substr(0, device.name.find(kMig)));
  if (const auto mig = MigProfileOf(device); mig.has_value()) slug += "-mig-" + Hyphenated(*mig);
  return slug;
}

DeviceSpec SpecOf(const DeviceProperties& device) {
  const CatalogueEntry* card = Catalogue::BuiltIn().Find(CardSlug(device));
  DeviceSpec spec = card != nullptr ? card->spec : DeviceSpec{.name = device.name};
  const double memory_gb = static_cast<double>(device.memory_bytes) * 1e-9;
  if (card != nullptr && MigProfileOf(device).has_value()) {
    spec.name = device.name;
    const double sms = device.sm_count / static_cast<double>(spec.sm_count);
    for (double DeviceSpec::*peak :
         {&DeviceSpec::fp64_tflops, &DeviceSpec::fp32_tflops, &DeviceSpec::tf32_tensor_tflops,
          &DeviceSpec::fp16_vector_tflops, &DeviceSpec::fp16_tensor_tflops, &DeviceSpec::bf16_tensor_tflops,
          &DeviceSpec::fp8_tensor_tflops, &DeviceSpec::int8_tensor_tops}) {
      spec.*peak *= sms;
    }
    // A slice of the memory comes with its share of the channels.
    spec.mem_bandwidth_gb_s *= std::min(1.0, memory_gb / spec.memory_gb);
  }
  spec.slug = SlugOf(device);
  spec.compute_capability = device.compute_major + 0.1 * device.compute_minor;
  spec.sm_count = device.sm_count;
  spec.memory_gb = memory_gb;
  if (device.l2_bytes > 0) spec.l2_mb = static_cast<double>(device.l2_bytes) / (1 << 20);
  if (spec.boost_clock_mhz <= 0) spec.boost_clock_mhz = device.sm_clock_mhz;
  return spec;
}

std::map<std::string, std::string> LabelsOf(const DeviceProperties& device, const std::optional<CardInfo>& card,
                                            const LibraryVersions& libraries, bool mps) {
  std::map<std::string, std::string> labels = libraries;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) labels[name] = value;
  };
  const auto add_number = [&](const std::string& name, double value) {
    if (value > 0) labels[name] = fmt::format("{:.0f}", value);
  };
  constexpr std::size_t kHashDigits = 12;
  if (!device.uuid.empty()) add("uuid", Hex(Sha256(device.uuid), kHashDigits));
  if (device.driver_version > 0) add("cuda", CudaVersion(device.driver_version));
  if (const auto mig = MigProfileOf(device); mig.has_value()) add("slice", "mig-" + *mig);
  labels["ecc"] = device.ecc ? "on" : "off";
  if (mps) labels["mps"] = "on";
  add_number("max_sm_clock_mhz", device.sm_clock_mhz);
  add_number("max_memory_clock_mhz", device.memory_clock_mhz);
  if (!card.has_value()) return labels;
  add("driver", card->driver_version);
  add("vbios", card->vbios_version);
  add_number("power_limit_w", card->power_limit_w);
  return labels;
}

}  // namespace gpueta
