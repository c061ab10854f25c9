#!/usr/bin/env python3
"""Runs a real Prometheus on a server under traffic and evaluates every query of the dashboards and every rule: none is
empty, none an error, and figures are what the traffic makes them. Arguments: SERVER TRAFFIC SOURCE_DIR."""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

SERVER, TRAFFIC, SOURCE = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
DEPLOY = SOURCE / "deploy"
PATIENCE_S = 90
VARIABLES = {"$__rate_interval": "10s", "$cluster": ".*", "$device": ".*", "$model": ".*"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(address, path, **query):
    url = f"http://{address}{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
    try:
        with urllib.request.urlopen(url, timeout=30) as reply:
            return reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def panels():
    for path in sorted((DEPLOY / "grafana/dashboards").glob("*.json")):
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                yield path.stem, panel["title"], target["expr"]


class Dashboards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        root = pathlib.Path(cls.directory.name)
        server = cls.start([SERVER, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--profiles", "off",
                            "--log-level", "error", "--limit", "devices=4"], stdout=subprocess.PIPE, text=True)
        address, cls.metrics = re.search(r"listening on (\S+), metrics on (\S+)", server.stdout.readline()).groups()
        cls.traffic = cls.start([TRAFFIC, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # The configuration that is shipped, scraping faster.
        config = (DEPLOY / "prometheus/prometheus.yml").read_text(encoding="utf-8")
        config = config.replace("15s", "1s").replace("localhost:7411", cls.metrics)
        (root / "prometheus.yml").write_text(config, encoding="utf-8")
        shutil.copy(DEPLOY / "prometheus/alerts.yml", root)
        cls.prometheus = f"127.0.0.1:{free_port()}"
        cls.start(["prometheus", f"--config.file={root}/prometheus.yml", f"--storage.tsdb.path={root}/data",
                   f"--web.listen-address={cls.prometheus}", "--log.level=error"])

    @classmethod
    def start(cls, arguments, **options):
        process = subprocess.Popen(arguments, **options)
        cls.addClassCleanup(process.__exit__, None, None, None)  # closes pipes and waits
        cls.addClassCleanup(process.terminate)
        return process

    def query(self, expr):
        for name, value in VARIABLES.items():
            expr = expr.replace(name, value)
        try:
            reply = json.loads(get(self.prometheus, "/api/v1/query", query=expr))
        except (OSError, json.JSONDecodeError):
            return None  # not up yet
        self.assertEqual(reply["status"], "success", f"{expr}: {reply.get('error')}")
        return reply["data"]["result"]

    def wait_for(self, expr, holds):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            result = self.query(expr)
            if result and holds(result):
                return result
            self.assertLess(time.monotonic(), deadline, f"{expr}: {result}")
            time.sleep(0.2)

    def wait_for_figures(self):
        self.wait_for('gpueta_drift_state{device="t4",op="gemm"}', lambda r: float(r[0]["value"][1]) == 1)
        self.wait_for("count_over_time(up[20s])", lambda r: float(r[0]["value"][1]) >= 10)

    def test_every_panel_shows_something(self):
        self.wait_for_figures()
        for dashboard, title, expr in panels():
            with self.subTest(dashboard=dashboard, panel=title):
                result = self.wait_for(expr, bool)
                self.assertTrue(result)
                self.assertTrue(any(r["value"][1] != "NaN" for r in result), f"{expr}: {result}")

    def test_every_rule_evaluates_and_figures_are_there(self):
        self.wait_for_figures()
        groups = json.loads(get(self.prometheus, "/api/v1/rules"))["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertGreaterEqual(len(rules), 14)
        for rule in rules:
            with self.subTest(rule=rule["name"]):
                self.assertEqual(rule["health"], "ok", rule.get("lastError"))
                if rule["type"] == "recording":
                    self.wait_for(rule["name"], bool)
                else:
                    self.assertTrue((SOURCE / rule["annotations"]["runbook_url"]).exists())
        self.wait_for('ALERTS{alertname="GpuetaDrift",device="t4",op="gemm"}', bool)

    def test_figures_are_what_the_traffic_made_them(self):
        self.wait_for_figures()
        accepted = self.wait_for('gpueta_observations_total{outcome="accepted"}', bool)
        scraped = float(accepted[0]["value"][1])
        self.assertEqual(scraped % 120, 0)  # whole rounds of 120
        self.assertGreater(scraped, 0)
        count = self.query("sum(gpueta_prediction_error_ratio_count) - on() sum(gpueta_observations_total{outcome=\"accepted\"})")
        self.assertEqual(float(count[0]["value"][1]), 0)
        # Graphs are observed at 1.1 times the prediction; the correction follows.
        factor = self.wait_for('gpueta_correction_factor_ratio{op="graph",size="medium"}',
                               lambda r: float(r[0]["value"][1]) > 1.08)
        self.assertLess(float(factor[0]["value"][1]), 1.12)
        tasks = self.query('gpueta_calibration_tasks_open{reason="drift"}')
        self.assertEqual(float(tasks[0]["value"][1]), 1)

    def test_metrics_follow_the_conventions_and_are_few(self):
        self.wait_for_figures()
        text = get(self.metrics, "/metrics")
        lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((lint.returncode, lint.stdout + lint.stderr), (0, ""))
        self.assertLess(sum(not line.startswith("#") for line in text.splitlines()), 5000)

    def test_the_checked_in_files_are_sound(self):
        for command in (["deploy/grafana/generate.py", "--check"],):
            subprocess.run([sys.executable, *command], cwd=SOURCE, check=True)
        for command in (["check", "config", "deploy/prometheus/prometheus.yml"], ["test", "rules", "deploy/prometheus/alerts_test.yml"]):
            done = subprocess.run(["promtool", *command], cwd=SOURCE, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
