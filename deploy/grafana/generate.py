#!/usr/bin/env python3
"""Writes the dashboards in dashboards/ from the panels below; --check says whether they are up to date."""

import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent / "dashboards"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24  # columns of Grafana's grid

BY_DEVICE = 'cluster=~"$cluster",device=~"$device"'
BY_CLUSTER = 'cluster=~"$cluster"'
COUNT = "gpueta_prediction_error_ratio_count"


def rate(metric, labels):
    return f"rate({metric}{{{labels}}}[$__rate_interval])"


def share(part, whole, labels, by):
    return f"sum by ({by}) ({rate(part, labels)}) / sum by ({by}) ({rate(whole, labels)})"


def panel(title, queries, *, unit="short", kind="timeseries", width=12, about="", stops=None, minimum=None):
    """queries: {legend: PromQL}."""
    targets = [
        {"datasource": DATASOURCE, "refId": chr(ord("A") + i), "expr": expr, "legendFormat": legend,
         **({"format": "heatmap"} if kind == "heatmap" else {}), **({"instant": True, "format": "table"} if kind == "table" else {})}
        for i, (legend, expr) in enumerate(queries.items())
    ]
    defaults = {"unit": unit}
    if minimum is not None:
        defaults["min"] = minimum
    if stops:
        defaults["thresholds"] = {"mode": "absolute", "steps": [{"color": c, "value": v} for v, c in stops]}
        if kind == "timeseries":
            defaults["custom"] = {"thresholdsStyle": {"mode": "line"}}
    return {"title": title, "type": kind, "description": about, "datasource": DATASOURCE, "targets": targets,
            "fieldConfig": {"defaults": defaults, "overrides": []}, "width": width}


PREDICTION_ERROR = [
    panel("Mean absolute error", {"{{device}} {{op}}": f"gpueta_prediction_recent_mape_ratio{{{BY_DEVICE}}}"},
          unit="percentunit", minimum=0, about="Of the latest observations, some 200 of each device and op."),
    panel("Bias", {"{{device}} {{op}}": f"gpueta_prediction_recent_bias_ratio{{{BY_DEVICE}}} - 1"}, unit="percentunit",
          about="Predicted over observed, less 1: above 0 the predictions are too long."),
    panel("Observed at or below p90",
          {"{{device}} {{op}}": share("gpueta_prediction_below_p90_total", COUNT, BY_DEVICE, "device, op")},
          unit="percentunit", stops=[(None, "red"), (0.85, "green")], about="Nominal: 90 %."),
    panel("Observed at or below p99",
          {"{{device}} {{op}}": share("gpueta_prediction_below_p99_total", COUNT, BY_DEVICE, "device, op")},
          unit="percentunit", stops=[(None, "red"), (0.97, "green")], about="Nominal: 99 %."),
    panel("Predicted over observed", {"{{le}}": f"sum by (le) ({rate('gpueta_prediction_error_ratio_bucket', BY_DEVICE)})"},
          kind="heatmap", about="Around 1 is right."),
    panel("Error by length of the work",
          {"{{device}} {{size}}": share("gpueta_prediction_absolute_error_ratio_total", "gpueta_prediction_observed_total",
                                        BY_DEVICE, "device, size")},
          unit="percentunit", minimum=0, about="short: below 16 µs, medium: up to 1 ms, long: above, as predicted without correction."),
    panel("Worst models", {"{{device}} {{model}}":
          f'topk(20, gpueta_model_prediction_mape_ratio{{{BY_DEVICE},model=~"$model"}})'},
          unit="percentunit", kind="table", about="Mean absolute error of the last hour."),
    panel("Observations", {"{{outcome}}": f"sum by (outcome) ({rate('gpueta_observations_total', BY_CLUSTER)})"},
          unit="ops", minimum=0, about="What was reported and what became of it."),
]

