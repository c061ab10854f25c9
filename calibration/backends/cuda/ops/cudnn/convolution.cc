#include "calibration/backends/cuda/ops/cudnn/graph.h"

namespace gpueta::cudnn {
namespace {

// n, c, h, w with strides of either layout.
Dims DimsOf(const std::array<std::int64_t, 4>& sizes, DType dtype) {
  const auto& [n, c, h, w] = sizes;
  if (dtype != DType::kFp16 && dtype != DType::kBf16) return Contiguous(sizes);
  return {.sizes = sizes, .strides = {h * w * c, 1, w * c, c}};
}

// The attributes of a pass that refer to the tensors of the input, the weights and the
// output, or their gradients.
struct Attributes {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t input, weights, output, convolution, alpha, beta;
};
constexpr Attributes kForward = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr Attributes kDataGradient = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr Attributes kWeightGradient = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

absl::Status Describe(Descriptor& c, const Conv2d& conv) {
  const auto pair = [](std::int64_t h, std::int64_t w) { return std::vector{h, w}; };
  GPUETA_RETURN_IF_ERROR(c.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT}));
  GPUETA_RETURN_IF_ERROR(
      c.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, std::vector{CUDNN_CROSS_CORRELATION}));
  GPUETA_RETURN_IF_ERROR(c.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::vector{std::int64_t{2}}));
  GPUETA_RETURN_IF_ERROR(
      c.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, pair(conv.dilation_h, conv.dilation_w)));
  GPUETA_RETURN_IF_ERROR(
      c.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, pair(conv.stride_h, conv.stride_w)));
  GPUETA_RETURN_IF_ERROR(c.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pair(conv.pad_h, conv.pad_w)));
  return c.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64,
               pair(conv.pad_h + conv.extra_pad_h, conv.pad_w + conv.extra_pad_w));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> MakeConvolution(const Api& api, cudnnHandle_t handle, const Conv2d& conv,
                                                       DType dtype, Pass pass) {
  // What is computed is the output; of what is read the weights are kept from run to run.
  Attributes attributes = kForward;
  Place input = Place::kInput0;
  Place weights = Place::kWeights;
  Place output = Place::kOutput;
  switch (pass) {
    case Pass::kForward: break;
    case Pass::kDataGradient:
      attributes = kDataGradient;
      input = Place::kOutput;
      output = Place::kInput0;
      break;
    case Pass::kWeightGradient:
      attributes = kWeightGradient;
      weights = Place::kOutput;
      output = Place::kInput1;
      break;
    case Pass::kBackward: return absl::UnimplementedError("a convolution has two gradients: cudnn_dgrad, cudnn_wgrad");
  }
  auto graph = std::make_unique<Graph>(api);
  const cudnnDataType_t type = *TypeOf(dtype);
  const auto tensor = [&](const std::array<std::int64_t, 4>& sizes, Place place) {
    return graph->AddTensor(DimsOf(sizes, dtype), type, place);
  };
  GPUETA_ASSIGN_OR_RETURN(const Graph::Tensor x,
                          tensor({conv.batch, conv.in_channels, conv.height, conv.width}, input));
  GPUETA_ASSIGN_OR_RETURN(
      const Graph::Tensor w,
      tensor({conv.out_channels, conv.in_channels / conv.groups, conv.kernel_h, conv.kernel_w}, weights));
  GPUETA_ASSIGN_OR_RETURN(const Graph::Tensor y,
                          tensor({conv.batch, conv.out_channels, OutHeight(conv), OutWidth(conv)}, output));
  GPUETA_ASSIGN_OR_RETURN(const Descriptor* convolution,
                          graph->Add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                                     [&](Descriptor& descriptor) { return Describe(descriptor, conv); }));
  const absl::Status added = graph->AddOperation(attributes.operation, [&](Descriptor& operation) -> absl::Status {
    GPUETA_RETURN_IF_ERROR(operation.Set(attributes.input, *x));
    GPUETA_RETURN_IF_ERROR(operation.Set(attributes.weights, *w));
    GPUETA_RETURN_IF_ERROR(operation.Set(attributes.output, *y));
    GPUETA_RETURN_IF_ERROR(operation.Set(attributes.convolution, *convolution));
    GPUETA_RETURN_IF_ERROR(operation.Set(attributes.alpha, CUDNN_TYPE_FLOAT, std::vector{1.0F}));
    return operation.Set(attributes.beta, CUDNN_TYPE_FLOAT, std::vector{0.0F});
  });
  GPUETA_RETURN_IF_ERROR(added);
  GPUETA_RETURN_IF_ERROR(graph->Finish(handle));
  return graph;
}

}  // namespace gpueta::cudnn
