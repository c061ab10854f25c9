// A kernel that no library chooses, as its manifest describes it: where its code
// is and how a launch follows from a shape. proto/gpueta/v1/kernel_manifest.proto
// is the manual of the fields; core/wire/manifest_codec.h reads the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "core/graph/graph.h"
#include "core/graph/sym_int.h"
#include "core/ops/dtype.h"

namespace gpueta {

// What a kernel's parameter is given.
struct BufferArgument {  // device memory
  enum class Fill : std::uint8_t { kRandom, kZero };
  SymInt bytes;
  Fill fill = Fill::kRandom;
};
struct Int32Argument {
  SymInt value;
};
struct Int64Argument {
  SymInt value;
};
struct ZerosArgument {
  int bytes = 0;
};

struct KernelManifest {
  // What makes up a shape. Without values: sampled from low to high.
  struct Dim {
    std::string name;
    std::int64_t low = 1;
    std::int64_t high = 1;
    std::int64_t multiple_of = 1;
    std::vector<std::int64_t> values;
  };
  struct Definition {
    std::string name;
    SymInt value;
  };
  struct Extent {
    SymInt x = 1;
    SymInt y = 1;
    SymInt z = 1;
  };

  struct Argument {
    std::string name;
    std::variant<BufferArgument, Int32Argument, Int64Argument, float, double, ZerosArgument> value;
  };

  std::string name;
  std::string file;  // relative to the manifest; empty: it cannot be run
  std::string entry;
  DType dtype = DType::kFp32;
  std::vector<Dim> dims;
  std::vector<Definition> definitions;
  Extent grid;   // blocks
  Extent block;  // threads
  SymInt shared_bytes = 0;
  std::vector<Argument> arguments;
  // nullopt: as of `computes`.
  std::optional<SymInt> flops;
  std::optional<SymInt> bytes;
  std::optional<GraphNode> computes;
};

// INVALID_ARGUMENT naming the field, e.g. "dims[1].low" or "grid.x", for names
// that are none or are used twice, empty ranges, expressions that leave the
// bounds of SymInt or use what is neither dim nor definition, a file outside
// the manifest's folder, and FLOPs or bytes that nothing says.
absl::Status Validate(const KernelManifest& manifest);

}  // namespace gpueta