SERVICE = [
    panel("Calls", {"{{grpc_method}}": f"sum by (grpc_method) ({rate('grpc_server_started_total', BY_CLUSTER)})"},
          unit="reqps", minimum=0),
    panel("Kernels predicted", {"{{op}} {{provenance}}":
          f"sum by (op, provenance) ({rate('gpueta_predictions_total', BY_CLUSTER)}) > 0"}, unit="ops", minimum=0),
    panel("Failed calls", {"{{grpc_method}} {{grpc_code}}":
          "sum by (grpc_method, grpc_code) (" + rate("grpc_server_handled_total", BY_CLUSTER + ',grpc_code!="OK"') + ")"},
          unit="reqps", minimum=0),
    panel("Shed calls", {"shed": "sum(" +
          rate("grpc_server_handled_total", BY_CLUSTER + ',grpc_code="ResourceExhausted"') + ") or vector(0)"},
          unit="reqps", minimum=0, about="Refused because a limit was reached."),
    panel("Duration of calls, p50 and p99", {
        "{{grpc_method}} " + name:
        f"histogram_quantile({q}, sum by (le, grpc_method) ("
        + rate("grpc_server_handling_seconds_bucket", BY_CLUSTER + ',grpc_type="unary"') + ")) > 0"
        for name, q in (("p50", 0.5), ("p99", 0.99))}, unit="s", minimum=0),
    panel("Open calls", {"{{grpc_method}}":
          f"sum by (grpc_method) (grpc_server_started_total{{{BY_CLUSTER}}}) - "
          f"sum by (grpc_method) (grpc_server_handled_total{{{BY_CLUSTER}}})"}, minimum=0, about="Streams and watches."),
    panel("Processor", {"{{instance}}": rate("process_cpu_seconds_total", BY_CLUSTER + ',job="gpueta"')}, minimum=0,
          about="Cores in use."),
    panel("Memory", {"{{instance}}": f'process_resident_memory_bytes{{{BY_CLUSTER},job="gpueta"}}'}, unit="bytes", minimum=0),
]

CALIBRATION = [
    panel("Age of profiles", {"{{device}}": f"max by (device) (gpueta_profile_age_seconds{{{BY_DEVICE}}})"}, unit="s",
          minimum=0),
    panel("Active profiles", {"": f"gpueta_profile_info{{{BY_DEVICE}}}"}, kind="table"),
    panel("Drift", {"{{device}} {{op}}": f"gpueta_drift_state{{{BY_DEVICE}}}"},
          about="1: the device became slower than its profile, -1: faster, 0: neither."),
    panel("Correction", {"{{device}} {{op}} {{size}}": f"gpueta_correction_factor_ratio{{{BY_DEVICE}}}"},
          about="Factor learnt from observations; between 0.5 and 2."),
    panel("Nodes", {"{{device}} {{op}}": f"gpueta_observed_nodes{{{BY_DEVICE}}}"}, minimum=0),
    panel("Nodes in alarm by themselves", {"{{device}} {{op}}": f"gpueta_drifted_nodes{{{BY_DEVICE}}}"}, minimum=0),
    panel("Open calibration tasks", {"{{reason}}": f"sum by (reason) (gpueta_calibration_tasks_open{{{BY_CLUSTER}}})"},
          minimum=0),
    panel("Profiles replaced", {"swaps": f"sum(increase(gpueta_snapshot_swaps_total{{{BY_CLUSTER}}}[$__rate_interval]))"},
          minimum=0),
]


def variable(name, query):
    return {"name": name, "type": "query", "datasource": DATASOURCE, "query": {"query": query, "refId": name},
            "refresh": 2, "multi": True, "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}


def dashboard(uid, title, panels, variables):
    x = y = 0
    placed = []
    for i, p in enumerate(panels):
        p = dict(p)
        width = p.pop("width")
        if x + width > WIDTH:
            x, y = 0, y + 8
        placed.append({"id": i + 1, **p, "gridPos": {"x": x, "y": y, "w": width, "h": 8}})
        x += width
    datasource = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source",
                  "current": {}}
    return {"uid": uid, "title": title, "tags": ["gpueta"], "schemaVersion": 38, "version": 1, "editable": False,
            "timezone": "", "refresh": "30s", "time": {"from": "now-6h", "to": "now"}, "annotations": {"list": []},
            "templating": {"list": [datasource, *variables]}, "panels": placed}


CLUSTER = variable("cluster", "label_values(up{job=\"gpueta\"}, cluster)")
DEVICE = variable("device", 'label_values(gpueta_profile_age_seconds{cluster=~"$cluster"}, device)')
MODEL = variable("model", 'label_values(gpueta_model_prediction_mape_ratio{cluster=~"$cluster"}, model)')

DASHBOARDS = {
    "prediction_error.json": dashboard("gpueta-error", "gpueta: prediction error", PREDICTION_ERROR, [CLUSTER, DEVICE, MODEL]),
    "service.json": dashboard("gpueta-service", "gpueta: service", SERVICE, [CLUSTER]),
    "calibration.json": dashboard("gpueta-calibration", "gpueta: calibration", CALIBRATION, [CLUSTER, DEVICE]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    check = parser.parse_args().check
    stale = []
    for name, content in DASHBOARDS.items():
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        path = HERE / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text, encoding="utf-8")
    extra = {p.name for p in HERE.glob("*.json")} - DASHBOARDS.keys()
    if check and (stale or extra):
        sys.exit(f"not as {pathlib.Path(__file__).name} makes them: {', '.join([*stale, *sorted(extra)])}; run it")


if __name__ == "__main__":
    main()
