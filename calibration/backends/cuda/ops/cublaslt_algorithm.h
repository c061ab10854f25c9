// One algorithm of cuBLASLt, written as a kernel's name. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpueta {

// The attributes that make up an algorithm's configuration. Tile, stages and cluster
// by the words of cuBLASLt's own names ("128x256", "64x4", "2x1x1"); empty where the
// library leaves them to the algorithm.
struct CublasLtAlgorithm {
  int id = 0;
  std::string tile;
  std::string stages;
  int split_k = 1;
  int reduction = 0;  // how the parts of a split are added up
  int swizzle = 0;    // of thread blocks
  int custom = 0;
  int inner_shape = 0;
  std::string cluster;

  friend bool operator==(const CublasLtAlgorithm&, const CublasLtAlgorithm&) = default;
};

// "cublaslt66_128x256_stages64x4_splitk2r1_swizzle1_custom3_inner2_cluster2x1x1"; what
// is at its default is left out.
std::string NameOf(const CublasLtAlgorithm& algorithm);

// The inverse; nullopt for any other text.
std::optional<CublasLtAlgorithm> ParseCublasLtAlgorithm(std::string_view name);

}  // namespace gpueta
