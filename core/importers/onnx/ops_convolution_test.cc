#include "core/importers/onnx/op_case.h"

namespace gpueta::onnx_import {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Convolutions, OpTest,
    ::testing::Values(
        OpCase{
            "Conv",
            "float[n,3,224,224] x, float[64,3,7,7] w, float[64] wb",
            "t = Conv <strides = [2,2], pads = [3,3,3,3]> (x, w, wb) y = Relu (t)",
            {"conv2d fp32 batch=n in_channels=3 height=224 width=224 out_channels=64 kernel_h=7 kernel_w=7 stride_h=2 "
             "stride_w=2 pad_h=3 pad_w=3",
             "vector fp32 relu rows=7168*n cols=112"}},
        OpCase{"ConvOverSymbolicSizes",
               "float[1,3,h,w0] x, float[8,3,3,3] w",
               "t = Conv <strides = [2,2], pads = [1,1,1,1]> (x, w) y = Relu (t)",
               {"conv2d fp32 batch=1 in_channels=3 height=h width=w0 out_channels=8 kernel_h=3 kernel_w=3 stride_h=2 "
                "stride_w=2 "
                "pad_h=1 pad_w=1",
                "vector fp32 relu rows=8*floordiv(h + 1, 2) cols=floordiv(w0 + 1, 2)"}},
        OpCase{"UnevenPads",
               "float[n,3,10,12] x, float[8,3,3,5] w",
               "y = Conv <pads = [0,1,1,3]> (x, w)",
               {"conv2d fp32 batch=n in_channels=3 height=10 width=12 out_channels=8 kernel_h=3 kernel_w=5 pad_w=1 "
                "extra_pad_h=1 extra_pad_w=2"}},
        OpCase{"SameUpper",
               "float[n,3,10,11] x, float[8,3,3,3] w",
               "t = Conv <auto_pad = \"SAME_UPPER\", strides = [2,2]> (x, w) y = Relu (t)",
               {"conv2d fp32 batch=n in_channels=3 height=10 width=11 out_channels=8 kernel_h=3 kernel_w=3 stride_h=2 "
                "stride_w=2 pad_w=1 extra_pad_h=1",
                "vector fp32 relu rows=40*n cols=6"}},
        OpCase{"SameLower",
               "float[n,3,10,11] x, float[8,3,3,3] w",
               "y = Conv <auto_pad = \"SAME_LOWER\", strides = [2,2]> (x, w)",
               {"conv2d fp32 batch=n in_channels=3 height=10 width=11 out_channels=8 kernel_h=3 kernel_w=3 stride_h=2 "
                "stride_w=2 pad_h=1 pad_w=1 extra_pad_h=-1"}},
        OpCase{"SamePadsOfSymbolicSizes",
               "float[1,3,10,s] x, float[8,3,1,3] w",
               "t = Conv <auto_pad = \"SAME_UPPER\"> (x, w) y = Relu (t)",
               {"conv2d fp32 batch=1 in_channels=3 height=10 width=s out_channels=8 kernel_h=1 kernel_w=3 pad_w=1",
                "vector fp32 relu rows=80 cols=s"}},
        OpCase{"DepthwiseAndDilated",
               "float[n,8,16,16] x, float[8,1,3,3] w",
               "t = Conv <group = 8, dilations = [2,2]> (x, w) y = Relu (t)",
               {"conv2d fp32 batch=n in_channels=8 height=16 width=16 out_channels=8 kernel_h=3 kernel_w=3 groups=8 "
                "dilation_h=2 dilation_w=2",
                "vector fp32 relu rows=96*n cols=12"}},
        OpCase{
            "OneAxis",
            "float[n,80,3000] x, float[384,80,3] w",
            "t = Conv <strides = [2], pads = [1,1]> (x, w) y = Relu (t)",
            {"conv2d fp32 batch=n in_channels=80 height=1 width=3000 out_channels=384 kernel_h=1 kernel_w=3 stride_w=2 "
             "pad_w=1",
             "vector fp32 relu rows=384*n cols=1500"}},
        OpCase{"ThreeAxes",
               "float[n,3,8,16,16] x, float[4,3,3,3,3] w",
               "t = Conv <pads = [1,1,1,1,1,1]> (x, w) y = Relu (t)",
               {"custom fp32 conv3d flops=1327104*n bytes=57344*n + 1296", "vector fp32 relu rows=512*n cols=16"}},
        OpCase{"Transposed",
               "float[n,16,7,9] x, float[16,4,3,3] w",
               "t = ConvTranspose <strides = [2,2], pads = [1,1,1,1], output_padding = [1,1], group = 2> (x, w) y = "
               "Relu (t)",
               {"conv2d fp32 batch=n in_channels=8 height=14 width=18 out_channels=16 kernel_h=3 kernel_w=3 stride_h=2 "
                "stride_w=2 pad_h=1 pad_w=1 groups=2",
                "vector fp32 relu rows=112*n cols=18"}},
        OpCase{"TransposedToAShape",
               "float[n,16,7] x, float[16,4,4] w",
               "t = ConvTranspose <strides = [2], output_shape = [14]> (x, w) y = Relu (t)",
               {"conv2d fp32 batch=n in_channels=4 height=1 width=14 out_channels=16 kernel_h=1 kernel_w=4 stride_w=2 "
                "pad_w=1",
                "vector fp32 relu rows=4*n cols=14"}},
        OpCase{"TransposedThreeAxes",
               "float[n,4,2,3,3] x, float[4,2,2,2,2] w",
               "t = ConvTranspose <strides = [2,2,2]> (x, w) y = Relu (t)",
               {"custom fp32 conv_transpose3d flops=2304*n bytes=1440*n + 256", "vector fp32 relu rows=48*n cols=6"}},
        OpCase{"QLinearConv",
               "uint8[n,3,8,8] x, float ws, uint8 wz, int8[4,3,3,3] w, float ws2, int8 wz2, float ws3, "
               "uint8 wz3",
               "t = QLinearConv (x, ws, wz, w, ws2, wz2, ws3, wz3) y = MaxPool <kernel_shape = [2,2], strides = [2,2]> "
               "(t)",
               {"conv2d int8 batch=n in_channels=3 height=8 width=8 out_channels=4 kernel_h=3 kernel_w=3",
                "vector int8 pool rows=12*n cols=3 operands=4"}},
        OpCase{"ConvInteger",
               "uint8[n,3,8,8] x, uint8[4,3,3,3] w",
               "t = ConvInteger (x, w) y = Neg (t)",
               {"conv2d int8 batch=n in_channels=3 height=8 width=8 out_channels=4 kernel_h=3 kernel_w=3",
                "vector fp32 neg rows=24*n cols=6"}}),
    CaseName);

}  // namespace
}  // namespace gpueta::onnx_import
