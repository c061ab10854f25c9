#!/usr/bin/env python3
"""Makes the small ONNX models of this folder and truth.csv beside them: models
that the exported ones in ../onnx lack (all opsets, functions, control flow,
quantisation, data stored in other ways).

Truth: the elements of the output at batch 2, by running the model in
onnx.reference (by onnx.shape_inference where that lacks an operator), and
multiply-adds at batch 2 by the formula that stands beside each model.

  pip install onnx==1.23.2 && tests/data/onnx_made/make_models.py
"""
import csv
import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

FOLDER = pathlib.Path(__file__).parent
BATCH = 2
FLOAT, INT64, BOOL = T.FLOAT, T.INT64, T.BOOL
models = []


def tensor(name, *dims, dtype=np.float32):
    generator = np.random.default_rng(len(name))
    values = generator.integers(1, 3, size=dims) if np.issubdtype(dtype, np.integer) else generator.normal(size=dims)
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def ints(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def scalar(name, value, dtype=np.float32):
    return numpy_helper.from_array(np.array(value, dtype), name)


def info(name, kind, shape):
    return h.make_tensor_value_info(name, kind, shape)


def node(text, output, *inputs, name="", **attributes):
    """`text` is the operator, with its domain before a colon."""
    domain, _, op = text.rpartition(":")
    outputs = output if isinstance(output, list) else [output]
    return h.make_node(op, list(inputs), outputs, name=name or outputs[0], domain=domain, **attributes)


def make(name, opset, inputs, nodes, initialisers=(), macs=0, functions=(), output="y", kind=FLOAT, feeds=None,
         finish=None):
    graph = h.make_graph(nodes, name, [info(n, k, s) for n, k, s in inputs], [h.make_empty_tensor_value_info(output)],
                         list(initialisers))
    graph.output[0].type.tensor_type.elem_type = kind
    imports = [h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in {f.domain for f in functions}]
    if any(n.domain == "com.microsoft" for n in nodes):
        imports.append(h.make_opsetid("com.microsoft", 1))
    model = h.make_model(graph, opset_imports=imports, functions=list(functions))
    model.ir_version = 8
    models.append((name, model, inputs, macs, feeds or {}, finish))


# -- all opsets ---------------------------------------------------------------
def vision(opset):
    w = [tensor("w", 8, 3, 3, 3), tensor("bias", 8), tensor("scale", 8), tensor("shift", 8), tensor("mean", 8),
         tensor("var", 8), tensor("fc", 10, 8)]
    nodes = [node("Conv", "c", "x", "w", "bias", pads=[1, 1, 1, 1], strides=[2, 2]),
             node("BatchNormalization", "n", "c", "scale", "shift", "mean", "var"),
             node("Clip", "r", "n", "zero", "six"),
             node("MaxPool", "p", "r", kernel_shape=[2, 2], strides=[2, 2]),
             node("GlobalAveragePool", "g", "p"), node("Flatten", "f", "g"),
             node("Gemm", "z", "f", "fc", transB=1)]
    w += [scalar("zero", 0.0), scalar("six", 6.0)]
    if opset >= 13:
        w.append(ints("axes", [0]))
        nodes += [node("Unsqueeze", "u", "z", "axes"), node("Squeeze", "y", "u", "axes")]
    else:
        nodes += [node("Unsqueeze", "u", "z", axes=[0]), node("Squeeze", "y", "u", axes=[0])]
    make(f"vision_op{opset}", opset, [("x", FLOAT, ["batch", 3, 16, 16])], nodes, w,
         BATCH * (8 * 8 * 8 * 27 + 80))


def shapes(opset):
    """Heads split by sizes that are computed from the input's shape."""
    w = [tensor("wq", 16, 48), ints("i0", 0), ints("i1", 1), ints("heads", [4]), ints("size", [4]),
         ints("minus", [-1]), scalar("eps", 0.5)]
    nodes = [node("MatMul", "qkv", "x", "wq")]
    if opset >= 13:
        w.append(ints("sizes", [16, 16, 16]))
        nodes.append(node("Split", ["q", "k", "v"], "qkv", "sizes", axis=2) if opset < 18 else
                     node("Split", ["q", "k", "v"], "qkv", axis=2, num_outputs=3))
    else:
        nodes.append(node("Split", ["q", "k", "v"], "qkv", axis=2, split=[16, 16, 16]))
    nodes += [node("Shape", "s", "x"), node("Gather", "b0", "s", "i0"), node("Gather", "l0", "s", "i1")]
    if opset >= 13:
        w.append(ints("a0", [0]))
        nodes += [node("Unsqueeze", "b", "b0", "a0"), node("Unsqueeze", "l", "l0", "a0")]
    else:
        nodes += [node("Unsqueeze", "b", "b0", axes=[0]), node("Unsqueeze", "l", "l0", axes=[0])]
    nodes.append(node("Concat", "split", "b", "l", "heads", "size", axis=0))
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [node("Reshape", name + "r", name, "split"), node("Transpose", name + "t", name + "r", perm=order)]
    nodes += [node("MatMul", "qk", "qt", "kt"), node("Softmax", "p", "qk", axis=-1 if opset >= 13 else 3),
              node("MatMul", "pv", "p", "vt"), node("Transpose", "o", "pv", perm=[0, 2, 1, 3]),
              node("Concat", "merged", "b", "l", "minus", axis=0), node("Reshape", "m", "o", "merged")]
    if opset >= 18:
        w.append(ints("last", [2]))
        nodes.append(node("ReduceMean", "mean", "m", "last"))
    else:
        nodes.append(node("ReduceMean", "mean", "m", axes=[2]))
    nodes += [node("Sub", "d", "m", "mean"), node("Mul", "y", "d", "eps")]
    make(f"shapes_op{opset}", opset, [("x", FLOAT, ["batch", 6, 16])], nodes, w,
         BATCH * (6 * 16 * 48 + 2 * 4 * 6 * 6 * 4))


def indexing(opset):
    w = [ints("starts", [1]), ints("ends", [-1]), ints("ax", [1]), ints("pads", [0, 0, 1, 1, 0, 0, 2, 0]),
         ints("k", [3]), scalar("scales0", [1.0, 1.0, 2.0, 2.0]), scalar("roi", [])]
    nodes = [node("Slice", "s", "x", "starts", "ends", "ax"), node("Pad", "p", "s", "pads"),
             node("Resize", "r", "p", "roi", "scales0", mode="nearest"),
             node("TopK", ["t", "i"], "r", "k", axis=3), node("Relu", "y", "t")]
    make(f"indexing_op{opset}", opset, [("x", FLOAT, ["batch", 5, 6, 7])], nodes, w)


for opset in range(11, 22):
    vision(opset)
    shapes(opset)
    indexing(opset)

# -- shape arithmetic ---------------------------------------------------------
make("range_expand_where", 17, [("ids", INT64, ["batch", 6])],
     [node("Shape", "s", "ids"), node("Gather", "l", "s", "i1"), node("Range", "r", "zero", "l", "one"),
      node("Unsqueeze", "row", "r", "a0"), node("Expand", "e", "row", "s"), node("Less", "m", "e", "ids"),
      node("ConstantOfShape", "c", "s", value=numpy_helper.from_array(np.array([7], np.int64))),
      node("Where", "w", "m", "e", "c"), node("Cast", "y", "w", to=FLOAT)],
     [ints("i1", 1), ints("zero", 0), ints("one", 1), ints("a0", [0])])
make("mask_by_equal", 17, [("x", FLOAT, ["batch", 3, 4])],
     [node("Shape", "s", "x"), node("ConstantOfShape", "ones", "n3", value=numpy_helper.from_array(np.array([1], np.int64))),
      node("Mul", "minus", "ones", "m1"), node("Equal", "eq", "target", "minus"),
      node("Where", "t", "eq", "s", "target"), node("Expand", "e", "x", "t"), node("Neg", "y", "e")],
     [ints("n3", [3]), ints("m1", -1), ints("target", [-1, 3, -1])])
make("slices_of_shapes", 16, [("x", FLOAT, ["batch", 4, 8, 8])],
     [node("Shape", "s", "x"), node("Slice", "hw", "s", "two", "four", "zero"), node("ReduceProd", "n", "hw", keepdims=1),
      node("Slice", "bc", "s", "zero", "two", "zero"), node("Concat", "t", "bc", "n", axis=0),
      node("Reshape", "r", "x", "t"), node("Transpose", "y", "r", perm=[0, 2, 1])],
     [ints("zero", [0]), ints("two", [2]), ints("four", [4])])
make("shape_with_bounds", 15, [("x", FLOAT, ["batch", 4, 8])],
     [node("Shape", "b", "x", start=0, end=1), node("Concat", "t", "b", "m", axis=0), node("Reshape", "y", "x", "t")],
     [ints("m", [32])])

# -- operators ----------------------------------------------------------------
make("einsum", 17, [("x", FLOAT, ["batch", 5, 6]), ("z", FLOAT, ["batch", 7, 6])],
     [node("Einsum", "e", "x", "z", equation="bik,bjk->bij"), node("Neg", "y", "e")], macs=BATCH * 5 * 7 * 6)
make("conv_transpose", 17, [("x", FLOAT, ["batch", 4, 5, 5])],
     [node("ConvTranspose", "c", "x", "w", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]), node("Neg", "y", "c")],
     [tensor("w", 4, 6, 3, 3)], macs=BATCH * 4 * 6 * 9 * 25)
