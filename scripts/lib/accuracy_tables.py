"""The tables of public measurements that scripts/accuracy looks at, and the figures to reach."""

# name, file, device, op, what its rows have, and the figures to reach: MAPE in
# percent by budget. `bar` is the budget whose figure must be reached.


def table(name, file, device, op, bar, figures, **rows):
    return {"name": name, "file": file, "device": device, "op": op, "bar": bar, "figures": figures, "rows": rows}


NEUSIGHT = {"source": "neusight-train"}
TABLES = [
    table("GEMM bf16 h100", "gemm.csv", "h100-sxm", "gemm", 500, {100: 6.7, 250: 5.6, 500: 4.9}, dtype="bf16"),
    table("GEMM bf16 l40s", "gemm.csv", "l40s", "gemm", 500, {100: 12.5, 250: 11.1, 500: 9.5}, dtype="bf16"),
    table("GEMM bf16 a100", "gemm.csv", "a100-sxm4-80gb", "gemm", 500, {100: 8.2, 250: 7.1, 500: 5.9}, dtype="bf16"),
    table("GEMM fp8 h100", "gemm_fp8.csv", "h100-sxm", "gemm", 500, {100: 9.5, 250: 7.0, 500: 5.7}),
    table("GEMM fp8 l40s", "gemm_fp8.csv", "l40s", "gemm", 500, {100: 14.3, 250: 11.1, 500: 8.9}),
    table("GEMM fp16 a100-80gb", "gemm.csv", "a100-80gb", "gemm", 500, {100: 5.5, 250: 4.8, 500: 4.6}, source="vidur"),
    table("GEMM fp32 v100", "gemm.csv", "v100-pcie-32gb", "gemm", 500, {100: 9.0, 500: 7.2}, **NEUSIGHT),
    table("GEMM fp32 t4", "gemm.csv", "t4", "gemm", 500, {100: 14.1, 500: 11.8}, **NEUSIGHT),
    table("GEMM fp32 p100", "gemm.csv", "p100-pcie-16gb", "gemm", 500, {100: 11.2, 500: 7.0}, **NEUSIGHT),
    table("GEMM fp32 a100-40gb", "gemm.csv", "a100-pcie-40gb", "gemm", 500, {100: 11.0, 500: 6.2}, **NEUSIGHT),
    table("prefill h100", "attention.csv", "h100-sxm", "attention", 500, {100: 8.0, 250: 5.9, 500: 5.0}, phase="prefill"),
    table("prefill l40s", "attention.csv", "l40s", "attention", 500, {100: 9.9, 250: 6.2, 500: 5.0}, phase="prefill"),
    table("prefill a100", "attention.csv", "a100-sxm4-80gb", "attention", 500, {100: 5.5, 250: 3.2, 500: 2.6},
          phase="prefill"),
    table("decode h100", "attention.csv", "h100-sxm", "attention", 500, {100: 8.0, 250: 4.5, 500: 3.3}, phase="decode"),
    table("decode l40s", "attention.csv", "l40s", "attention", 500, {100: 10.9, 250: 7.6, 500: 5.4}, phase="decode"),
    table("decode a100", "attention.csv", "a100-sxm4-80gb", "attention", 500, {100: 9.2, 250: 4.3, 500: 3.4},
          phase="decode"),
    table("MoE h100", "moe.csv", "h100-sxm", "moe", 500, {100: 10.6, 250: 7.8, 500: 6.2}),
    table("MoE l40s", "moe.csv", "l40s", "moe", 500, {100: 16.9, 250: 12.0, 500: 8.4}),
    table("MoE a100", "moe.csv", "a100-sxm4-80gb", "moe", 500, {100: 12.6, 250: 8.7, 500: 7.7}),
    table("vector a100-80gb", "vector.csv", "a100-80gb", "vector", 500, {100: 5.1, 250: 4.4, 500: 3.7}, source="vidur"),
    table("vector v100", "vector.csv", "v100-pcie-32gb", "vector", 500, {100: 2.2, 250: 1.2, 500: 0.9}, **NEUSIGHT),
    table("vector a100-40gb", "vector.csv", "a100-pcie-40gb", "vector", 500, {100: 4.0, 250: 2.4, 500: 1.9}, **NEUSIGHT),
    table("conv2d v100", "conv2d.csv", "v100-pcie-32gb", "conv2d", 500, {100: 17.5, 250: 16.2, 500: 14.5}, **NEUSIGHT),
    table("conv2d a100-80gb", "conv2d.csv", "a100-pcie-80gb", "conv2d", 500, {100: 24.5, 250: 20.2, 500: 18.0},
          **NEUSIGHT),
    table("NCCL h100", "collective.csv", "h100-sxm", "collective", 250, {100: 5.8, 250: 4.0}, backend="nccl-tests"),
    table("NCCL a100", "collective.csv", "a100-sxm4-80gb", "collective", 250, {100: 6.2, 250: 2.6}, backend="nccl-tests"),
    table("NCCL l40s", "collective.csv", "l40s", "collective", 250, {100: 10.2, 250: 6.0}, backend="nccl-tests"),
]

