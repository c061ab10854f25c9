// A graph of kernels whose dims may depend on symbols.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/graph/sym_int.h"
#include "core/ops/kernel.h"

namespace gpueta {

// How the cost of a node is known.
enum class Costing : std::uint8_t {
  kKernel,   // a kernel kind of its own
  kTraffic,  // by memory traffic: an operator gpueta does not model
  kFree,     // a view: no kernel runs
};

// How a node's work divides over tensor-parallel ranks (core/graph/passes).
enum class Split : std::uint8_t {
  kWhole,    // every rank does all of it
  kColumns,  // of its output: a product's n, a vector's cols
  kRows,     // of the contraction; partial sums are added up over ranks
  kHeads,    // attention heads; of written-out attention the batch or rows
  kExperts,  // of a mixture
};

// What ran behind a convolution before its exporter wrote both as one, and what
// GPUs run when a framework issues its operators one by one (core/predict/as_run.h).
enum class Folded : std::uint8_t {
  kNothing,
  kBias,       // the convolution's own bias, a kernel of its own in frameworks
  kBatchNorm,  // evaluation exports multiply it into the weights
};

// Kernels of one stream of a device run one after the other, those of two
// beside each other.
enum class DeviceStream : std::uint8_t { kCompute, kCommunication };

// When in a step a node runs.
enum class Turn : std::uint8_t {
  kForward,   // of each microbatch
  kBackward,  // of each microbatch
  kStep,      // once: with and after the last microbatch's backward pass
};

inline constexpr std::int64_t kMaxStages = 256;
inline constexpr std::int64_t kMaxMicrobatches = 4096;

struct GraphNode {
  Kernel kernel;  // symbolic dims are 1 here
  struct SymbolicDim {
    int dim;  // position in DimNamesOf(kernel.op())
    SymInt value;
  };
  std::vector<SymbolicDim> symbolic_dims;
  std::vector<int> inputs;  // nodes whose output this one needs; all smaller than its own index
  std::string source_op;    // operator type in the model's source, e.g. "MatMul"
  Costing costing = Costing::kKernel;
  std::int64_t parameters = 0;  // elements of floating-point parameters it reads
  Folded folded = Folded::kNothing;
  // What the passes of parallelism go by; part of no file.
  Split split = Split::kWhole;
  int layer = -1;              // of a stack of layers; -1: before or after it
  std::int64_t gradients = 0;  // of parameters, elements, that are complete when it has run
  // Where and when it runs in a step of several devices or microbatches.
  DeviceStream stream = DeviceStream::kCompute;
  Turn turn = Turn::kForward;
  int stage = 0;  // of a pipeline
};

struct Graph {
  std::string display_name;
  struct Symbol {
    std::string name;
    std::int64_t default_value = 0;  // 0: must be bound
  };
  std::vector<Symbol> symbols;
  std::vector<GraphNode> nodes;  // in a topological order
  std::int64_t parameters = 0;   // elements of floating-point initialisers
  std::int64_t parameter_bytes = 0;
  // What a training step keeps on a device besides.
  std::int64_t gradient_bytes = 0;
  std::int64_t optimiser_bytes = 0;
  std::int64_t microbatches = 1;  // of a step: how often the nodes of a turn run
  // Of mixtures of experts: parameters that one token meets. 0: all.
  std::int64_t active_parameters = 0;
  // Of decoders: what each token of a sequence leaves in the cache, all layers.
  std::int64_t kv_bytes_per_token = 0;
  std::map<std::string, std::int64_t> source_op_counts;
  std::vector<std::string> warnings;
  std::vector<std::string> passes;  // what was done to it, a line a pass (core/graph/passes); part of no file
  std::vector<std::string> inputs;  // e.g. "input: fp32[batch,3,224,224]"
  SymInt input_bytes;               // of all inputs together; 0: not known
};

// INVALID_ARGUMENT naming the node for an edge that does not point backward (a
// cycle), a bad dim position, a symbol the graph does not declare, an
// expression out of bounds, or a kernel whose constant dims are invalid; and
// for symbols that are declared twice or are no identifiers.
absl::Status Validate(const Graph& graph);

// What can be said of a node's kernel before symbols are bound: INVALID_ARGUMENT
// naming the field for a bad dim position, an expression out of bounds or an
// invalid constant dim. Free nodes may have any dims.
absl::Status ValidateKernel(const GraphNode& node);

// The node's kernel with symbols replaced. FAILED_PRECONDITION naming a symbol
// without value; INVALID_ARGUMENT naming the field for a dim out of range. A free
// node's is not validated. The node must be valid.
absl::StatusOr<Kernel> Bind(const GraphNode& node, const SymbolValues& values);

// The kernel of every node with symbols replaced, in the order of the nodes.
// FAILED_PRECONDITION naming a symbol without value; INVALID_ARGUMENT naming
// the node for a dim out of range, or the symbol for a negative value or one
// that the graph does not declare.
// Free nodes are included; their kernels are not validated. The graph must be
// valid.
absl::StatusOr<std::vector<Kernel>> Bind(const Graph& graph, const SymbolValues& values);

// Bytes of all inputs together. Fails as Bind does.
absl::StatusOr<std::int64_t> InputBytes(const Graph& graph, const SymbolValues& values);

// Sums over the bound kernels that run (free nodes excluded).
struct GraphCounts {
  std::int64_t macs = 0;   // MacsOf each kernel
  std::int64_t flops = 0;  // 2·macs
  std::int64_t bytes = 0;
  std::map<std::string, std::int64_t> kernels;  // by kernel kind
};
// Fails as Bind does, and with INVALID_ARGUMENT for more than 2^62 of
// anything.
absl::StatusOr<GraphCounts> CountsOf(const Graph& graph, const SymbolValues& values);

// Stages of the pipeline that its nodes name: 1 for a graph of one device.
int StagesOf(const Graph& graph);

// The head of the SHA-256 of the content, 16 hex digits: equal for equal
// graphs, whatever the display name and the warnings. Stable across versions
// and machines: it names registered models.
std::string HashOf(const Graph& graph);

}  // namespace gpueta