make("conv1d_grouped", 13, [("x", FLOAT, ["batch", 4, 20])],
     [node("Conv", "c", "x", "w", group=2, dilations=[2]), node("Neg", "y", "c")],
     [tensor("w", 6, 2, 3)], macs=BATCH * 6 * 16 * 2 * 3)
make("conv3d", 13, [("x", FLOAT, ["batch", 2, 4, 4, 4])],
     [node("Conv", "c", "x", "w", pads=[1] * 6), node("Neg", "y", "c")],
     [tensor("w", 3, 2, 3, 3, 3)], macs=BATCH * 3 * 64 * 2 * 27)
make("resize_sizes", 19, [("x", FLOAT, ["batch", 2, 4, 4])],
     [node("Resize", "r", "x", "", "", "sizes", axes=[2, 3], mode="linear"), node("Neg", "y", "r")],
     [ints("sizes", [7, 9])])
make("lstm", 14, [("x", FLOAT, [5, "batch", 6])],
     [node("LSTM", ["a", "h", "c"], "x", "w", "r", hidden_size=4, direction="bidirectional"), node("Neg", "y", "a")],
     [tensor("w", 2, 16, 6), tensor("r", 2, 16, 4)], macs=2 * 5 * BATCH * 16 * (6 + 4))
make("gru", 14, [("x", FLOAT, [5, "batch", 6])],
     [node("GRU", ["a", "h"], "x", "w", "r", hidden_size=4), node("Neg", "y", "h")],
     [tensor("w", 1, 12, 6), tensor("r", 1, 12, 4)], macs=5 * BATCH * 12 * (6 + 4))
