"""Buying rows, fitting and asking through gpueta; latencies of rows that were not bought never reach it."""

import csv
import hashlib
import io
import json
import math
import random
import statistics
import subprocess
import tempfile
import threading
from collections import defaultdict
from pathlib import Path

from accuracy_tables import LAUNCH, OUTCOME

# Not inputs of an estimate: who measured, and what came out.
NO_FEATURES = {"device", "source", "timing", "dtype", "kv_dtype", *LAUNCH, *OUTCOME}


class NothingLeft(Exception):
    """No row is left to ask for."""


class Tool:
    """The program under test."""

    def __init__(self, folder):
        self.path = str(Path(folder).resolve() / "gpueta")
        self.build = hashlib.sha256(Path(self.path).read_bytes()).hexdigest()[:12]

    def __call__(self, *arguments):
        done = subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"gpueta {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done.stdout


def line_of(cells):  # quoted where a kernel's name has commas
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


class Shop:
    """One table: what may be bought, what was."""

    def __init__(self, tool, data, table, seed, folder, kernel_known=False):
        self.tool, self.table, self.seed, self.folder = tool, table, seed, Path(folder)
        with open(Path(data) / table["file"], newline="") as file:
            reader = csv.reader(file)
            self.header = next(reader)
            self.at = {column: i for i, column in enumerate(self.header)}
            wanted = {"device": table["device"], **table["rows"]}
            self.rows = [row for row in reader if all(row[self.at[c]] == v for c, v in wanted.items())]
        if not self.rows:
            raise RuntimeError(f"{table['name']}: no rows in {table['file']}")
        launch_is_known = kernel_known or table["op"] == "attention"
        hidden = OUTCOME if launch_is_known else LAUNCH + OUTCOME
        hide = {self.at[c] for c in hidden if c in self.at}
        self.lines = [line_of(["" if i in hide else cell for i, cell in enumerate(row)]) for row in self.rows]
        self.bought = []

    def write(self, name, lines):
        (self.folder / name).write_text("\n".join([",".join(self.header), *lines]) + "\n")
        return self.folder / name

    def latency(self, i):
        return float(self.rows[i][self.at["latency_us"]])

    def rest(self):
        bought = set(self.bought)
        return [i for i in range(len(self.rows)) if i not in bought]

    def on(self, lines):
        """Rows on lines given as {column: value}."""
        return [i for i, row in enumerate(self.rows)
                if any(all(row[self.at[c]] == v for c, v in line.items()) for line in lines)]

    def buy(self, budget, rounds, *options):
        """Half of the budget, then rounds by what was learnt."""
        of_round = budget // (2 * max(rounds - 1, 1))
        shares = [budget - (rounds - 1) * of_round] + [of_round] * (rounds - 1)
        for share in shares:
            left = {}
            for i in self.rest():
                left.setdefault(self.lines[i], []).append(i)
            arguments = ["plan", "--op", self.table["op"], "--device", self.table["device"], "--budget", share,
                         "--seed", self.seed, "--out", self.folder / "plan.csv", *options, "--candidates",
                         self.write("candidates.csv", [line for line, rows in left.items() for _ in rows])]
            if self.bought:
                arguments += ["--measured", self.write("bought.csv", [line_of(self.rows[i]) for i in self.bought])]
            self.tool(*arguments)
            for line in (self.folder / "plan.csv").read_text().splitlines()[1:]:
                self.bought.append(left[line].pop(0))

    def fit(self, bad_rows=0):
        measured = [list(self.rows[i]) for i in self.bought]
        draw = random.Random(self.seed)
        for row in draw.sample(measured, round(bad_rows * len(measured))):
            row[self.at["latency_us"]] = f"{float(row[self.at['latency_us']]) * draw.uniform(0.3, 3):.6g}"
        self.tool("fit", "--device", self.table["device"], "--seed", self.seed, "--out", self.folder / "p.profile",
                  "--measurements", self.write("bought.csv", [line_of(row) for row in measured]))
        return (self.folder / "p.profile").stat().st_size

    def ask(self, questions, *options):
        """(p50, p90, p99) of rows by the fitted profile, and the form that answered."""
        self.tool("predict", "--profile", self.folder / "p.profile", "--out", self.folder / "predicted.csv",
                  "--kernels", self.write("rest.csv", [self.lines[i] for i in questions]), *options)
        with open(self.folder / "predicted.csv", newline="") as file:
            answers = list(csv.DictReader(file))
        if len(answers) != len(questions):
            raise RuntimeError(f"{self.table['name']}: {len(answers)} answers to {len(questions)} questions")
        return [(float(a["p50_us"]), float(a["p90_us"]), float(a["p99_us"]), a["estimator"]) for a in answers]

    def summary(self, questions, answers):
        return summarise([(*answer[:3], self.latency(i)) for i, answer in zip(questions, answers)])

    def baselines(self, python, questions):
        """MAPE by name of simpler methods that know the same rows."""
        known = {c: {row[i] for row in self.rows} for c, i in self.at.items() if c not in NO_FEATURES}
        if self.table["op"] == "attention":
            known["kernel"] = {row[self.at["kernel"]] for row in self.rows}
        numbers = [c for c, values in known.items() if all(v.lstrip("-").isdigit() for v in values)]
        labels = [(c, v) for c, values in known.items() if c not in numbers and len(values) > 1 for v in sorted(values)]

        def features(i):
            row = self.rows[i]
            return [math.log2(1 + int(row[self.at[c]])) for c in numbers] + [
                float(row[self.at[c]] == v) for c, v in labels]

        def facts(rows):
            roofline = [answer[0] for answer in self.ask(rows, "--estimator", "roofline")]
            return {"x": [features(i) for i in rows], "roofline": roofline}

        task = {"bought": {**facts(self.bought), "us": [self.latency(i) for i in self.bought]},
                "rest": facts(questions), "seed": self.seed}
        done = subprocess.run([python, Path(__file__).with_name("accuracy_baselines.py")], input=json.dumps(task),
                              capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"baselines: {done.stderr.strip()}")
        observed = [self.latency(i) for i in questions]
        return {name: statistics.fmean(abs(p / o - 1) for p, o in zip(predicted, observed))
                for name, predicted in json.loads(done.stdout).items()}


