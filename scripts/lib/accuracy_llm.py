"""Errors of whole decoder layers and engine steps, composed of kernels that were not measured.

Layers: vidur's operators of one decoder layer, each once, the embedding left out; no attention is in these rows.

Steps: composed of the rows of aiconfigurator's tables. Products take the nearest (n, k) of the table, decode the nearest
cached length, so that a step's reference is a sum of measured rows; only an all_reduce between two measured sizes is
interpolated, linearly in the logarithms. Every answer but that of a collective is out of sample: a kernel that was bought
is asked of profiles fitted without it.
"""

import csv
import math
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from accuracy_run import Shop, summarise
from accuracy_tables import table

FOLDS = 5

# Figures to reach: MAPE and ape_p90 in percent.
LAYER_FIGURES = {50: (3.6, 8.2), 100: (3.3, 7.2), 250: (2.8, 6.2), 500: (2.7, 6.0)}
STEP_FIGURES = {("dense", "general", 100): (3.8, 8.5), ("dense", "general", 250): (3.3, 7.2),
                ("dense", "general", 500): (3.2, 6.8), ("dense", "lines", 250): (3.0, 6.2),
                ("llama-3-8b tp1", "general", 250): (4.5, 9.0), ("MoE", "general", 500): (9.0, 19.0),
                ("MoE", "lines", 250): (5.6, 13.5)}

LAYER_DEVICE = "a100-80gb"
VECTOR_POINTS = 100
STEP_DEVICES = ("h100-sxm", "l40s", "a100-sxm4-80gb")

# hidden, heads, kv_heads, head_dim, dense width or 0, (expert width, top_k, experts) or None, layers, vocabulary
MODELS = {
    "llama-3-8b": (4096, 32, 8, 128, 14336, None, 32, 128256),
    "llama-3-70b": (8192, 64, 8, 128, 28672, None, 80, 128256),
    "mixtral-8x7b": (4096, 32, 8, 128, 0, (14336, 2, 8), 32, 32000),
    "qwen3-30b-a3b": (2048, 32, 4, 128, 0, (768, 8, 128), 48, 151936),
}
DEPLOYMENTS = (("llama-3-8b", 1), ("llama-3-70b", 4), ("llama-3-70b", 8), ("mixtral-8x7b", 1), ("mixtral-8x7b", 2),
               ("qwen3-30b-a3b", 1), ("qwen3-30b-a3b", 2))


def unique_rows(shop):
    """The first row of each shape: a repeat would be its own neighbour."""
    first = {}
    for i, line in enumerate(shop.lines):
        first.setdefault(line, i)
    shop.rows = [shop.rows[i] for i in first.values()]
    shop.lines = list(first)
    return shop


def keyed(shop, *columns):
    at = [shop.at[c] for c in columns]
    return {tuple(int(row[i]) for i in at): n for n, row in enumerate(shop.rows)}


def ask_out_of_sample(shop, rows):
    """{row: (p50, p90, p99)}; rows that were bought are asked of fits without them."""
    bought = list(shop.bought)
    answers = {}

    def ask(some):
        if some:
            shop.fit()
            answers.update((i, answer[:3]) for i, answer in zip(some, shop.ask(some)))

    known = set(bought)
    ask([i for i in rows if i not in known])
    both = [i for i in rows if i in known]
    for fold in range(min(FOLDS, len(both))):
        asked = both[fold::FOLDS]
        shop.bought = [i for i in bought if i not in set(asked)]
        ask(asked)
    shop.bought = bought
    return answers


# --- layers ---

