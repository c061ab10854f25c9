// Images with their channels last in memory.
#pragma once

#include "core/graph/graph.h"

namespace gpueta {

// What of a graph written for channels first (NCHW) runs when model and input are
// in PyTorch's channels_last memory format (NHWC): convolutions, and what works
// elementwise on their outputs, hand it on.
//   - What a convolution reads in another layout is copied first: the model's
//     input, tensors that come out of a reshape.
//   - A transpose that only puts channels last, or images' back where they were,
//     moves nothing: a view.
//   - A reshape that flattens an image is a copy.
// Convolutions themselves cost what their table says, whichever layout that was
// measured in.
void ChannelsLast(Graph& graph);

}  // namespace gpueta
