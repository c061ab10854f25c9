// What the system says about its processor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpueta {

struct CpuInfo {
  std::string model;                       // e.g. "AMD EPYC"; empty if unknown
  double clock_mhz = 0;                    // the highest current clock; 0 if unknown
  std::size_t last_level_cache_bytes = 0;  // all of it, over several chips; 0 if unknown
  bool one_last_level_cache = false;       // all cores are said to share it
  std::size_t core_cache_bytes = 0;        // level 2 of one core; 0 if unknown
  std::size_t memory_bytes = 0;            // 0 if unknown
};

CpuInfo ReadCpuInfo();

// "AMD EPYC 9654 96-Core Processor", 8 → "cpu-amd-epyc-9654-8t": what says
// nothing beyond the model is left out, the rest is lower case with hyphens.
std::string CpuSlug(std::string_view model, int threads);

// Model name and highest clock of the text of /proc/cpuinfo.
CpuInfo ParseCpuInfo(std::string_view cpuinfo);

// "32768K" → bytes, as sysfs writes sizes of caches; 0 for other text.
std::size_t ParseCacheSize(std::string_view text);

}  // namespace gpueta
