"""Whole models on one core of this machine: predicted after one calibration, then run.

Of several exports of one model (MODEL.EXPORT.onnx) the first is taken. What is disturbed while it runs does not count
and is run again by the next call. The calibration sees kernels of common shapes, and of the models only those it is
told to run in place.
"""

import json
import os
import statistics
import subprocess
import time
from pathlib import Path

from accuracy_vision import spearman

MOST_MEDIAN, LEAST_SPEARMAN = 0.15, 0.98
BATCH, SEQUENCE = 1, 128


def models_in(folder):
    """{model: file}"""
    models = {}
    for path in sorted(Path(folder).glob("*.onnx")):
        models.setdefault(path.name.split(".")[0], path)
    return models


class Core:
    """gpueta on one core, with what was found kept in `folder`."""

    def __init__(self, tool, folder):
        self.tool, self.folder = tool, folder
        self.profile = folder / "cpu.profile"
        self.core = min(os.sched_getaffinity(0))

    def run(self, program, *arguments):
        done = subprocess.run([Path(self.tool.path).with_name(program), *map(str, arguments)], text=True,
                              capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
                              preexec_fn=lambda: os.sched_setaffinity(0, {self.core}))
        if done.returncode:
            raise RuntimeError((done.stderr.strip() or done.stdout.strip()).splitlines()[-1])
        return done.stdout

    def ask(self, *arguments):
        return json.loads(self.run("gpueta", "--json", *arguments))

    def calibrate(self, seconds, shown):
        if self.profile.exists():
            return
        workload = ["--workload", *shown] if shown else []
        self.run("gpueta-calibrate", "--device", "cpu", "--time", f"{seconds}s", "--budget", 600, "--once", "--out",
                 self.profile, *workload)

    def device(self):
        return self.ask("profile", "show", self.profile)["device"]

    def inspect(self, model):
        counts = self.ask("inspect", model)
        dims = ["--batch", BATCH] if "batch" in counts["symbols"] else []
        dims += ["--seq", SEQUENCE] if any(name.startswith("seq") for name in counts["symbols"]) else []
        return counts["flops"], dims

    def compare(self, model, device, dims):
        return self.ask("compare", model, "--device", device, "--on", "cpu", "--profile", self.profile, *dims)


def kept(folder):
    path = folder / "results.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {row["model"]: row for row in lines}


def run(tool, graphs, folder, calibration_s, minutes, shown, log):
    """Rows by model, and the models that the time did not suffice for."""
    folder.mkdir(parents=True, exist_ok=True)
    models = models_in(graphs)
    if not models:
        raise SystemExit(f"accuracy: no ONNX files in {graphs}")
    for name in shown:
        if name not in models:
            raise SystemExit(f"accuracy: --shown {name}: not in {graphs}")
    begin = time.monotonic()
    core = Core(tool, folder)
    core.calibrate(calibration_s, [models[name] for name in shown])
    device = core.device()
    rows = kept(folder)
    todo = []
    for name, path in models.items():
        if name in rows and not rows[name].get("disturbed"):
            continue
        try:
            flops, dims = core.inspect(path)
        except RuntimeError as error:
            rows[name] = {"model": name, "cannot": str(error)}
            continue
        todo.append((flops, name, dims))
    left = []
    for _, name, dims in sorted(todo, key=lambda one: one[:2]):
        if time.monotonic() - begin > 60 * minutes:
            left.append(name)
            continue
        try:
            found = core.compare(models[name], device, dims)
            row = {"model": name, **{k: found[k] for k in ("predicted_us", "measured_us", "disturbed", "slowed")}}
        except RuntimeError as error:
            row = {"model": name, "cannot": str(error)}
        rows[name] = row
        with open(folder / "results.jsonl", "a") as file:
            file.write(json.dumps(row) + "\n")
        log(f"{name}: {row.get('cannot') or format(row['predicted_us'] / row['measured_us'] - 1, '+.1%')}")
    return rows, left + [name for name, row in rows.items() if row.get("disturbed")]


def judged(rows):
    """Of the rows that count: {n, median, mape, spearman}, and whether the bars are met."""
    good = [row for row in rows.values() if "cannot" not in row and not row["disturbed"]]
    if len(good) < 3:
        return {"n": len(good)}, False
    errors = [abs(row["predicted_us"] / row["measured_us"] - 1) for row in good]
    figures = {"n": len(good), "median": statistics.median(errors), "mape": statistics.fmean(errors),
               "spearman": spearman([row["predicted_us"] for row in good], [row["measured_us"] for row in good])}
    return figures, figures["median"] <= MOST_MEDIAN and figures["spearman"] >= LEAST_SPEARMAN


def markdown(rows, left):
    lines = ["| model | predicted | measured | error | |", "|---|--:|--:|--:|---|"]
    for row in sorted((r for r in rows.values() if "cannot" not in r), key=lambda r: r["measured_us"]):
        note = "disturbed" if row["disturbed"] else "slowed" if row["slowed"] else ""
        lines.append(f"| {row['model']} | {row['predicted_us'] / 1e3:.2f} ms | {row['measured_us'] / 1e3:.2f} ms | "
                     f"{row['predicted_us'] / row['measured_us'] - 1:+.1%} | {note} |")
    lines += ["", *(f"{row['model']} cannot run: {row['cannot']}" for row in rows.values() if "cannot" in row)]
    if left:
        lines.append(f"left for the next run: {', '.join(left)}")
    figures, met = judged(rows)
    if "median" in figures:
        lines.append(f"{figures['n']} models: median error {figures['median']:.1%} (bar {MOST_MEDIAN:.0%}), MAPE "
                     f"{figures['mape']:.1%}, Spearman {figures['spearman']:.4f} (bar {LEAST_SPEARMAN}): "
                     f"{'met' if met else 'missed'}")
    else:
        lines.append(f"{figures['n']} models that count are too few")
    return lines
