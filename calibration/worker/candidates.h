// What could be measured on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/manifest/manifest_kernels.h"
#include "core/device/spec.h"
#include "core/ops/kernel.h"

namespace gpueta {

// What is worth measuring on a device besides a workload (WorkloadModels; empty: none is
// given): products, convolutions and vector operators, and on a GPU attention and mixtures
// of experts, unless there is a workload without them.
std::vector<Op> PlannedOps(const DeviceSpec& spec, const std::vector<std::vector<Kernel>>& workload);

struct CandidateOptions {
  std::vector<Op> ops;  // of generated kernels
  // Attention and mixtures of experts are in bf16 or else fp16 where the backend has none
  // of them in this type.
  DType dtype = DType::kFp32;
  std::size_t per_op = 2000;
  // Kernels that the data sheet says take longer are left out: they cost more
  // of the budget than they teach.
  double longest_us = 30'000;
  std::uint64_t seed = 0;
};

// Generated shapes that the backend supports and that are short enough; of a GPU a third of
// the vector operators are those of transformers and training steps. An op of which the
// backend supports nothing is left out.
absl::StatusOr<std::vector<Kernel>> GenerateCandidates(const Backend& backend, const DeviceSpec& spec,
                                                       const CandidateOptions& options);

// Collectives of every operator and so many ranks (2, 4, 8 … and as many as the
// backend has), over sizes of two an octave from 512 B to 512 MB, by which libraries
// of collectives change their ways; of options.dtype. Empty where the backend has none.
std::vector<Kernel> CollectiveCandidates(const Backend& backend, const CandidateOptions& options);

// Shapes of kernels of manifests, options.per_op of each, that are short enough and
// fit into half of the device's memory. Errors as ManifestKernels::Candidates.
absl::StatusOr<std::vector<Kernel>> OwnKernelCandidates(ManifestKernels& kernels, const Backend& backend,
                                                        const DeviceSpec& spec, const CandidateOptions& options);

struct WorkloadOptions {
  // A training step: forward, backward, optimiser, as frameworks run them. What computes
  // the gradients of a convolution or an attention is asked for by name ("cudnn_dgrad",
  // "cudnn_wgrad", "cudnn_bwd"), one kernel where the graph counts several.
  bool train = false;
  std::int64_t symbol_default = 128;  // of symbols but the batch, which is 1
};

// For each model (ONNX file) its kernels in order, as far as the backend supports them.
// `left_out`, unless null, gets the others, by a description without a size ("vector pool
// of 9 operands in fp16"), and how often each occurs. Errors name the file.
absl::StatusOr<std::vector<std::vector<Kernel>>> WorkloadModels(const Backend& backend,
                                                                std::span<const std::string> model_paths,
                                                                const WorkloadOptions& options = {},
                                                                std::map<std::string, std::size_t>* left_out = nullptr);

}  // namespace gpueta
