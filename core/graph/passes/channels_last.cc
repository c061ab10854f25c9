#include "core/graph/passes/channels_last.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

// A pixel is an image of one place: both layouts are the same.
enum class Layout : std::uint8_t { kOther, kPixel, kImage };

bool IsConvolution(const GraphNode& node) {
  const auto* conv = std::get_if<Conv2d>(&node.kernel.work);
  // 1-D convolutions have rows of height 1, which channels_last does not know.
  return conv != nullptr && !(conv->kernel_h == 1 && conv->kernel_w > 1 && DimOf(node, "height") == SymInt(1));
}

bool IsPixel(const GraphNode& conv) { return DimOf(conv, "height") == SymInt(1) && DimOf(conv, "width") == SymInt(1); }

bool IsTranspose(const GraphNode& node) {
  return node.source_op == "Transpose" && node.kernel.op() == Op::kVector && node.costing != Costing::kFree;
}

bool IsReshape(const GraphNode& node) {
  return node.costing == Costing::kFree && (node.source_op == "Reshape" || node.source_op == "Flatten");
}

// Whether the layout of what goes in comes out.
bool KeepsLayout(const GraphNode& node) {
  const auto* vector = std::get_if<Vector>(&node.kernel.work);
  if (vector == nullptr || IsTranspose(node) || IsReshape(node)) return false;
  return vector->op == "groupnorm" || !InfoOf(vector->op).row_wise;
}

bool IsPooledWhole(const GraphNode& node) {
  return node.source_op.ends_with("GlobalAveragePool") || node.source_op == "GlobalMaxPool";
}

class Layouts {
 public:
  explicit Layouts(Graph& graph) : rewriter_(graph), layout_(rewriter_.size()), channels_(rewriter_.size()) {
    FindReaders();
  }

  void Run() {
    for (std::size_t i = 0; i < rewriter_.size(); ++i) Add(i);
    rewriter_.Finish();
  }

 private:
  // Which nodes' outputs are read as images, and the readers of each.
  void FindReaders() {
    std::vector<char> image(rewriter_.size());
    readers_.resize(rewriter_.size());
    read_as_image_.resize(rewriter_.size());
    for (std::size_t i = 0; i < rewriter_.size(); ++i) {
      const GraphNode& node = rewriter_.old(i);
      for (const int input : node.inputs) {
        readers_[static_cast<std::size_t>(input)].push_back(i);
        if (KeepsLayout(node) && image[static_cast<std::size_t>(input)] != 0) image[i] = 1;
      }
      if (IsConvolution(node)) image[i] = 1;
    }
    for (std::size_t i = rewriter_.size(); i-- > 0;) {
      read_as_image_[i] = std::ranges::any_of(readers_[i], [&](std::size_t reader) {
        const GraphNode& node = rewriter_.old(reader);
        return IsConvolution(node) || (KeepsLayout(node) && (image[reader] != 0 || read_as_image_[reader] != 0));
      });
    }
  }

  void Add(std::size_t i) {
    GraphNode node = rewriter_.old(i);
    if (IsConvolution(node)) return Convolve(i, std::move(node));
    if (IsPooledWhole(node)) {
      layout_[i] = Layout::kPixel;
    } else if (KeepsLayout(node)) {
      TakeFromInputs(i, node);
    } else if (IsTranspose(node) && OnlyMovesChannels(i, node)) {
      node.costing = Costing::kFree;
      layout_[i] = read_as_image_[i] != 0 ? Layout::kImage : Layout::kOther;
    } else if (IsReshape(node) && FlattensImage(i, node)) {
      node.costing = Costing::kKernel;
      std::get<Vector>(node.kernel.work).op = "copy";
    }
    rewriter_.Keep(i, std::move(node));
  }

  void Convolve(std::size_t i, GraphNode node) {
    layout_[i] = IsPixel(node) ? Layout::kPixel : Layout::kImage;
    channels_[i] = DimOf(node, "out_channels");
    const bool other = node.inputs.empty() || std::ranges::any_of(node.inputs, [this](int input) {
                         return layout_[static_cast<std::size_t>(input)] == Layout::kOther;
                       });
    if (!other || IsPixel(node)) {
      rewriter_.Keep(i, std::move(node));
      return;
    }
    GraphNode copy =
        VectorLike(node, "to_channels_last", "copy",
                   DimOf(node, "batch") * DimOf(node, "in_channels") * DimOf(node, "height"), DimOf(node, "width"), 1);
    copy.source_op = "ChannelsLast";
    for (const int input : node.inputs) copy.inputs.push_back(rewriter_.Now(static_cast<std::size_t>(input)));
    const int copied = rewriter_.Append(std::move(copy));
    node.inputs.clear();
    rewriter_.AddInput(rewriter_.Keep(i, std::move(node)), copied);
  }

  void TakeFromInputs(std::size_t i, const GraphNode& node) {
    for (const int input : node.inputs) {
      const auto at = static_cast<std::size_t>(input);
      if (layout_[at] <= layout_[i]) continue;
      layout_[i] = layout_[at];
      channels_[i] = node.source_op == "Concat" ? std::nullopt : channels_[at];
    }
  }

  // To the end from an image, or from the end to an image.
  bool OnlyMovesChannels(std::size_t i, const GraphNode& node) const {
    if (node.inputs.size() != 1) return false;
    auto from = static_cast<std::size_t>(node.inputs[0]);
    if (IsReshape(rewriter_.old(from)) && rewriter_.old(from).inputs.size() == 1)
      from = static_cast<std::size_t>(rewriter_.old(from).inputs[0]);
    const SymInt last = DimOf(node, "cols");
    if (layout_[from] == Layout::kImage) return channels_[from].has_value() && *channels_[from] == last;
    const std::optional<Extent> read = OutputExtent(rewriter_.old(static_cast<std::size_t>(node.inputs[0])));
    return read_as_image_[i] != 0 && read.has_value() && !(read->cols == last);
  }

  bool FlattensImage(std::size_t i, const GraphNode& node) const {
    const bool of_image = std::ranges::any_of(
        node.inputs, [this](int input) { return layout_[static_cast<std::size_t>(input)] == Layout::kImage; });
    const auto moves_on = [this](std::size_t reader) { return IsTranspose(rewriter_.old(reader)); };
    const auto empty = [&](std::string_view dim) { return DimOf(node, dim).constant().value_or(1) < 1; };
    return of_image && !readers_[i].empty() && !std::ranges::all_of(readers_[i], moves_on) &&
           node.kernel.op() == Op::kVector && !empty("rows") && !empty("cols");
  }

  Rewriter rewriter_;
  std::vector<Layout> layout_;  // of each old node's output
  std::vector<std::optional<SymInt>> channels_;
  std::vector<std::vector<std::size_t>> readers_;
  std::vector<char> read_as_image_;
};

}  // namespace

void ChannelsLast(Graph& graph) { Layouts(graph).Run(); }

}  // namespace gpueta
