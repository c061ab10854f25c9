// The families of operators; each adds its rules to the table.
#pragma once

#include "core/importers/onnx/op_rule.h"

namespace gpueta::onnx_import {

void AddSourceOps(OpTable& table);         // Constant, Shape, Range: tensors made of nothing or of shapes
void AddElementwiseOps(OpTable& table);    // Add, Relu, Where, Cast, QuantizeLinear
void AddLayoutOps(OpTable& table);         // Reshape, Transpose, Concat, Split, Pad, Expand
void AddIndexingOps(OpTable& table);       // Gather, Slice, ScatterND, TopK, NonZero
void AddReductionOps(OpTable& table);      // ReduceMean, ArgMax, CumSum
void AddNormalisationOps(OpTable& table);  // Softmax, LayerNormalization, BatchNormalization
void AddSpatialOps(OpTable& table);        // MaxPool, GlobalAveragePool, Resize, DepthToSpace
void AddConvolutionOps(OpTable& table);    // Conv, ConvTranspose, QLinearConv
void AddProductOps(OpTable& table);        // MatMul, Gemm, Einsum
void AddAttentionOps(OpTable& table);      // fused attention of com.microsoft and opset 23
void AddRecurrentOps(OpTable& table);      // LSTM, GRU, RNN
void AddDetectionOps(OpTable& table);      // NonMaxSuppression, RoiAlign, Compress, losses

}  // namespace gpueta::onnx_import
