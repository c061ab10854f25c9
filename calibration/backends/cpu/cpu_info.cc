#include "calibration/backends/cpu/cpu_info.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace gpueta {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string ReadWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// The caches of the largest level by the cores that share each.
std::map<std::string, std::size_t> ReadLastLevelCaches() {
  int last_level = 0;
  std::map<std::string, std::size_t> caches;
  const auto processors = static_cast<int>(sysconf(_SC_NPROCESSORS_CONF));
  for (int processor = 0; processor < processors; ++processor) {
    for (int index = 0;; ++index) {
      const std::string cache = fmt::format("/sys/devices/system/cpu/cpu{}/cache/index{}/", processor, index);
      const std::string level_text = ReadWord(cache + "level");
      if (level_text.empty()) break;
      const int level = std::atoi(level_text.c_str());  // NOLINT(cert-err34-c)
      if (level > last_level) caches.clear();
      last_level = std::max(last_level, level);
      if (level == last_level) caches[ReadWord(cache + "shared_cpu_list")] = ParseCacheSize(ReadWord(cache + "size"));
    }
  }
  return caches;
}

bool SaysNothing(std::string_view word) {
  static constexpr std::string_view kNoise[] = {"cpu", "processor", "with"};
  return std::find(std::begin(kNoise), std::end(kNoise), word) != std::end(kNoise) || word.ends_with("-core") ||
         word.ends_with("ghz");
}

}  // namespace

CpuInfo ParseCpuInfo(std::string_view cpuinfo) {
  CpuInfo info;
  for (const auto line : absl::StrSplit(absl::string_view(cpuinfo.data(), cpuinfo.size()), '\n')) {
    const std::pair<std::string, std::string> entry = absl::StrSplit(line, absl::MaxSplits(':', 1));
    const auto key = absl::StripAsciiWhitespace(entry.first);
    const auto value = absl::StripAsciiWhitespace(entry.second);
    if (key == "model name" && info.model.empty()) info.model = std::string(value);
    if (key == "cpu MHz") info.clock_mhz = std::max(info.clock_mhz, std::atof(std::string(value).c_str()));
  }
  return info;
}

std::size_t ParseCacheSize(std::string_view text) {
  std::size_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest + 1 < text.data() + text.size()) return 0;
  const char unit = rest == text.data() + text.size() ? 'B' : *rest;
  switch (unit) {
    case 'B': return number;
    case 'K': return number << 10;
    case 'M': return number << 20;
    case 'G': return number << 30;
    default: return 0;
  }
}

std::string CpuSlug(std::string_view model, int threads) {
  std::string words;
  for (const char c : model) {
    const bool keep = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
    words += keep ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : ' ';
  }
  std::string slug = "cpu";
  for (std::string_view word : std::vector<std::string>(absl::StrSplit(words, ' ', absl::SkipEmpty()))) {
    if (word == "r" || word == "tm" || SaysNothing(word)) continue;
    slug += '-';
    for (const char c : word) slug += c == '.' ? '-' : c;
  }
  return slug + fmt::format("-{}t", threads);
}

CpuInfo ReadCpuInfo() {
  CpuInfo info = ParseCpuInfo(ReadFile("/proc/cpuinfo"));
  const std::map<std::string, std::size_t> caches = ReadLastLevelCaches();
  for (const auto& [cores, bytes] : caches) info.last_level_cache_bytes += bytes;
  info.one_last_level_cache = caches.size() == 1;
  info.core_cache_bytes = static_cast<std::size_t>(std::max(0L, sysconf(_SC_LEVEL2_CACHE_SIZE)));
  info.memory_bytes =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return info;
}

}  // namespace gpueta
