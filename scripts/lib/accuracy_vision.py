"""Whole vision models on consumer cards: torchvision's published times (model_e2e.csv) of devices left out.

Graphs are made of the kernel lists that PyTorch's dispatcher gave (vision_kernels), so that the cost model is judged
apart from importers; a training step's list has its backward kernels already. For each device a transfer profile is
fitted to the times of the others; it answers alone, then with the times of three models on the device. A device that
was measured in several machines counts once.
"""

import csv
import json
import math
import statistics
import sys
from pathlib import Path

BATCH = 12
IMAGE_BYTES = 3 * 224 * 224 * 4
SHOTS = ("vgg16", "densenet201", "squeezenet1_1")
KINDS = ("inference single", "inference half", "train single", "train half")
# To reach, by kind: MAPE without and with three models, Spearman without.
FIGURES = {"inference single": (17, 6.5, 0.975), "inference half": (19, 9.5, 0.975), "train single": (12.4, 7, 0.97),
           "train half": (18, 11.8, 0.97)}
# Rungs of MICRO'23's ladder that times of whole models allow: two that need nothing of the card, and time against FLOPs,
# fitted to every other model; ours knows the same half.
UNMEASURED, FROM_HALF = ("roofline", "inter-gpu"), ("end-to-end", "default")
SHIPPED = Path(__file__).resolve().parents[2] / "profiles"
CONVOLUTIONS = ("c1", "c3", "cbig", "dw", "grp")
TRAFFIC_OF_CLASS = {"bn": "batchnorm", "norm": "layernorm", "pool": "pool", "cat": "copy", "copy": "copy", "red": "reduce"}


def number(row, column):
    return int(float(row[column])) if row[column] else 0