make("rnn", 14, [("x", FLOAT, [5, "batch", 6])],
     [node("RNN", ["a", "h"], "x", "w", "r", hidden_size=4), node("Neg", "y", "a")],
     [tensor("w", 1, 4, 6), tensor("r", 1, 4, 4)], macs=5 * BATCH * 4 * (6 + 4))
make("layer_norm", 17, [("x", FLOAT, ["batch", 5, 8])],
     [node("LayerNormalization", "n", "x", "g", "b", axis=-1), node("Neg", "y", "n")], [tensor("g", 8), tensor("b", 8)])
make("group_norm", 21, [("x", FLOAT, ["batch", 4, 8])],
     [node("GroupNormalization", "n", "x", "g", "b", num_groups=2), node("Gelu", "e", "n"), node("Neg", "y", "e")],
     [tensor("g", 4), tensor("b", 4)])
make("scatter_gather", 18, [("x", FLOAT, ["batch", 4])],
     [node("ScatterND", "s", "x", "at", "new"), node("GatherND", "g", "s", "at"), node("GatherElements", "e", "g", "in"),
      node("Neg", "y", "e")],
     [ints("at", [[0], [1]]), tensor("new", 2, 4), ints("in", [[0, 1], [2, 3]])])
make("cumsum_mod_trilu", 14, [("x", FLOAT, ["batch", 4, 4])],
     [node("CumSum", "c", "x", "ax"), node("Mod", "m", "c", "two", fmod=1), node("Trilu", "t", "m"), node("Neg", "y", "t")],
     [ints("ax", 1), scalar("two", 2.0)])
make("depth_to_space", 13, [("x", FLOAT, ["batch", 8, 3, 3])],
     [node("DepthToSpace", "d", "x", blocksize=2), node("HardSigmoid", "s", "d"),
      node("Neg", "y", "s")])

# -- quantised ----------------------------------------------------------------
SCALES = [scalar("s", 0.1), scalar("zu", 128, np.uint8), scalar("zi", 0, np.int8)]
make("qdq", 13, [("x", FLOAT, ["batch", 3, 8, 8])],
     [node("QuantizeLinear", "q", "x", "s", "zu"), node("DequantizeLinear", "d", "q", "s", "zu"),
      node("DequantizeLinear", "dw", "w", "s", "zi"), node("Conv", "c", "d", "dw"), node("Relu", "r", "c"),
      node("QuantizeLinear", "q2", "r", "s", "zu"), node("DequantizeLinear", "y", "q2", "s", "zu")],
     SCALES + [tensor("w", 4, 3, 3, 3, dtype=np.int8)], macs=BATCH * 4 * 36 * 27)