def layer_kernel(row):
    """The kernel of a row of llm_layer.csv, as decision 6 of the data's README reads it; None for the embedding."""
    op, m = row["op"], int(row["num_tokens"])
    heads, kv_heads, hidden, width, tp = (int(row[c]) for c in ("n_head", "n_kv_head", "n_embd", "n_expanded_embd", "tp"))
    head = hidden // heads
    products = {"attn_pre_proj": ((heads + 2 * kv_heads) * head // tp, hidden),
                "attn_post_proj": (hidden, heads * head // tp),
                "mlp_up_proj": ((2 if row["gated"] == "1" else 1) * width // tp, hidden),
                "mlp_down_proj": (hidden, width // tp)}
    if op in products:
        return ("gemm", m, *products[op])
    one_norm = row["model"] == "microsoft/phi-2"  # LayerNorm, GELU, and both branches added to the residual at once
    if op == "emb":
        return None
    if op == "attn_rope":
        return ("rope", m, (heads + kv_heads) * head // tp, 1)
    if op == "mlp_act":
        return ("gelu", m, width // tp, 1) if one_norm else ("silu_mul", m, width // tp, 2)
    if op == "add":
        return ("add", m, hidden, 3 if one_norm else 2)
    return ("layernorm" if one_norm else "rmsnorm", m, hidden, 1)


def read_layers(data):
    """{(model, tp, tokens): [(kernel, µs)]}; repeats of an operator are one, their mean."""
    measured = defaultdict(list)
    with open(Path(data) / "llm_layer.csv", newline="") as file:
        for row in csv.DictReader(file):
            kernel = layer_kernel(row) if row["device"] == LAYER_DEVICE else None
            if kernel:
                measured[row["model"], row["tp"], int(row["num_tokens"]), row["op"], kernel].append(float(row["latency_us"]))
    layers = defaultdict(list)
    for (model, tp, tokens, _, kernel), us in measured.items():
        layers[model, tp, tokens].append((kernel, statistics.fmean(us)))
    return layers


def vector_table(data, layers, folder):
    """vector.csv of the device's vidur rows, with the additions of three operands that it leaves out."""
    with open(Path(data) / "vector.csv", newline="") as file:
        lines = csv.DictReader(file)
        rows = [r for r in lines if (r["device"], r["source"]) == (LAYER_DEVICE, "vidur") and r["name"] != "embedding"]
    known = {(r["name"], int(r["rows"]), int(r["cols"]), int(r["operands"])) for r in rows}
    more = defaultdict(list)
    for kernels in layers.values():
        for kernel, us in kernels:
            if kernel[0] != "gemm" and kernel not in known:
                more[kernel].append(us)
    with open(Path(folder) / "vector.csv", "w", newline="") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(rows)
        for (name, m, cols, operands), us in more.items():
            out.writerow({**rows[0], "name": name, "rows": m, "cols": cols, "operands": operands,
                          "latency_us": f"{statistics.median(us):.6g}"})


def one_layers(tool, data, purchases, work):
    layers = read_layers(data)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "gemm").mkdir()
        (Path(folder) / "vector").mkdir()
        vector_table(data, layers, folder)
        gemm = Shop(tool, data, table("layer products", "gemm.csv", LAYER_DEVICE, "gemm", 0, {}, source="vidur"),
                    work["seed"], Path(folder) / "gemm")
        vector = Shop(tool, folder, table("layer vectors", "vector.csv", LAYER_DEVICE, "vector", 0, {}), work["seed"],
                      Path(folder) / "vector")
        names = vector.at["name"]
        rows = {("gemm", *key): (gemm, i) for key, i in keyed(gemm, "m", "n", "k").items()}
        dims = [vector.at[c] for c in ("rows", "cols", "operands")]
        for i, row in enumerate(vector.rows):
            rows[(row[names], *(int(row[d]) for d in dims))] = (vector, i)
        answers = {}
        for shop, points in ((gemm, work["budget"]), (vector, VECTOR_POINTS)):
            purchases(shop, f"{shop.table['name']}-{points}-{work['seed']}-{work['rounds']}",
                      lambda shop=shop, points=points: shop.buy(points, work["rounds"]))
            needed = sorted({at[1] for at in rows.values() if at[0] is shop})
            answers[shop] = ask_out_of_sample(shop, needed)
        layers_of = {"all": [], "to 64 tokens": []}
        for (_, _, tokens), kernels in layers.items():
            total = sum(us for _, us in kernels)
            composed = compose([(rows[k][0].table["op"], 1, answers[rows[k][0]][rows[k][1]]) for k, _ in kernels])
            layers_of["all"].append((*composed, total))
            if tokens <= 64:
                layers_of["to 64 tokens"].append((*composed, total))
    groups = {name: summarise(pairs) for name, pairs in layers_of.items()}
    return {**groups["all"], "groups": groups}


# --- steps ---

def compose(parts):
    """(p50, p90, p99) of kernels [(family, count, quantiles)]: the rule of core/predict/compose.h without gaps."""
    total = sum(count * q[0] for _, count, q in parts)
    out = [total]
    for at in (1, 2):
        own, shared = 0.0, defaultdict(float)
        for family, count, q in parts:
            x = count * q[0] / total * math.log(q[at] / q[0])
            own += x * x
            shared[family] += x
        out.append(total * math.exp(math.sqrt(0.7 * own + 0.3 * sum(x * x for x in shared.values()))))
    return tuple(out)


def nearest(values, x):
    return min(values, key=lambda v: abs(math.log(v / x)))


class Tables:
    """What one device's steps are composed of."""

    def __init__(self, tool, data, device, seed, folder):
        def shop(name, file, op, **rows):
            (Path(folder) / name).mkdir()
            entry = table(f"{name} {device}", file, device, op, 0, {}, **rows)
            return unique_rows(Shop(tool, data, entry, seed, Path(folder) / name))

        source = {"source": "aiconfigurator"}
        self.gemm = shop("gemm", "gemm.csv", "gemm", dtype="bf16", **source)
        self.decode = shop("decode", "attention.csv", "attention", phase="decode", **source)
        self.prefill = shop("prefill", "attention.csv", "attention", phase="prefill", **source)
        self.moe = shop("moe", "moe.csv", "moe", **source)
        self.collective = shop("collective", "collective.csv", "collective", backend="vllm", timing="graph",
                               collective="all_reduce", **source)
        self.gemm_rows = keyed(self.gemm, "m", "n", "k")
        self.decode_rows = keyed(self.decode, "batch", "kv_len", "heads", "kv_heads", "head_dim")
        self.prefill_rows = keyed(self.prefill, "batch", "kv_len", "heads", "kv_heads", "head_dim")
        self.moe_rows = keyed(self.moe, "num_tokens", "hidden_size", "inter_size", "top_k", "num_experts", "tp", "ep")
        self.sweep = defaultdict(list)
        for (size, ranks), i in sorted(keyed(self.collective, "bytes", "ranks").items()):
            self.sweep[ranks].append((size, self.collective.latency(i)))
        self.tokens = {key[0] for key in self.gemm_rows}
        self.products = sorted({key[1:] for key in self.gemm_rows})
        self.decode_lengths = sorted({key[1] for key in self.decode_rows})
        self.prefill_lengths = {key[1] for key in self.prefill_rows}

    def all_reduce_us(self, ranks, size):
        sweep = self.sweep[ranks]
        for (b0, t0), (b1, t1) in zip(sweep, sweep[1:]):
            if b0 <= size <= b1:
                share = math.log(size / b0) / math.log(b1 / b0)
                return math.exp((1 - share) * math.log(t0) + share * math.log(t1))
        return None


def products_of(tables, model, tp):
    """(n, k, count, whether rows are sequences), snapped to the table."""
    hidden, heads, kv_heads, head, width, experts, layers, vocabulary = MODELS[model]
    products = [((heads + 2 * kv_heads) * head // tp, hidden, layers, False), (hidden, heads * head // tp, layers, False)]
    if width:
        products += [(2 * width // tp, hidden, layers, False), (hidden, width // tp, layers, False)]
    else:
        products += [(experts[2], hidden, layers, False)]
    products += [(vocabulary // tp, hidden, 1, True)]

    def snap(n, k):
        return min(tables.products, key=lambda p: abs(math.log(p[0] / n)) + abs(math.log(p[1] / k)))

    return [(*snap(n, k), count, head_rows) for n, k, count, head_rows in products]


def steps_of(tables, model, tp):
    """[([(shop's name, row, count)], [(ranks, bytes, count)])]"""
    hidden, heads, kv_heads, head, _, experts, layers, _ = MODELS[model]
    lines = products_of(tables, model, tp)
    own, own_kv = heads // tp, max(kv_heads // tp, 1)

    def dense(tokens, sequences):
        parts = [("gemm", tables.gemm_rows.get((sequences if of_sequences else tokens, n, k)), count)
                 for n, k, count, of_sequences in lines]
        if experts:
            key = (tokens, hidden, experts[0], experts[1], experts[2], tp, 1)
            parts.append(("moe", tables.moe_rows.get(key), layers))
        return parts

    def decode(sequences, context):
        length = nearest(tables.decode_lengths, context)
        return ("decode", tables.decode_rows.get((sequences, length, own, own_kv, head)), layers)

    def prefill(sequences, length):
        return ("prefill", tables.prefill_rows.get((sequences, length, own, own_kv, head)), layers)

    wanted = []
    for sequences in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        for context in (128, 256, 512, 1024, 2048, 4096, 8192, 16384):
            wanted.append((sequences, dense(sequences, sequences) + [decode(sequences, context)]))
    for tokens in (64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 8192):
        for sequences in (1, 2, 4, 8):
            if tokens // sequences >= 64:
                wanted.append((tokens, dense(tokens, sequences) + [prefill(sequences, tokens // sequences)]))
    for chunk in (64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096):
        for sequences in (1, 16, 32, 64, 128, 256):
            for context in (512, 2048, 8192):
                tokens = chunk + sequences
                wanted.append((tokens, dense(tokens, sequences) + [prefill(1, chunk), decode(sequences, context)]))
    steps = []
    for tokens, parts in wanted:
        if all(row is not None for _, row, _ in parts):
            steps.append((parts, [(tp, 2 * tokens * hidden, 2 * layers)] if tp > 1 else []))
    return steps


def all_reduce_answers(tables, asked):
    """Quantiles of (ranks, bytes) by a fit to the whole sweep."""
    shop = tables.collective
    shop.bought = list(range(len(shop.rows)))
    shop.fit()
    known, row = len(shop.lines), shop.rows[0]
    for ranks, size in asked:
        cells = list(row)
        cells[shop.at["ranks"]], cells[shop.at["bytes"]], cells[shop.at["latency_us"]] = str(ranks), str(size), ""
        shop.lines.append(",".join(cells))
    answers = dict(zip(asked, (a[:3] for a in shop.ask(range(known, len(shop.lines))))))
    del shop.lines[known:]
    return answers


def lines_of_products(deployments):
    return ["n,k", *sorted({f"{n},{k}" for lines in deployments.values() for n, k, _, _ in lines})]


def lines_of_heads():
    found = {f"{MODELS[m][1] // tp},{max(MODELS[m][2] // tp, 1)},{MODELS[m][3]}" for m, tp in DEPLOYMENTS}
    return ["heads,kv_heads,head_dim", *sorted(found)]


def buy_for_steps(tables, work, purchases, deployments):
    on_lines = work["mode"] == "steps on lines"
    for name in ("gemm", "decode", "prefill", "moe"):
        shop = getattr(tables, name)

        def buy(shop=shop, name=name):
            if not on_lines:
                shop.buy(work["budget"], work["rounds"])
            elif name == "moe":  # every row of the models' shapes
                shapes = {MODELS[m][:1] + MODELS[m][5] + (tp, 1) for m, tp in DEPLOYMENTS if MODELS[m][5]}
                shop.bought = [i for key, i in tables.moe_rows.items() if key[1:] in shapes]
            else:
                path = shop.folder / "lines.csv"
                lines = lines_of_products(deployments) if name == "gemm" else lines_of_heads()
                path.write_text("\n".join(lines) + "\n")
                shop.buy(work["budget"], work["rounds"], "--lines", path)

        kind = "lines" if on_lines else "general"
        purchases(shop, f"steps-{shop.table['name']}-{kind}-{work['budget']}-{work['seed']}-{work['rounds']}", buy)


def one_steps(tool, data, purchases, work):
    with tempfile.TemporaryDirectory() as folder:
        tables = Tables(tool, data, work["device"], work["seed"], folder)
        deployments = {d: products_of(tables, *d) for d in DEPLOYMENTS}
        steps = {d: steps_of(tables, *d) for d in DEPLOYMENTS}
        buy_for_steps(tables, work, purchases, deployments)
        needed, reduced = defaultdict(set), set()
        for some in steps.values():
            for parts, collectives in some:
                for name, row, _ in parts:
                    needed[name].add(row)
                reduced.update((ranks, size) for ranks, size, _ in collectives)
        answers = {name: ask_out_of_sample(getattr(tables, name), sorted(rows)) for name, rows in needed.items()}
        answers["collective"] = all_reduce_answers(tables, sorted(reduced))
        pairs = defaultdict(list)
        for (model, tp), some in steps.items():
            for parts, collectives in some:
                kernels = [(name, count, answers[name][row]) for name, row, count in parts]
                observed = sum(count * getattr(tables, name).latency(row) for name, row, count in parts)
                for ranks, size, count in collectives:
                    kernels.append(("collective", count, answers["collective"][ranks, size]))
                    observed += count * tables.all_reduce_us(ranks, size)
                step = (*compose(kernels), observed)
                pairs["MoE" if MODELS[model][5] else "dense"].append(step)
                pairs[f"{model} tp{tp}"].append(step)
        groups = {name: summarise(some) for name, some in pairs.items()}
        for name, rows in needed.items():
            shop = getattr(tables, name)
            groups[f"kernels: {name}"] = shop.summary(sorted(rows), [answers[name][i] for i in sorted(rows)])
    return {**groups["dense"], "groups": groups}


def work_of(args):
    words = [word for word in args.tables.split(",") if word]
    for seed in range(args.seeds):
        common = {"general": 0, "draw": 0, "seed": seed, "rounds": args.rounds, "bad_rows": 0}
        items = [{"mode": "layers", "table": f"layers {LAYER_DEVICE}", "device": LAYER_DEVICE, "budget": budget}
                 for budget in args.budgets or LAYER_FIGURES]
        for device in STEP_DEVICES:
            items += [{"mode": "steps", "table": f"steps {device}", "device": device, "budget": budget}
                      for budget in args.budgets or (100, 250, 500)]
            if not args.budgets or 250 in args.budgets:
                items.append({"mode": "steps on lines", "table": f"steps on lines {device}", "device": device,
                              "budget": 250})
        for item in items:
            if not words or any(word in item["table"] for word in words):
                yield {**common, **item}


def one(tool, data, purchases, _python, work):
    return (one_layers if work["mode"] == "layers" else one_steps)(tool, data, purchases, work)


def markdown(results):
    lines = ["| what | points | seeds | n | to reach | MAPE / p90 | ≤ p90 | ≤ p99 | p90/p50 − 1 | bias | |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"]
    grouped = defaultdict(list)
    for result in results:
        for name, group in result["groups"].items():
            grouped[result["mode"], result["table"], result["budget"], name].append(group)
    for (mode, name, budget, group), some in grouped.items():
        def mean(field, some=some):
            return 100 * statistics.fmean(g[field] for g in some)

        figure = (LAYER_FIGURES.get(budget) if mode == "layers" and group == "all" else
                  STEP_FIGURES.get((group, "lines" if mode == "steps on lines" else "general", budget)))
        listed = f"{figure[0]} / {figure[1]}" if figure else "–"
        verdict = "" if not figure else "yes" if round(mean("mape"), 1) <= figure[0] and round(
            mean("ape_p90"), 1) <= figure[1] else "no"
        lines.append(f"| {name}, {group} | {budget} | {len(some)} | {some[0]['n']} | {listed} | {mean('mape'):.2f} / "
                     f"{mean('ape_p90'):.1f} | {mean('below_p90'):.1f} | {mean('below_p99'):.1f} | "
                     f"{mean('width') / 100:.3f} | {mean('bias'):+.2f} | {verdict} |")
    return lines
