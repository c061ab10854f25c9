"""Whole transformers: NeuSight's published end-to-end rows, each model built from its config by gpueta."""

import csv
import json
import statistics
from pathlib import Path

import accuracy_vision

SOURCE = "neusight-test"
OPS = ("gemm.csv", "vector.csv")
OP_SOURCES = ("neusight-train", "neusight-test")
PUBLISHED = {"neusight": "neusight_ms", "roofline": "roofline_ms", "habitat": "habitat_ms", "li": "li_ms"}
KNOWLEDGE = ("own rows", "unseen")
# What the published run loaded where that is not what the config names: BERT without a language model's head to infer,
# with all heads to train (get_model in neusight/Tracing/trace.py of sitar-lab/NeuSight, MIT).
LOADED_AS = {("bert", "inference"): "BertForSequenceClassification", ("bert", "train"): "BertForPreTraining"}
# Part, knowledge: the largest mean error to reach, in percent.
FIGURES = {("all", "own rows"): 4.7, ("all", "unseen"): 9.0, ("fused", "own rows"): 5.0}


def model_rows(data):
    """Rows of one device: run eagerly, or fused by torch.compile."""
    with open(Path(data) / "model_e2e.csv", newline="") as file:
        return [row for row in csv.DictReader(file)
                if row["source"] == SOURCE and row["options"] in ("", "fusion")]


def part_of(row):
    return "fused" if row["options"] == "fusion" else "training" if row["mode"] == "train" else "inference"


def op_rows(data, folder, keep):
    """The operators' rows that `keep` accepts, as files."""
    files = []
    for name in OPS:
        with open(Path(data) / name, newline="") as file, open(folder / name, "w", newline="") as out:
            reader = csv.reader(file)
            header = next(reader)
            device, source = header.index("device"), header.index("source")
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(header)
            rows = [row for row in reader if row[source] in OP_SOURCES and keep(row[device])]
            writer.writerows(rows)
        if rows:
            files.append(folder / name)
    return files


def profiles_for(tool, data, device, knowledge, out):
    """A folder with the profile that knows the device's own rows, or with a transfer profile of all others."""
    folder = out / "models" / tool.build / f"{device}.{knowledge.replace(' ', '_')}"
    done = folder / ("transfer.profile" if knowledge == "unseen" else f"{device}.profile")
    if not done.exists():
        rows = folder / "rows"
        rows.mkdir(parents=True, exist_ok=True)
        own = knowledge != "unseen"
        files = op_rows(data, rows, lambda slug: (slug == device) == own)
        part = done.with_suffix(".part")
        vision = [] if own else accuracy_vision.pool_options(data, rows, device)
        tool("fit", *(["--device", device, "--base", "none"] if own else ["--pool"]), "--measurements", *files, *vision, "--out", part)
        part.rename(done)
        for file in files:
            file.unlink()
    return folder


def config_as_run(models, row, out):
    """The model's config, of the class that the published run loaded."""
    given = Path(models) / row["model"] / "config.json"
    config = json.loads(given.read_text())
    loaded_as = LOADED_AS.get((config["model_type"], row["mode"]))
    if loaded_as is None:
        return given
    folder = out / "models" / f"{row['model']}.{row['mode']}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config | {"architectures": [loaded_as]}))
    return folder / "config.json"


def predict_ms(tool, config, profiles, row):
    arguments = ["predict", config, "--json", "--profiles", profiles, "--device",
                 row["device"], "--batch", row["batch"], "--seq", row["seq_len"], "--attention", "written-out", "--mode",
                 "compiled" if row["options"] == "fusion" else "eager"]
    if row["mode"] == "train":
        arguments += ["--train", "--optimiser", "none"]
    return json.loads(tool(*arguments))["devices"][0]["latency_us"]["p50"] / 1e3


def error(predicted_ms, row):
    return 100 * (float(predicted_ms) / float(row["latency_ms"]) - 1)


def run(tool, data, models, out, log):
    """One result for each row: the errors in percent of gpueta, by what it knows, and of what was published."""
    results = []
    for row in model_rows(data):
        result = {"device": row["device"], "model": row["model"], "part": part_of(row), "batch": int(row["batch"]),
                  "latency_ms": float(row["latency_ms"])}
        for knowledge in KNOWLEDGE:
            profiles = profiles_for(tool, data, row["device"], knowledge, out)
            result[knowledge] = error(predict_ms(tool, config_as_run(models, row, out), profiles, row), row)
            as_named = Path(models) / row["model"] / "config.json"
            result[f"{knowledge}, as named"] = error(predict_ms(tool, as_named, profiles, row), row)
        result |= {name: error(row[column], row) for name, column in PUBLISHED.items() if row[column]}
        results.append(result)
        log(f"{result['device']}, {result['model']} batch {result['batch']}, {result['part']}: "
            f"{result['own rows']:+.1f} % with its rows, {result['unseen']:+.1f} % without")
    return results


def markdown(results):
    methods = (*KNOWLEDGE, *PUBLISHED)
    lines = [f"| rows | n | {' | '.join(methods)} |", f"|---|--:|{'--:|' * len(methods)}"]

    def add(title, some, of=""):
        def cell(method):
            errors = [abs(r[method + of]) for r in some if method + of in r]
            if not errors:
                return "–"
            text = f"{statistics.fmean(errors):.1f}"
            figure = FIGURES.get((title, method))
            reached = "" if figure is None else " (reached)" if statistics.fmean(errors) <= figure else f" (not {figure})"
            return text + ("" if len(errors) == len(some) else f" of {len(errors)}") + reached

        if some:
            lines.append(f"| {title} | {len(some)} | {' | '.join(cell(m) for m in methods)} |")

    eager = [r for r in results if r["part"] != "fused"]
    add("all", eager)
    for part in ("inference", "training", "fused"):
        add(part, [r for r in results if r["part"] == part])
    for field in ("device", "model"):
        for value in sorted({r[field] for r in eager}):
            add(value, [r for r in eager if r[field] == value])
    add("all, of the class that the config names", eager, ", as named")
    add("fused, of the class that the config names", [r for r in results if r["part"] == "fused"], ", as named")
    lines += ["", "| device | model | batch | part | measured, ms | own rows | unseen | neusight |",
              "|---|---|--:|---|--:|--:|--:|--:|"]
    for r in results:
        lines.append(f"| {r['device']} | {r['model']} | {r['batch']} | {r['part']} | {r['latency_ms']:.1f} | "
                     f"{r['own rows']:+.1f} | {r['unseen']:+.1f} | {r['neusight']:+.1f} |")
    return lines
