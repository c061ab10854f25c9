#include "calibration/backends/cuda/simulated/simulated_library.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/errors.h"
#include "core/ops/launch.h"

namespace gpueta {
namespace {

constexpr std::uint32_t kThreads = 256;

class SimulatedOperation : public Operation {
 public:
  SimulatedOperation(SimulatedDevice& device, SimulatedWork work, OperandBytes bytes)
      : device_(device), work_(std::move(work)), bytes_(bytes) {}

  const OperandBytes& bytes() const override { return bytes_; }
  Launch launch() const override {
    return {.kernel = work_.name,
            .grid_x = work_.geometry.grid.x,
            .grid_y = work_.geometry.grid.y,
            .grid_z = work_.geometry.grid.z,
            .block_x = work_.geometry.block.x};
  }
  absl::Status Enqueue(const Operands&, StreamHandle stream) override { return device_.Enqueue(work_, stream); }

 private:
  SimulatedDevice& device_;
  SimulatedWork work_;
  OperandBytes bytes_;
};

constexpr std::string_view kGemmName = "simulated_gemm_";
std::string NameOf(const SimulatedTile& tile) { return fmt::format("{}{}x{}", kGemmName, tile.m, tile.n); }

class SimulatedLibrary : public OperatorLibrary {
 public:
  SimulatedLibrary(SimulatedDevice& device, std::span<const SimulatedTile> tiles) : device_(device), tiles_(tiles) {}

  std::string name() const override { return "simulated"; }
  std::string version() const override { return "1"; }
  absl::Status Supports(const Kernel& kernel) const override {
    if (kernel.op() == Op::kGemm || kernel.op() == Op::kVector) return absl::OkStatus();
    return absl::UnimplementedError("the simulated library has products and vector operators only");
  }

  absl::StatusOr<std::unique_ptr<Operation>> Prepare(const Kernel& kernel) override {
    GPUETA_RETURN_IF_ERROR(Supports(kernel));
    const Counts counts = CountsOf(kernel);
    SimulatedWork work{.dtype = kernel.dtype, .bytes = static_cast<double>(counts.bytes().value())};
    SimulatedState& state = device_.state();
    work.placement_factor = std::exp(state.gpu.placement_noise * std::normal_distribution<double>()(state.random));
    work.geometry.block.x = kThreads;
    OperandBytes bytes{.output = static_cast<std::size_t>(counts.bytes_written.value())};
    bytes.inputs[0] = static_cast<std::size_t>(counts.bytes_read.value());
    if (const auto* gemm = std::get_if<Gemm>(&kernel.work)) {
      GPUETA_ASSIGN_OR_RETURN(const SimulatedTile tile, TileFor(kernel));
      work.name = NameOf(tile);
      work.geometry.grid.x = static_cast<std::uint32_t>(TilesOf(*ProductOf(kernel), {tile.m, tile.n}));
      work.resident_blocks = tile.resident_blocks;
      work.efficiency = tile.efficiency;
      work.block_flops = 2.0 * tile.m * tile.n * static_cast<double>(gemm->k);
      bytes.weights = bytes.inputs[0] / 2;
      bytes.inputs[0] -= bytes.weights;
    } else {
      const auto& vector = std::get<Vector>(kernel.work);
      constexpr double kElementsPerBlock = 4.0 * kThreads;
      constexpr int kResident = 8;
      const double elements = static_cast<double>(vector.rows) * static_cast<double>(vector.cols);
      // One wave at most: blocks go on with the next elements.
      const double blocks = std::min(elements / kElementsPerBlock, 1.0 * kResident * device_.properties().sm_count);
      work.name = "simulated_" + vector.op;
      work.geometry.grid.x = static_cast<std::uint32_t>(std::max(1.0, std::ceil(blocks)));
      work.resident_blocks = kResident;
    }
    return std::make_unique<SimulatedOperation>(device_, std::move(work), bytes);
  }

  absl::StatusOr<std::vector<std::string>> Algorithms(const Kernel& kernel) override {
    std::vector<std::string> names;
    if (kernel.op() != Op::kGemm) return names;
    const SimulatedTile chosen = Heuristic(kernel);
    names.push_back(NameOf(chosen));
    for (const SimulatedTile& tile : tiles_) {
      if (NameOf(tile) != names.front()) names.push_back(NameOf(tile));
    }
    return names;
  }

 private:
  absl::StatusOr<SimulatedTile> TileFor(const Kernel& kernel) const {
    if (!kernel.launch.kernel.starts_with(kGemmName)) return Heuristic(kernel);
    for (const SimulatedTile& tile : tiles_) {
      if (NameOf(tile) == kernel.launch.kernel) return tile;
    }
    return NotFound("the simulated library has no algorithm \"{}\"", kernel.launch.kernel);
  }

  // The least work in whole waves; smaller tiles are known to reuse less.
  SimulatedTile Heuristic(const Kernel& kernel) const {
    SimulatedTile best;
    double least = std::numeric_limits<double>::max();
    double penalty = 1;
    for (const SimulatedTile& tile : tiles_) {
      const double slots = static_cast<double>(device_.properties().sm_count) * tile.resident_blocks;
      const double waves = std::ceil(TilesOf(*ProductOf(kernel), {tile.m, tile.n}) / slots);
      const double work = waves * slots * tile.m * tile.n * penalty;
      penalty *= 1.15;
      if (work >= least) continue;
      least = work;
      best = tile;
    }
    return best;
  }

  SimulatedDevice& device_;
  std::span<const SimulatedTile> tiles_;
};

}  // namespace

std::unique_ptr<OperatorLibrary> MakeSimulatedLibrary(SimulatedDevice& device, std::span<const SimulatedTile> tiles) {
  return std::make_unique<SimulatedLibrary>(device, tiles);
}

}  // namespace gpueta
