#include "core/importers/huggingface/blocks.h"

namespace gpueta::huggingface {

Value StateSpaceBlock(Writer& writer, const StateSpace& s, const Value& x, const Sequence& sequence) {
  const Value both = writer.Linear("in", x, 2 * s.width, s.bias, Split::kColumns);
  Value inner = both;
  inner.cols = s.width;
  writer.Parameters(Product({s.width, s.conv}) + Count(s.conv_bias ? s.width : 0));
  if (sequence.decodes()) {
    inner = writer.Vector("conv", "mul", inner, static_cast<int>(s.conv));
  } else {
    // Depthwise over time, padded on the left.
    inner = writer.Kernel(
        "conv", "Conv1d",
        Conv2d{.height = 1, .kernel_h = 1, .kernel_w = s.conv, .pad_w = s.conv - 1, .extra_pad_w = -(s.conv - 1)},
        {{"batch", sequence.batch},
         {"in_channels", s.width},
         {"width", sequence.tokens},
         {"out_channels", s.width},
         {"groups", s.width}},
        {inner}, x.rows, s.width, Split::kWhole);
  }
  inner = writer.Activation("conv.activation", "silu", inner);
  const Value steps = writer.Linear("project_state", inner, s.step_rank + 2 * s.state, false);
  Value rank = steps;
  rank.cols = s.step_rank;
  const Value delta = writer.Linear("project_step", rank, s.width, true);
  writer.Parameters(Product({s.width, s.state}) + Count(s.width));  // A and D
  Value scanned = writer.Vector("scan", "selective_scan", inner, 2, {delta, steps});
  scanned = writer.GatedActivation("gate", "silu", both, scanned);
  scanned.cols = s.width;
  return writer.Linear("out", scanned, writer.model().hidden, s.bias, Split::kRows);
}

}  // namespace gpueta::huggingface
