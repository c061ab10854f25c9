"""Whole vision models from one consumer card to the next: timm's published times (model_e2e.csv) under autocast.

Graphs are made of the kernel lists that PyTorch's dispatcher gave (vision_kernels), with the batch as a symbol. A
transfer profile is fitted to times of some of the models on one card; the other answers for these models, and for
models that were timed nowhere. Then ten random models are timed on it.
"""

import csv
import gzip
import json
import random
import sys
from pathlib import Path

import accuracy_vision
from accuracy_vision import CONVOLUTIONS, convolution, number, score

LIST_BATCH = 4
SEEN_MODELS = 132  # of timm_models.csv, in its order
CARDS = ("rtx-3090", "rtx-4090")
RUN = "amp;nchw;torch2.4.0;cuda12.4"  # the same software on both
SHOTS = 10
# To reach, by target: MAPE zero-shot and with ten shots.
FIGURES = {"rtx-4090": (10.5, 5), "rtx-3090": (8, 5)}
BYTES_OF_TYPE = 2
LARGEST_WEIGHT_CAST = 8192  # elements; smaller casts are of vectors of parameters
OPS = {"bn": "batchnorm", "norm": "layernorm", "softmax": "softmax", "pool": "pool", "cat": "copy", "copy": "copy",
       "cast": "copy", "red": "reduce", "other": "copy"}
VIEWS = ("as_strided_", "arange", "view_dtype")


def per_image(value):
    """A dim that grows with the batch, as the graph's expression of it; one that does not, as a number."""
    return f"{value // LIST_BATCH}*batch" if value % LIST_BATCH == 0 else value


def node(kind, **dims):
    symbolic = {name: text for name, text in dims.items() if isinstance(text, str) and text.endswith("*batch")}
    work = {name: 1 if name in symbolic else value for name, value in dims.items()}
    return {"kernel": {"dtype": "DTYPE_FP16", kind: work}, "symbolic_dims": symbolic}


def node_of(row, casts_weights):
    of = row["class"]
    if row["K"] and of in CONVOLUTIONS:
        return node("conv2d", **convolution(row, per_image(number(row, "N"))))
    if of == "lin":
        return node("gemm", layer="LAYER_LINEAR", batch=1, m=per_image(number(row, "m")), n=number(row, "n"),
                    k=number(row, "k"))
    if of == "bmm":
        return node("gemm", layer="LAYER_BMM", batch=per_image(number(row, "b")), m=number(row, "m"),
                    n=number(row, "n"), k=number(row, "k"))
    if of == "attn" and number(row, "b") % LIST_BATCH == 0:
        heads = number(row, "b") // LIST_BATCH
        return node("attention", phase="PHASE_PREFILL", batch="1*batch", heads=heads, kv_heads=heads,
                    query_len=number(row, "m"), kv_len=number(row, "n"), head_dim=number(row, "k"))
    # A pass that moves as many bytes, whatever types it runs in.
    elements = max((number(row, "bytes_in") + number(row, "bytes_out")) // BYTES_OF_TYPE // 2, 1)
    cols = elements if casts_weights else per_image(elements - elements % LIST_BATCH or LIST_BATCH)
    return node("vector", op=OPS.get(of, "mul"), rows=1, cols=cols)


def casts_weights(rows, i):
    """Autocast turns parameters into 16 bits right before the kernels that read them."""
    row = rows[i]
    if row["class"] != "cast":
        return False
    elements = number(row, "elem_out")
    return elements <= LARGEST_WEIGHT_CAST or any(number(r, "param") == elements for r in rows[i + 1:i + 5])


def write_graphs(data, folder):
    """A graph file for each model; {model: path} in the order of timm_models.csv, and {model: image size}."""
    folder.mkdir(parents=True, exist_ok=True)
    kernels = Path(data) / "vision_kernels"
    with open(kernels / "timm_models.csv", newline="") as file:
        sizes = {row["model"]: int(row["image_size"]) for row in csv.DictReader(file)}
    lists = {}
    with gzip.open(kernels / "timm_inference_b4_amp.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            if row["op"] not in VIEWS and row["class"] != "err":
                lists.setdefault(row["model"], []).append(row)
    paths = {}
    for model in sizes:
        rows = lists.get(model, [])
        nodes = [node_of(row, casts_weights(rows, i)) for i, row in enumerate(rows)]
        for i, one in enumerate(nodes):
            one["kernel"]["name"] = str(i)
            one["inputs"] = [i - 1] if i else []
        if not nodes:
            continue
        paths[model] = folder / f"{model}.json"
        paths[model].write_text(json.dumps({"display_name": model, "symbols": [{"name": "batch"}], "nodes": nodes}))
    return paths, sizes


def measured(data, graphs, sizes):
    """{card: {model: row}} of the run, at the image size of the lists."""
    cards = {card: {} for card in CARDS}
    with open(Path(data) / "model_e2e.csv", newline="") as file:
        for row in csv.DictReader(file):
            if (row["source"] == "timm" and row["options"] == RUN and row["mode"] == "inference"
                    and row["device"] in cards and row["model"] in graphs
                    and int(float(row["image_size"])) == sizes[row["model"]]):
                cards[row["device"]].setdefault(row["model"], row)
    return cards


def one_target(tool, graphs, cards, target, folder):
    """{"seen": score, "unseen": score, "shots": score} of a card, the other one being the source."""
    base = folder / "base"
    base.mkdir(parents=True, exist_ok=True)
    source = next(card for card in CARDS if card != target)
    seen = list(graphs)[:SEEN_MODELS]
    known = [cards[source][model] for model in seen if model in cards[source]]
    options = [f"--graph={row['model']}={graphs[row['model']]}" for row in known]
    tool("fit", "--pool", "--exclude", target, "--model-measurements",
         write_rows(folder / "source.csv", known), *options, "--out", base / "transfer.profile")

    def ask(models, *how):
        return [(*accuracy_vision.predict(tool, graphs[model], cards[target][model], *how),
                 float(cards[target][model]["latency_ms"])) for model in models]

    there = [model for model in graphs if model in cards[target]]
    of_seen = [model for model in there if model in seen]
    found = {"seen": score(ask(of_seen, "--profiles", base)),
             "unseen": score(ask([model for model in there if model not in seen], "--profiles", base))}
    shots = random.Random(0).sample(there, SHOTS)
    profile = folder / "own.profile"
    tool("fit", "--device", target, "--base", base, "--model-measurements",
         write_rows(folder / "shots.csv", [cards[target][model] for model in shots]),
         *[f"--graph={model}={graphs[model]}" for model in shots], "--out", profile)
    found["shots"] = score(ask([model for model in there if model not in shots], "--profile", profile))
    return found


def write_rows(path, rows):
    fields = ("device", "source", "model", "mode", "options", "dtype", "batch", "latency_ms")
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fields, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def markdown(results):
    lines = ["| target | times | models | MAPE | Spearman | bias | ≤ p90 | to reach |", "|---|---|--:|--:|--:|--:|--:|--:|"]
    names = {"seen": "none; the models timed on the other card", "unseen": "none; models timed nowhere",
             "shots": f"{SHOTS} random models"}
    for target, found in results.items():
        for name, what in names.items():
            s = found[name]
            bar = {"seen": FIGURES[target][0], "shots": FIGURES[target][1]}.get(name, "")
            lines.append(f"| {target} | {what} | {s['n']} | {100 * s['mape']:.1f} | {s['spearman']:.3f} | "
                         f"{100 * s['bias']:+.1f} | {100 * s['below_p90']:.0f} | {bar} |")
    return lines
