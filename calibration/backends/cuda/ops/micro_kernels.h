// What micro_kernels.cu and tensor_kernels.cu and those who launch them agree on. Plain
// constants, for nvcc too.
#pragma once

namespace gpueta::micro {

// Every thread of fma_DTYPE works on so many independent chains, and goes so many steps
// each iteration. Of fp16 a step is two products, side by side.
inline constexpr int kFmaThreads = 256;  // of a block
inline constexpr int kFmaChains = 8;
inline constexpr int kFmaSteps = 16;

// Every warp of mma_DTYPE keeps so many accumulator tiles of 16×8, and adds one product of
// depth 16 (fp16, bf16), 8 (tf32) or 32 (int8) to each every iteration.
inline constexpr int kMmaThreads = 256;
inline constexpr int kMmaTiles = 8;
inline constexpr int kMmaRows = 16;
inline constexpr int kMmaColumns = 8;

inline constexpr int kStreamThreads = 512;  // of read, copy and contend
inline constexpr int kStreamPacks = 4;      // of 16 bytes, that a thread has under way at once

inline constexpr int kLineWords = 32;  // from one 128-byte line that chase visits to the next

}  // namespace gpueta::micro
