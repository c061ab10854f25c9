// Text as a worker's journal, and as the name of an algorithm.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "calibration/backends/cuda/ops/cublaslt_algorithm.h"
#include "calibration/worker/journal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto algorithm = gpueta::ParseCublasLtAlgorithm(text); algorithm.has_value()) {
    if (gpueta::ParseCublasLtAlgorithm(NameOf(*algorithm)) != algorithm) std::abort();
  }
  // Most of what there is to a journal comes after its first line.
  std::istringstream in("gpueta-journal-2\tc\n" + text);
  const gpueta::Journal journal = gpueta::Journal::Read(in, "c");
  const gpueta::Kernel kernel{.work = gpueta::Gemm{.m = 5, .n = 6, .k = 7}};
  if (const auto found = journal.Find(kernel); found.has_value() && !(found->measurement.latency_us > 0)) std::abort();
  return 0;
}
