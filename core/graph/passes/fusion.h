// Fusions of inference, as compilers and runtimes do them. Each is one rewrite;
// none changes what is multiplied.
#pragma once

#include "core/graph/graph.h"

namespace gpueta {

// A run of vector operators, one after the other, each joined to one before by an
// edge or, of elementwise ones, by an input that both read, is one pass over its
// largest tensor, at the cost of a row operator if one is among them: what
// compilers of elementwise code (torch.compile) make of it. What stays inside is
// neither read nor written; operands count further tensors written. The bias
// of a linear layer in front of one goes into it, which leaves a plain product
// (Inductor's unfuse_bias_add_to_pointwise).
void FuseElementwise(Graph& graph);

// An elementwise operator of one operand (a bias, an activation, a batch norm)
// right behind a product or convolution that nothing else reads goes into it.
void FuseEpilogues(Graph& graph);

// A sum that only a norm and later sums read is written by the norm.
void FuseResidualNorms(Graph& graph);

// Product, softmax and product become fused attention, and what stood on the
// scores between them goes. The mask is not known: all pairs count.
void FuseAttention(Graph& graph);

// Products of one input with the same m and k are one, side by side: query, key
// and value, gate and up.
void MergeProducts(Graph& graph);

}  // namespace gpueta