make("qdq_per_channel", 21, [("x", FLOAT, ["batch", 16])],
     [node("DequantizeLinear", "dw", "w", "sc", "zc", axis=1), node("MatMul", "m", "x", "dw"), node("Neg", "y", "m")],
     [tensor("w", 16, 8, dtype=np.int8), tensor("sc", 8), tensor("zc", 8, dtype=np.int8)], macs=BATCH * 128)
make("qlinear_conv", 13, [("x", FLOAT, ["batch", 3, 8, 8])],
     [node("QuantizeLinear", "q", "x", "s", "zu"),
      node("QLinearConv", "c", "q", "s", "zu", "w", "s", "zi", "s", "zu"), node("DequantizeLinear", "y", "c", "s", "zu")],
     SCALES + [tensor("w", 4, 3, 3, 3, dtype=np.int8)], macs=BATCH * 4 * 36 * 27)
make("qlinear_matmul", 13, [("x", FLOAT, ["batch", 16])],
     [node("QuantizeLinear", "q", "x", "s", "zu"),
      node("QLinearMatMul", "c", "q", "s", "zu", "w", "s", "zi", "s", "zu"), node("DequantizeLinear", "y", "c", "s", "zu")],
     SCALES + [tensor("w", 16, 8, dtype=np.int8)], macs=BATCH * 128)
make("dynamic_quantisation", 13, [("x", FLOAT, ["batch", 16])],
     [node("DynamicQuantizeLinear", ["q", "qs", "qz"], "x"), node("MatMulInteger", "m", "q", "w", "qz", "zi"),
      node("Cast", "f", "m", to=FLOAT), node("Mul", "y", "f", "qs")],
     SCALES + [tensor("w", 16, 8, dtype=np.int8)], macs=BATCH * 128)
make("conv_integer", 13, [("x", FLOAT, ["batch", 3, 8, 8])],
     [node("DynamicQuantizeLinear", ["q", "qs", "qz"], "x"), node("ConvInteger", "m", "q", "w", "qz"),
      node("Cast", "f", "m", to=FLOAT), node("Mul", "y", "f", "qs")],
     [tensor("w", 4, 3, 3, 3, dtype=np.uint8)], macs=BATCH * 4 * 36 * 27)

# -- functions and control flow -----------------------------------------------
mlp = h.make_function("made", "Mlp", ["a", "w1", "w2"], ["c"],
                      [node("MatMul", "h", "a", "w1"), node("made:Activation", "g", "h"), node("MatMul", "c", "g", "w2")],
                      [h.make_opsetid("", 18), h.make_opsetid("made", 1)])
leaky = node("LeakyRelu", "o", "i")
reference = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
leaky.attribute.append(reference)
activation = h.make_function("made", "Activation", ["i"], ["o"], [leaky], [h.make_opsetid("", 18)],
                             attribute_protos=[h.make_attribute("slope", 0.1)])
make("functions", 18, [("x", FLOAT, ["batch", 8])],
     [node("made:Mlp", "t", "x", "w1", "w2", name="first"), node("made:Mlp", "y", "t", "w1", "w2", name="second")],
     [tensor("w1", 8, 32), tensor("w2", 32, 8)], macs=2 * BATCH * 2 * 8 * 32, functions=[mlp, activation])
axis_function = h.make_function("made", "Total", ["a"], ["c"], [node("ArgMax", "c", "a")], [h.make_opsetid("", 18)], ["axis"])
axis_function.node[0].attribute.append(onnx.AttributeProto(name="axis", type=onnx.AttributeProto.INT, ref_attr_name="axis"))
make("function_attribute", 18, [("x", FLOAT, ["batch", 8, 3])],
     [node("made:Total", "t", "x", axis=1), node("Cast", "y", "t", to=FLOAT)], functions=[axis_function])


def branch(name, *nodes, output):
    return h.make_graph(list(nodes), name, [], [h.make_empty_tensor_value_info(output)])


small = branch("small", node("Relu", "p", "x"), output="p")
large = branch("large", node("MatMul", "r", "x", "w"), node("Exp", "q", "r"), output="q")
make("if_constant", 17, [("x", FLOAT, ["batch", 8])],
     [node("Shape", "s", "x", start=1), node("Equal", "e", "s", "eight"), node("Squeeze", "c", "e"),
      node("If", "i", "c", then_branch=large, else_branch=small), node("Neg", "y", "i")],
     [ints("eight", [8]), tensor("w", 8, 8)], macs=BATCH * 64)
