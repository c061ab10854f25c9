#!/usr/bin/env python3
"""Writes eager_kernels.csv: what PyTorch's eager mode ran of the models in onnx/, by its dispatcher.

    tests/data/make_eager_kernels.py DIR > tests/data/eager_kernels.csv

DIR has the kernel lists (THIRD_PARTY.md): torchvision at batch 12, timm at batch 4.
"""

import csv
import gzip
import sys
from collections import Counter
from pathlib import Path

CONV = ("N", "C", "H", "W", "K", "R", "S", "stride", "stride", "pad", "pad", "groups")


def kernels_of(row):
    if row["class"] in ("c1", "c3", "cbig", "dw", "grp"):
        yield "conv2d " + " ".join(row[column] for column in CONV)
    elif row["class"] in ("lin", "bmm"):
        yield f"gemm {row['b'] or 1} {row['m']} {row['n']} {row['k']}"
    elif row["class"] == "attn":  # written out: scores, then values
        yield f"gemm {row['b']} {row['m']} {row['n']} {row['k']}"
        yield f"gemm {row['b']} {row['m']} {row['k']} {row['n']}"
    elif row["class"] == "bn":
        yield f"batchnorm {row['elem_out']}"


def main(folder):
    wanted = {path.name.split(".")[0] for path in (Path(__file__).parent / "onnx").glob("*.onnx")}
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(("model", "batch", "kernel", "count"))
    lists = ((open(folder / "torchvision_inference_b12_fp32.csv", newline=""), "", 12),
             (gzip.open(folder / "timm_inference_b4_amp.csv.gz", "rt", newline=""), "timm_", 4))
    for file, prefix, batch in lists:
        models = {}
        for row in csv.DictReader(file):
            name = prefix + row["model"]
            if name in wanted and row["class"] != "err":
                models.setdefault(name, Counter()).update(kernels_of(row))
        for name, kernels in sorted(models.items()):
            for kernel, count in sorted(kernels.items()):
                out.writerow((name, batch, kernel, count))


main(Path(sys.argv[1]))
