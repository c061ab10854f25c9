"""Devices that gpueta never saw: each is left out of the transfer profile, then 0, 10 and 50 of its rows are given.

The pool is fitted to the other devices' rows of the same table; shots are random rows of the left-out device, the
other rows asked for are predicted. Latencies of rows that are not shots never reach gpueta.
"""

import csv
import random
import statistics
import tempfile
from pathlib import Path

from accuracy_run import line_of, summarise
from accuracy_tables import LAUNCH, OUTCOME

SHOTS = (10, 50)
MOST_ASKED = 5000  # rows of a device, chosen once at random


class Table:
    """The rows of one table of all devices, as lines of its file."""

    def __init__(self, data, entry):
        self.entry = entry
        with open(Path(data) / entry["file"], newline="") as file:
            reader = csv.reader(file)
            self.header = next(reader)
            self.at = {column: i for i, column in enumerate(self.header)}
            self.rows = [row for row in reader if self.matches(row, entry["pool"])]
        keep_kernel = entry["file"] == "attention.csv"  # there it is the library asked for
        self.hidden = {self.at[c] for c in (OUTCOME if keep_kernel else LAUNCH + OUTCOME) if c in self.at}

    def matches(self, row, wanted):
        return all(row[self.at[c]] == v for c, v in wanted.items())

    def device(self, row):
        return row[self.at["device"]]

    def latency(self, row):
        return float(row[self.at["latency_us"]])

    def write(self, path, rows, hide=False):
        lines = (line_of(["" if hide and i in self.hidden else cell for i, cell in enumerate(row)]) for row in rows)
        path.write_text("\n".join([",".join(self.header), *lines]) + "\n")
        return path


class LeftOut:
    """One device of a table, and what gpueta knows without it."""

    def __init__(self, tool, table, device, folder):
        self.tool, self.table, self.device, self.folder = tool, table, device, Path(folder)
        self.base = self.folder / "base"
        self.base.mkdir()
        pool = table.write(self.folder / "pool.csv", [row for row in table.rows if table.device(row) != device])
        tool("fit", "--pool", "--exclude", device, "--measurements", pool, "--out", self.base / "transfer.profile")

    def predict(self, rows, profiles, *options):
        self.table.write(self.folder / "asked.csv", rows, hide=True)
        self.tool(*profiles, "predict", "--kernels", self.folder / "asked.csv", "--out", self.folder / "out.csv", *options)
        with open(self.folder / "out.csv", newline="") as file:
            answers = list(csv.DictReader(file))
        return summarise([(float(a["p50_us"]), float(a["p90_us"]), float(a["p99_us"]), self.table.latency(row))
                          for a, row in zip(answers, rows, strict=True)])

    def results(self, draws):
        """{"0": …, "10": [one a draw], "50": […], "roofline": …, "inter-gpu": …} for the entry's rows."""
        table, entry = self.table, self.table.entry
        own = [row for row in table.rows if table.device(row) == self.device and table.matches(row, entry["asked"])]
        asked = own if len(own) <= MOST_ASKED else random.Random(0).sample(own, MOST_ASKED)
        base = ["--profiles", self.base]
        found = {"0": self.predict(asked, base)}
        for form in ("roofline", "inter-gpu"):
            found[form] = self.predict(asked, base, "--estimator", form)
        for shots in SHOTS:
            if shots + 20 > len(asked):
                continue
            found[str(shots)] = [self.with_shots(asked, shots, draw) for draw in range(draws)]
        return found

    def with_shots(self, asked, shots, draw):
        chosen = set(random.Random(draw).sample(range(len(asked)), shots))
        measured = self.table.write(self.folder / "shots.csv", [asked[i] for i in sorted(chosen)])
        profile = self.folder / "own.profile"
        self.tool("fit", "--device", self.device, "--base", self.base, "--exclude", self.device, "--measurements",
                  measured, "--out", profile)
        return self.predict([row for i, row in enumerate(asked) if i not in chosen], [], "--profile", profile)


def one_device(tool, data, entry, device, draws):
    with tempfile.TemporaryDirectory() as folder:
        return LeftOut(tool, Table(data, entry), device, folder).results(draws)


MOST_WORSE, LEAST_SHARE = 1.1, 0.95  # of the error with fewer shots; of draws


def never_worse(result):
    """By number of shots: mean error before and after, and the share of draws within MOST_WORSE of the error before."""
    found, before = {}, result["0"]["mape"]
    for shots in map(str, SHOTS):
        if shots not in result:
            continue
        after = [draw["mape"] for draw in result[shots]]
        earlier = before if isinstance(before, list) else [before] * len(after)
        within = sum(a <= MOST_WORSE * b for a, b in zip(after, earlier, strict=True)) / len(after)
        found[shots] = {"before": statistics.fmean(earlier), "after": statistics.fmean(after), "within": within}
        before = after
    return found


def markdown_never_worse(results):
    """Where more shots are worse on average, or often by more than a tenth."""
    lines = [f"| table | device left out | shots | mean error before | after | draws within {MOST_WORSE} times before |",
             "|---|---|--:|--:|--:|--:|"]
    cases = 0
    for result in results:
        for shots, case in never_worse(result["errors"]).items():
            cases += 1
            if case["after"] > case["before"] or case["within"] < LEAST_SHARE:
                lines.append(f"| {result['table']} | {result['device']} | {shots} | {100 * case['before']:.1f} | "
                             f"{100 * case['after']:.1f} | {100 * case['within']:.0f} % |")
    kept = cases - (len(lines) - 2)
    title = (f"More shots are no worse on average, and within {MOST_WORSE} times the error before in "
             f"{100 * LEAST_SHARE:.0f} % of draws, in {kept} of {cases} cases.")
    return [title] if kept == cases else [title + " The others:", "", *lines]


def devices_of(data, entry):
    table = Table(data, entry)
    return sorted({table.device(row) for row in table.rows})


def mean_over(results, kind, field="mape"):
    """Mean over devices (and draws) of a field; None where no device has it."""
    values = []
    for result in results:
        some = result.get(kind)
        if some:
            values.append(statistics.fmean(s[field] for s in some) if isinstance(some, list) else some[field])
    return statistics.fmean(values) if values else None


def markdown(entries, results):
    """A row a device and their mean: MAPE by shots and of the other forms, observed at or below p90."""
    kinds = ("0", *map(str, SHOTS), "roofline", "inter-gpu")
    lines = ["| table | device left out | 0 shots | 10 | 50 | data sheet | inter-GPU form | below p90: 0 | 10 | 50 |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"]

    def cells(some):
        means = [mean_over(some, kind) for kind in kinds] + [mean_over(some, kind, "below_p90") for kind in kinds[:3]]
        return " | ".join("–" if value is None else f"{100 * value:.1f}" for value in means)

    for entry in entries:
        of_table = [r for r in results if r["table"] == entry["name"]]
        for result in of_table:
            lines.append(f"| {entry['name']} | {result['device']} | {cells([result['errors']])} |")
        figures = " / ".join(map(str, entry["figures"].values()))
        lines.append(f"| **{entry['name']}** | mean (to reach: {figures}) | {cells([r['errors'] for r in of_table])} |")
    return lines
