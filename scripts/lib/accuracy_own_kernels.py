"""Kernels of other people by their manifests: FlashAttention as vLLM runs it, of the public attention rows.

Each library and head size is a kernel of its own. Its manifest is written as scripts/kernel_manifest writes those of
FlashAttention-2, with blocks of 128 queries: what the library really chose is not told. `gpueta kernels rows` makes rows
of the shapes; some of them, chosen at random, are given with their latency, all others are asked for.
"""

import csv
import random
import tempfile
from pathlib import Path

from accuracy_run import summarise
from kernel_manifests import Manifest, computes

DEVICES = ("a100-sxm4-80gb", "l40s", "h100-sxm")
POINTS = (60, 300)   # of a kernel
MOST_ASKED = 1000    # of a kernel
FORMS = ("", "family", "kernel-aware")  # the default first
BLOCK = 128
SHAPE = ("batch", "heads", "kv_heads", "length")


def manifest_of(library, head_dim):
    return Manifest(f"{library}_d{head_dim}", "bf16", {name: (1, 1 << 20, 1) for name in SHAPE}, {},
                    [f"ceildiv(length, {BLOCK})", "batch", "heads"], [str(BLOCK)],
                    computes=computes("bf16", f"attention {{ phase: PHASE_PREFILL head_dim: {head_dim} causal: true }}",
                                      batch="batch", query_len="length", kv_len="length", heads="heads",
                                      kv_heads="kv_heads"))


def kernels_of(data, device):
    """{(library, head_dim): [(shape, latency_us)]}, one row a shape, in random order."""
    found = {}
    with open(Path(data) / "attention.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["device"] != device or row["phase"] != "prefill" or row["query_len"] != row["kv_len"]:
                continue
            shape = (row["batch"], row["heads"], row["kv_heads"], row["query_len"])
            found.setdefault((row["kernel"], row["head_dim"]), {}).setdefault(shape, row["latency_us"])
    shapes = {kernel: sorted(rows.items()) for kernel, rows in found.items()}
    for rows in shapes.values():
        random.Random(0).shuffle(rows)
    return shapes


def rows_csv(tool, folder, device, manifest, name, rows):
    shapes, out = folder / f"{name}.shapes.csv", folder / f"{name}.csv"
    with open(shapes, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [(*SHAPE, "latency_us"), *((*shape, latency) for shape, latency in rows)])
    tool("kernels", "rows", manifest, shapes, "--device", device, "--timing", "graph", "--out", out)
    return out


def one_device(tool, data, device, points):
    """Errors over all kernels of the device, by form; None where none has so many rows."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        given, asked = [], []
        for (library, head_dim), rows in kernels_of(data, device).items():
            if len(rows) < 2 * points:
                continue
            manifest = manifest_of(library, head_dim)
            path = folder / f"{manifest.name}.manifest"
            path.write_text(manifest.text())
            given.append(rows_csv(tool, folder, device, path, f"{manifest.name}_given", rows[:points]))
            rest = rows[points:points + MOST_ASKED]
            asked.append((rows_csv(tool, folder, device, path, f"{manifest.name}_asked", rest), rest))
        if not given:
            return None
        profile = folder / "own.profile"
        tool("fit", "--device", device, "--base", "none", *(part for path in given for part in ("--measurements", path)), "--out", profile)
        return {"kernels": len(given), **{form or "default": errors(tool, folder, profile, asked, form)
                                          for form in FORMS}}


def errors(tool, folder, profile, asked, form):
    pairs = []
    for path, rows in asked:
        out = folder / "predicted.csv"
        tool("predict", "--kernels", path, "--profile", profile, "--out", out,
             *(["--estimator", form] if form else []))
        with open(out, newline="") as file:
            for answer, (_, latency) in zip(csv.DictReader(file), rows, strict=True):
                if answer["provenance"] != "measured":  # shapes of equal counts and grid
                    pairs.append((float(answer["p50_us"]), float(answer["p90_us"]), float(answer["p99_us"]),
                                  float(latency)))
    return summarise(pairs)


def run(tool, data, say):
    results = []
    for points in POINTS:
        for device in DEVICES:
            found = one_device(tool, data, device, points)
            if found is None:
                continue
            results.append({"device": device, "points": points, **found})
            say(f"{device}, {points} points a kernel: {100 * found['default']['mape']:.2f} %")
    return results


def markdown(results):
    lines = ["| device | kernels | points a kernel | counts alone (family) | configuration (kernel-aware) | default | median | "
             "p90 of APE | ≤ p90 |", "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for r in results:
        default = r["default"]
        lines.append(f"| {r['device']} | {r['kernels']} | {r['points']} | {100 * r['family']['mape']:.1f} | "
                     f"{100 * r['kernel-aware']['mape']:.1f} | {100 * default['mape']:.1f} | "
                     f"{100 * default['median']:.1f} | {100 * default['ape_p90']:.1f} | "
                     f"{100 * default['below_p90']:.1f} |")
    return lines