make("if_of_data", 17, [("x", FLOAT, ["batch", 8]), ("c", BOOL, [])],
     [node("If", "i", "c", then_branch=small, else_branch=large), node("Neg", "y", "i")],
     [tensor("w", 8, 8)], macs=BATCH * 64, feeds={"c": np.array(False)})


def body(name, inputs, outputs, *nodes):
    return h.make_graph(list(nodes), name, [h.make_empty_tensor_value_info(i) for i in inputs],
                        [h.make_empty_tensor_value_info(o) for o in outputs])


step = body("step", ["i", "k", "a"], ["k2", "o", "each"], node("Identity", "k2", "k"), node("MatMul", "o", "a", "w"),
            node("Relu", "each", "o"))
make("loop", 17, [("x", FLOAT, ["batch", 8])],
     [node("Loop", ["last", "all"], "m", "t", "x", body=step), node("Neg", "y", "all")],
     [ints("m", 3), numpy_helper.from_array(np.array(True), "t"), tensor("w", 8, 8)], macs=3 * BATCH * 64)
grow = body("grow", ["i", "k", "a"], ["k2", "o"], node("Identity", "k2", "k"), node("Concat", "o", "a", "x", axis=1))
make("loop_grows", 17, [("x", FLOAT, ["batch", 8])],
     [node("Loop", "last", "m", "t", "x", body=grow), node("Neg", "y", "last")],
     [ints("m", 3), numpy_helper.from_array(np.array(True), "t")])
cell = body("cell", ["a", "s"], ["o", "each"], node("MatMul", "p", "a", "w"), node("Add", "o", "p", "s"),
            node("Tanh", "each", "o"))
make("scan", 17, [("h0", FLOAT, ["batch", 4]), ("x", FLOAT, [5, "batch", 4])],
     [node("Scan", ["last", "all"], "h0", "x", body=cell, num_scan_inputs=1), node("Neg", "y", "all")],
     [tensor("w", 4, 4)], macs=5 * BATCH * 16)


# -- how data is stored -------------------------------------------------------
def without_bytes(model):
    for stored in model.graph.initializer:
        if len(stored.dims) > 1:
            stored.ClearField("raw_data")


def external(model):
    for stored in model.graph.initializer:
        if len(stored.dims) > 1:
            stored.ClearField("raw_data")
            stored.data_location = T.EXTERNAL
            entry = stored.external_data.add()
            entry.key, entry.value = "location", "nowhere.bin"


def typed_fields(model):
    for stored in model.graph.initializer:
        values = numpy_helper.to_array(stored)
        stored.ClearField("raw_data")
        field = stored.int64_data if stored.data_type == INT64 else stored.float_data
        field.extend(values.flatten().tolist())


for suffix, finish in (("without_bytes", without_bytes), ("external", external), ("typed_fields", typed_fields)):
    make(f"stored_{suffix}", 17, [("x", FLOAT, ["batch", 6])],
         [node("MatMul", "m", "x", "w"), node("Reshape", "r", "m", "t"), node("Neg", "y", "r")],
         [tensor("w", 6, 12), ints("t", [0, 3, 4])], macs=BATCH * 72, finish=finish)


def elements(model, inputs, feeds):
    concrete = onnx.ModelProto()
    concrete.CopyFrom(model)
    values = dict(feeds)
    for name, kind, shape in inputs:
        shape = [BATCH if dim == "batch" else dim for dim in shape]
        if name not in values:
            dtype = np.int64 if kind == INT64 else np.float32
            values[name] = np.abs(np.random.default_rng(0).normal(size=shape)).astype(dtype) + np.array(0, dtype)
    try:
        return int(ReferenceEvaluator(concrete).run(None, values)[0].size), "reference"
    except Exception as problem:  # an operator that the evaluator lacks
        for value in concrete.graph.input:
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.dim_value = BATCH
        inferred = onnx.shape_inference.infer_shapes(concrete, data_prop=True)
        dims = [dim.dim_value for dim in inferred.graph.output[0].type.tensor_type.shape.dim]
        if not dims or 0 in dims:
            raise RuntimeError(f"{model.graph.name}: {problem}") from problem
        return int(np.prod(dims)), "shape_inference"


rows = []
for name, model, inputs, macs, feeds, finish in models:
    count, by = elements(model, inputs, feeds)
    if finish:
        finish(model)
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    rows.append({"file": f"{name}.onnx", "batch": BATCH, "output_elements": count, "macs": macs, "by": by})
with open(FOLDER / "truth.csv", "w", newline="") as out:
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
print(f"{len(rows)} models, {sum(row['by'] != 'reference' for row in rows)} by shape inference")