def summarise(pairs):
    errors = sorted(abs(p50 / observed - 1) for p50, _, _, observed in pairs)
    n = len(errors)
    return {"n": n, "mape": statistics.fmean(errors), "median": statistics.median(errors),
            "ape_p90": errors[math.ceil(0.9 * n) - 1], "ape_p99": errors[math.ceil(0.99 * n) - 1],
            "bias": statistics.fmean(p50 / observed - 1 for p50, _, _, observed in pairs),
            "below_p90": sum(observed <= p90 for _, p90, _, observed in pairs) / n,
            "below_p99": sum(observed <= p99 for _, _, p99, observed in pairs) / n,
            "width": statistics.fmean(p90 / p50 - 1 for p50, p90, _, _ in pairs)}


class Purchases:
    """What was bought, kept by build of gpueta: plans are deterministic."""

    def __init__(self, folder, build):
        self.folder, self.build = Path(folder), build
        self.folder.mkdir(parents=True, exist_ok=True)
        self.locks = defaultdict(threading.Lock)

    def __call__(self, shop, name, buy):
        path = self.folder / (name.replace(" ", "_") + ".json")
        with self.locks[name]:  # several workloads start from the same purchase
            if path.exists():
                kept = json.loads(path.read_text())
                if kept["build"] == self.build:
                    shop.bought = kept["bought"]
                    return
            buy()
            path.write_text(json.dumps({"build": self.build, "bought": shop.bought}))


def one_table(tool, data, purchases, python, work):
    """Rows all over the table."""
    known = work["mode"] == "kernel known"
    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(tool, data, work["entry"], work["seed"], folder, known)
        name = f"{work['table']}-{work['budget']}-{work['seed']}-{work['rounds']}" + ("-known" if known else "")
        purchases(shop, name, lambda: shop.buy(work["budget"], work["rounds"]))
        rest = shop.rest()
        if not rest:
            raise NothingLeft(f"{work['table']}: {work['budget']} points are the whole table")
        size = shop.fit(work["bad_rows"])
        result = {"bought": len(shop.bought), "profile_bytes": size, **shop.summary(rest, shop.ask(rest))}
        if known:
            answers = shop.ask(rest, "--estimator", "kernel-aware")
            result["kernel_aware"] = shop.summary(rest, answers)
            own = [(i, a) for i, a in zip(rest, answers) if a[3] == "kernel-aware"]
            result["kernel_aware_share"] = len(own) / len(rest)
            if own:
                result["kernel_aware_own"] = shop.summary(*zip(*own))
                result["family_there"] = shop.summary([i for i, _ in own],
                                                      shop.ask([i for i, _ in own], "--estimator", "family"))
            result["family"] = shop.summary(rest, shop.ask(rest, "--estimator", "family"))
        if work["baselines"]:
            result["baselines"] = shop.baselines(python, rest)
        return result


def one_workload(tool, data, purchases, python, work):
    """General rows first, then rows on the lines; asked is what is left of the lines."""
    lines = work["on"]
    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(tool, data, work["entry"], work["seed"], folder)
        if work["general"]:
            purchases(shop, f"{work['table']}-{work['general']}-{work['seed']}-{work['rounds']}",
                      lambda: shop.buy(work["general"], work["rounds"]))
        columns = list(lines[0])
        path = shop.folder / "lines.csv"
        path.write_text("\n".join([",".join(columns), *(",".join(line.values()) for line in lines)]) + "\n")
        shop.buy(work["budget"], work["rounds"], "--lines", path)
        shop.fit(work["bad_rows"])
        bought = set(shop.bought)
        rest = [i for i in shop.on(lines) if i not in bought]
        result = {"bought": len(shop.bought), **shop.summary(rest, shop.ask(rest))}
        if work["baselines"]:
            result["baselines"] = shop.baselines(python, rest)
        return result
