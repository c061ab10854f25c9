// The passes that a caller may choose by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace gpueta {

struct NamedPass {
  std::string_view name;
  std::string_view does;  // for people
  void (*apply)(Graph& graph);
};

// What the pass is called that other code applies unasked.
inline constexpr std::string_view kRestoreBatchNorm = "restore-batch-norm";

std::span<const NamedPass> NamedPasses();
// Words of a name may be joined by underscores, too. nullptr if there is no such
// pass.
const NamedPass* FindPass(std::string_view name);

// What was done to a graph, a line a pass, with the kernels that run before and
// after: "fuse-attention: 96 kernels become 72".
class PassLog {
 public:
  explicit PassLog(const Graph& graph);
  // `graph` after the pass.
  void Add(std::string_view pass, const Graph& graph);
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::size_t kernels_;
  std::vector<std::string> lines_;
};

}  // namespace gpueta