def padding(row, size, kernel, out):
    """Of one side, by what comes out: lists have one padding where kernels of 1 x 7 have two."""
    stride, dilation = number(row, "stride"), number(row, "dil")
    reach = (number(row, out) - 1) * stride + dilation * (number(row, kernel) - 1) + 1
    return max(0, (reach - number(row, size) + 1) // 2)


def convolution(row, batch):
    return {"batch": batch, "in_channels": number(row, "C"), "height": number(row, "H"), "width": number(row, "W"),
            "out_channels": number(row, "K"), "kernel_h": number(row, "R"), "kernel_w": number(row, "S"),
            "stride_h": number(row, "stride"), "stride_w": number(row, "stride"),
            "pad_h": padding(row, "H", "R", "P"), "pad_w": padding(row, "W", "S", "Q"),
            "groups": number(row, "groups"), "dilation_h": number(row, "dil"), "dilation_w": number(row, "dil")}


def kernel_of(row):
    """A line of a kernel list as gpueta.v1.Kernel, at the batch of the list."""
    of = row["class"].split("_")[0]
    if row["K"] and of in CONVOLUTIONS:
        return {"conv2d": convolution(row, number(row, "N"))}
    if of in ("lin", "bmm"):
        return {"gemm": {"layer": "LAYER_LINEAR" if of == "lin" else "LAYER_BMM", "batch": max(number(row, "b"), 1),
                         "m": number(row, "m"), "n": number(row, "n"), "k": number(row, "k")}}
    return passes_over(number(row, "elem_in") + number(row, "elem_out"), TRAFFIC_OF_CLASS.get(of, "mul"))


def passes_over(elements, op):
    """A vector operator that moves so many elements in all."""
    if op == "reduce":
        return {"vector": {"op": op, "rows": 1, "cols": max(elements - 1, 1)}}
    return {"vector": {"op": op, "rows": 1, "cols": max(elements // 2, 1)}}


def graph_text(name, kernels):
    nodes = [{"kernel": {"name": str(i), "dtype": "DTYPE_FP32", **kernel}, "inputs": [i - 1] if i else []}
             for i, kernel in enumerate(kernels)]
    return json.dumps({"display_name": name, "symbols": [{"name": "batch"}], "nodes": nodes,
                       "input_bytes": str(BATCH * IMAGE_BYTES)})


def write_graphs(data, folder):
    """A graph file for each model and mode; {(model, mode): path}."""
    folder.mkdir(parents=True, exist_ok=True)
    kernels = Path(data) / "vision_kernels"
    with open(kernels / "torchvision_models.csv", newline="") as file:
        size = {row["model"]: (int(row["params"]), int(row["param_tensors"])) for row in csv.DictReader(file)}
    paths = {}
    for mode in ("inference", "train"):
        models = {}
        with open(kernels / f"torchvision_{mode}_b{BATCH}_fp32.csv", newline="") as file:
            for row in csv.DictReader(file):
                if row["class"] != "err":
                    models.setdefault(row["model"], []).append(kernel_of(row))
        for model, some in models.items():
            if mode == "train":  # buffers of gradients are cleared and added into, tensor by tensor
                params, tensors = size[model]
                each = params // tensors
                some = some + tensors * [passes_over(2 * each, "clear_gradient"),
                                         passes_over(3 * each, "accumulate_gradient")]
            paths[model, mode] = folder / f"{model}.{mode}.json"
            paths[model, mode].write_text(graph_text(f"{model}.{mode}", some))
    return paths


def measured(data, graphs):
    """The rows that have a graph, as {(device, run, kind): {model: ms}} and as rows for fit."""
    cells, rows = {}, []
    with open(Path(data) / "model_e2e.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["source"] != "torchvision" or row["dtype"] == "fp64" or (row["model"], row["mode"]) not in graphs:
                continue
            kind = f"{row['mode']} {'half' if row['dtype'] == 'fp16' else 'single'}"
            cells.setdefault((row["device"], row["options"], kind), {})[row["model"]] = row
            rows.append(row)
    return cells, rows


def slow_in_16_bit():
    """Cards that have 16-bit arithmetic for compatibility only: libraries differ in what they run instead."""
    with open(Path(__file__).resolve().parents[2] / "core/device/gpu_specs.csv", newline="") as file:
        return {row["slug"] for row in csv.DictReader(file)
                if row["fp16_vector_tflops"] and float(row["fp16_vector_tflops"]) < float(row["fp32_tflops"] or 0)}


def to_learn_from(rows):
    slow = slow_in_16_bit()
    return [row for row in rows if row["dtype"] != "fp16" or row["device"] not in slow]


def write_rows(path, rows):
    """As model_e2e.csv; a training step is a model of its own, whose graph has the backward kernels."""
    fields = ("device", "source", "model", "mode", "options", "dtype", "batch", "latency_ms")
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fields, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, "model": f"{row['model']}.{row['mode']}", "mode": "inference"})
    return path


def graph_options(graphs, rows):
    return [f"--graph={model}.{mode}={graphs[model, mode]}"
            for model, mode in sorted({(row["model"], row["mode"]) for row in rows})]


def spearman(a, b):
    def ranks(values):
        order = sorted(range(len(values)), key=values.__getitem__)
        rank = [0.0] * len(values)
        for place, i in enumerate(order):
            rank[i] = place
        return rank

    return statistics.correlation(ranks(a), ranks(b))


def score(pairs):
    """Of (predicted p50, p90, measured)."""
    return {"mape": statistics.fmean(abs(p / m - 1) for p, _, m in pairs),
            "bias": math.exp(statistics.fmean(math.log(p / m) for p, _, m in pairs)) - 1,
            "spearman": spearman([p for p, _, _ in pairs], [m for _, _, m in pairs]),
            "below_p90": statistics.fmean(m <= q for _, q, m in pairs), "n": len(pairs)}


def predict(tool, graph, row, *options):
    answer = json.loads(tool("predict", graph, "--json", "--device", row["device"], "--batch", row["batch"], "--dtype",
                             row["dtype"], *options))["devices"][0]["latency_us"]
    return answer["p50"] / 1e3, answer["p90"] / 1e3


def host_rates(tool, graphs, rows, base, folder):
    """As options, what a worker would measure on the machine: here fitted to all times of the device in it."""
    learnt = json.loads(tool("fit", "--json", "--device", rows[0]["device"], "--base", base, "--model-measurements",
                             write_rows(folder / "all.csv", rows), *graph_options(graphs, rows),
                             "--out", folder / "all.profile"))["whole_models"]
    return ("--host-issue", f"{learnt['host_issue_us']}us", "--host-copy", learnt["host_copy_gb_s"])


def one_device(tool, graphs, cells, rows, device, folder):
    """{"RUN KIND": {"0": score, "host": score, "3": score}} of a device that the transfer profile never saw."""
    base = folder / "base"
    base.mkdir(parents=True, exist_ok=True)
    others = [row for row in to_learn_from(rows) if row["device"] != device]
    tool("fit", "--pool", "--exclude", device, "--model-measurements", write_rows(folder / "others.csv", others),
         *graph_options(graphs, others), "--out", base / "transfer.profile")
    found = {}
    for (slug, run, kind), times in cells.items():
        if slug != device:
            continue
        mode = kind.split()[0]
        asked = {model: predict(tool, graphs[model, mode], row, "--profiles", base) for model, row in times.items()}
        pairs = [(*asked[model], float(row["latency_ms"])) for model, row in times.items()]
        rates = host_rates(tool, graphs, [row for (d, r, _), some in cells.items() if (d, r) == (slug, run)
                                          for row in some.values()], base, folder)
        on_host = [(*predict(tool, graphs[model, mode], row, "--profiles", base, *rates), float(row["latency_ms"]))
                   for model, row in times.items()]
        shots = [times[model] for model in SHOTS if model in times]
        profile = folder / "own.profile"
        tool("fit", "--device", device, "--base", base, "--model-measurements", write_rows(folder / "shots.csv", shots),
             *graph_options(graphs, shots), "--out", profile)
        with_shots = [(*predict(tool, graphs[model, mode], row, "--profile", profile), float(row["latency_ms"]))
                      for model, row in times.items() if model not in SHOTS]
        found[f"{run} {kind}".strip()] = {"0": score(pairs), "host": score(on_host), "3": score(with_shots),
                                          "ladder": ladder(tool, graphs, times, mode, base, folder)}
    return found


def ladder(tool, graphs, times, mode, base, folder):
    """{rung: score} of the models that are not in the half whose times are known; None: the rung has no form of a kernel."""
    known = sorted(times)[::2]
    rows = [times[model] for model in known]
    half = folder / "half.profile"
    tool("fit", "--device", rows[0]["device"], "--base", base, "--model-measurements",
         write_rows(folder / "half.csv", rows), *graph_options(graphs, rows), "--out", half)
    profiles = {rung: ("--profiles", SHIPPED) for rung in UNMEASURED} | {rung: ("--profile", half) for rung in FROM_HALF}
    scores = {}
    for rung, options in profiles.items():
        try:
            scores[rung] = score([(*predict(tool, graphs[model, mode], row, *options, "--estimator", rung),
                                   float(row["latency_ms"])) for model, row in times.items() if model not in known])
        except RuntimeError as error:
            if f"no {rung} form" not in str(error):
                raise
            scores[rung] = None
    return scores


def mean(scores, shots, field):
    return statistics.fmean(s[shots][field] for s in scores)


def markdown(results):
    """`results`: {device: {"RUN KIND": {"0": …, "host": …, "3": …}}}."""
    lines = ["| times | device left out | models | MAPE | Spearman | bias | ≤ p90 | host known: MAPE | with 3 models: MAPE | Spearman | ≤ p90 |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for kind in KINDS:
        by_device = {}
        for device, found in results.items():
            some = [s for name, s in found.items() if name.endswith(kind)]
            if not some:
                continue
            of = {shots: {field: mean(some, shots, field) for field in ("mape", "bias", "spearman", "below_p90")}
                  for shots in ("0", "host", "3")}
            by_device[device] = of
            lines.append(f"| {kind} | {device} | {max(s['0']['n'] for s in some)} | {cells_of(of)} |")
        over = {shots: {field: statistics.fmean(of[shots][field] for of in by_device.values())
                        for field in ("mape", "bias", "spearman", "below_p90")} for shots in ("0", "host", "3")}
        zero, three, rank = FIGURES[kind]
        lines.append(f"| **{kind}** | mean (to reach: {zero}, {rank}; {three}) | | {cells_of(over)} |")
    return lines


def markdown_ladder(results):
    """MAPE and Spearman of each rung, by device, over the half of the models that was not measured."""
    rungs = (*UNMEASURED, *FROM_HALF)
    def cells(scores):
        if None in scores:
            return "– | –"
        return f"{100 * statistics.fmean(s['mape'] for s in scores):.1f} | {statistics.fmean(s['spearman'] for s in scores):.3f}"

    lines = [f"| times | device | {' | '.join(f'{rung}: MAPE | Spearman' for rung in rungs)} |",
             f"|---|---|{'--:|' * 2 * len(rungs)}"]
    for kind in KINDS:
        for device, found in results.items():
            some = [s["ladder"] for name, s in found.items() if name.endswith(kind)]
            if some:
                lines.append(f"| {kind} | {device} | {' | '.join(cells([s[rung] for s in some]) for rung in rungs)} |")
    return lines


def cells_of(of):
    zero, three = of["0"], of["3"]
    return (f"{100 * zero['mape']:.1f} | {zero['spearman']:.3f} | {100 * zero['bias']:+.1f} | "
            f"{100 * zero['below_p90']:.0f} | {100 * of['host']['mape']:.1f} | {100 * three['mape']:.1f} | {three['spearman']:.3f} | "
            f"{100 * three['below_p90']:.0f}")


def pool_options(data, folder, without=""):
    """Graphs and rows.csv for `fit --pool`, but of one device, and its options; none where the data has no models."""
    if not (Path(data) / "vision_kernels").is_dir():
        return []
    graphs = write_graphs(data, folder / "vision")
    rows = [row for row in to_learn_from(measured(data, graphs)[1]) if row["device"] != without]
    return ["--model-measurements", write_rows(folder / "vision.csv", rows), *graph_options(graphs, rows)]


def main():
    """accuracy_vision.py DATA FOLDER: the options of `fit --pool`, one a line."""
    for option in pool_options(sys.argv[1], Path(sys.argv[2])):
        print(option)


if __name__ == "__main__":
    main()