# Workloads: points on the lines of a model zoo, on top of so many general
# points, and the mean error to reach over the other rows of those lines.
WORKLOADS = [
    {"table": "GEMM bf16 h100", "general": 500, "budget": 100, "figure": 4.9},
    {"table": "GEMM bf16 l40s", "general": 500, "budget": 100, "figure": 8.2},
    {"table": "GEMM bf16 a100", "general": 500, "budget": 100, "figure": 5.8},
    {"table": "GEMM bf16 h100", "general": 0, "budget": 250, "figure": 4.6},
    {"table": "GEMM bf16 l40s", "general": 0, "budget": 250, "figure": 6.5},
    {"table": "decode h100", "general": 0, "budget": 250, "figure": 2.8},
]
WORKLOAD_LINES = "8"  # lines a draw, of those in the file

# Tables whose rows name kernel and grid.
KERNEL_KNOWN = ("GEMM fp32 v100", "GEMM fp32 t4", "GEMM fp32 p100", "GEMM fp32 a100-40gb", "conv2d v100",
                "conv2d a100-80gb")

# What is known of a kernel only after it ran. The kernel of an attention is the
# library that was asked to run it: known before.
LAUNCH = ("kernel", "grid_x", "grid_y", "grid_z", "block_x")
OUTCOME = ("kernels", "latency_us")


# Devices left out of the transfer profile: the table its pool is of, the rows
# asked for, and mean errors over devices to reach with 0, 10 and 50 shots.
def unseen(name, file, figures, pool, asked=None):
    return {"name": name, "file": file, "figures": dict(zip(("0", "10", "50"), figures)), "pool": pool,
            "asked": asked or {}}


EAGER = {"timing": "eager", "dtype": "fp32"}
TEST = {"source": "neusight-test"}
UNSEEN = [
    unseen("fp32 linear", "gemm.csv", (16.6, 12.6, 11.2), EAGER, {**TEST, "layer": "linear"}),
    unseen("fp32 bmm", "gemm.csv", (18.2, 17.8, 17.2), EAGER, {**TEST, "layer": "bmm"}),
    unseen("fp32 vector", "vector.csv", (14.9, 8.0, 8.0), EAGER, TEST),
    unseen("fp32 conv2d", "conv2d.csv", (23.9, 20.4, 18.4), EAGER),
    unseen("bf16 GEMM", "gemm.csv", (28, 17, 12.6), {"dtype": "bf16"}),
    unseen("bf16 prefill", "attention.csv", (44, 18.6, 12.5), {"phase": "prefill"}),
    unseen("bf16 decode", "attention.csv", (33.8, 26, 19.6), {"phase": "decode"}),
]
