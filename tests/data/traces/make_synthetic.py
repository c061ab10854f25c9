#!/usr/bin/env python3
"""Makes the synthetic traces of this folder: what PyTorch's profiler and Nsight
Systems write for two steps of a small layer on a GPU. Invented times; nothing
here was measured.

  tests/data/traces/make_synthetic.py
"""
import json
import pathlib
import sqlite3

FOLDER = pathlib.Path(__file__).parent
DEVICE = "NVIDIA A100-SXM4-80GB"
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&)::{lambda()#1}, std::array<char*, 2ul> >(int, float)"
SPLIT_K = "void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasLt::cublasSplitKParams<float>, float const*)"
CUSTOM = "triton_poi_fused_mine_0"
SHAPES = {  # tensors of each operator: dims and type
    "aten::linear": ([[64, 1024], [4096, 1024], [4096]], "c10::BFloat16"),
    "aten::addmm": ([[4096], [64, 1024], [1024, 4096]], "c10::BFloat16"),
    "aten::relu": ([[64, 4096]], "c10::BFloat16"),
    "aten::mm": ([[64, 4096], [4096, 16]], "c10::BFloat16"),
}


def step(start, number):
    """Host calls (name, start, duration) and kernels (name, launch, start, duration, grid, block)."""
    calls = [("aten::linear", start, 30), ("aten::addmm", start + 2, 26), ("aten::relu", start + 40, 10),
             ("aten::mm", start + 60, 20), ("mine::fused", start + 90, 10)]
    kernels = [(GEMM, start + 10, start + 20, 50.0 + number, (32, 1, 1), 256),
               (RELU, start + 45, start + 80, 4.0, (64, 1, 1), 128),
               (GEMM, start + 65, start + 90, 20.0, (1, 1, 4), 256),
               (SPLIT_K, start + 70, start + 110, 3.0, (1, 1, 1), 512),
               (CUSTOM, start + 95, start + 120, 6.0, (8, 1, 1), 128)]
    return calls, kernels


def arguments(name):
    dims, kind = SHAPES.get(name, ([], ""))
    return {"Input Dims": dims, "Input type": [kind] * len(dims), "Concrete Inputs": [""] * len(dims)}


def write_kineto(path):
    events = []
    external = 0
    for number in range(2):
        start = 1000.0 + 500 * number
        calls, kernels = step(start, number)
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1,
                       "ts": start - 5, "dur": 300})
        for name, at, duration in calls:
            external += 1
            events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": duration,
                           "args": {"External id": external, **arguments(name)}})
        for i, (name, launch, at, duration, grid, block) in enumerate(kernels):
            correlation = 100 * (number + 1) + i
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                           "ts": launch, "dur": 5, "args": {"correlation": correlation}})
            events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at, "dur": duration,
                           "args": {"device": 0, "stream": 7, "correlation": correlation, "grid": list(grid),
                                    "block": [block, 1, 1]}})
        events.append({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "pid": 0, "tid": 7,
                       "ts": start + 200, "dur": 2, "args": {"device": 0, "stream": 7, "bytes": 2048}})
    trace = {"schemaVersion": 1, "synthetic": "made by make_synthetic.py",
             "deviceProperties": [{"id": 0, "name": DEVICE, "totalGlobalMem": 85094170624, "numSms": 108}],
             "traceEvents": events}
    path.write_text(json.dumps(trace, indent=0) + "\n")


def write_nsight(path):
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    strings = {}

    def string(text):
        if text not in strings:
            strings[text] = len(strings) + 1
            db.execute("INSERT INTO StringIds VALUES (?, ?)", (strings[text], text))
        return strings[text]

    db.executescript("""
        CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT);
        CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, demangledName INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, bytes INTEGER);
    """)
    db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?)", (DEVICE,))
    nanoseconds = 1000
    for number in range(2):
        start = 1000 + 500 * number
        calls, kernels = step(start, number)
        for name, at, duration in calls:
            sizes = SHAPES.get(name, ([], ""))[0]
            text = f"{name}, op_id = {at}, sizes = {json.dumps(sizes)}"
            db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, NULL, 42)",
                       (at * nanoseconds, (at + duration) * nanoseconds, text))
        for i, (name, launch, at, duration, grid, block) in enumerate(kernels):
            correlation = 100 * (number + 1) + i
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 42, ?, ?)",
                       (launch * nanoseconds, (launch + 5) * nanoseconds, correlation, string("cudaLaunchKernel")))
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, ?, ?, ?, ?)",
                       (at * nanoseconds, int((at + duration) * nanoseconds), correlation, *grid, block, string(name)))
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 0, 7, 0, 2048)",
                   ((start + 200) * nanoseconds, (start + 202) * nanoseconds))
    db.commit()
    db.execute("VACUUM")
    db.close()


write_kineto(FOLDER / "synthetic_cuda.pt.trace.json")
write_nsight(FOLDER / "synthetic_nsight.sqlite")
