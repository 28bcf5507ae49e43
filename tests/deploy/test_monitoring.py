"""Alerts and dashboard ask for metrics and labels that the services have, and the alerts fire when they should.

`prometheus_checks.py` runs the alerts.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_checks import Checks

from zerofleet.storage.streams import StreamSettings
from zerofleet.supervisor import remarks
from zerofleet.telemetry import metrics

MONITORING = Path(__file__).parents[2] / "deploy/monitoring"
OPERATORS = MONITORING.parent / "kubernetes/components/service-monitor/alerts.yaml"
HEAD = """\
# The groups of deploy/monitoring/prometheus/alerts.yml, for the Prometheus operator; `python tests/deploy/test_monitoring.py`
# writes them here.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: zerofleet
  labels: {app.kubernetes.io/part-of: zerofleet}
spec:
"""
NAMES = {name for service in metrics.EVERY for name in metrics.names(service)}
PARTS = re.compile(r"(_bucket|_sum|_count)$")

ALERTS: list[dict[str, Any]] = yaml.safe_load((MONITORING / "prometheus/alerts.yml").read_text())["groups"][0]["rules"]
BOARD: dict[str, Any] = json.loads((MONITORING / "grafana/dashboards/zerofleet.json").read_text())
PANELS: list[dict[str, Any]] = BOARD["panels"]
CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "alert_cases.yml").read_text())
LABEL = re.compile(r"{{ \$labels\.(\w+) }}")
QUERIES = [each["expr"] for each in ALERTS] + [target["expr"] for panel in PANELS for target in panel["targets"]]


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_names_metrics_that_a_service_exports(query: str) -> None:
    asked = re.findall(r"\bzerofleet_\w+", query)
    assert asked or "up" in query  # which Prometheus has of every service itself
    assert {name if name in NAMES else PARTS.sub("", name) for name in asked} <= NAMES


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_has_a_summary_and_a_remedy(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"info", "warning", "critical"}
    assert {"summary", "runbook"} == set(alert["annotations"])
    named = re.findall(r"\bzerofleet_\w+", alert["annotations"]["runbook"])
    assert set(named) <= NAMES


def test_prometheus_loads_the_alerts_and_scrapes_every_service() -> None:
    config = yaml.safe_load((MONITORING / "prometheus/prometheus.yml").read_text())
    assert config["rule_files"] == ["alerts.yml"]
    assert {each["job_name"] for each in config["scrape_configs"]} == set(metrics.EVERY)


def test_the_alert_about_dead_letters_has_the_limit_of_the_stream() -> None:
    (alert,) = (each for each in ALERTS if each["alert"] == "DeadLetters")
    assert f"zerofleet_stream_dead_entries >= {StreamSettings().dead_limit} " in alert["expr"]


def test_the_alerts_about_self_play_and_gate_have_the_limits_of_the_live_page() -> None:
    narrow, gate = (
        next(" ".join(each["expr"].split()) for each in ALERTS if each["alert"] == name)
        for name in ("SelfPlayHasBecomeNarrow", "GateHoldsLearningBack")
    )
    assert f"< {remarks.ENTROPY_LIMIT} * max_over_time" in narrow
    assert narrow.endswith(f"< {remarks.NEW_POSITIONS_LIMIT}")
    assert f"> {remarks.GATE_LIMIT} or" in gate
    assert gate.endswith(f"> {remarks.ADOPTION_LIMIT_S:.0f}")


def test_kubernetes_is_given_the_same_alerts() -> None:
    assert OPERATORS.read_text() == operators(), "write it anew: python tests/deploy/test_monitoring.py"
    rule = yaml.safe_load(OPERATORS.read_text())
    assert rule["spec"]["groups"] == yaml.safe_load((MONITORING / "prometheus/alerts.yml").read_text())["groups"]


def test_queries_name_jobs_that_prometheus_scrapes() -> None:
    asked = {job for query in QUERIES for jobs in re.findall(r'\bjob=~?"([^"]+)"', query) for job in jobs.split("|")}
    assert asked == set(metrics.EVERY)


def test_panels_query_the_provisioned_data_source() -> None:
    sources = yaml.safe_load((MONITORING / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]
    assert {panel["datasource"]["uid"] for panel in PANELS} == {each["uid"] for each in sources}
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_grafana_accepts_every_field_of_the_dashboard() -> None:
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(BOARD)))
    assert _holds(read, BOARD)


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in PANELS):
        fields = {
            (x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in fields) < 24
        assert not fields & taken
        taken |= fields


def test_every_alert_has_a_case() -> None:
    assert {case["alert"] for case in CASES} == {alert["alert"] for alert in ALERTS}


def test_prometheus_accepts_the_configuration_and_the_rules(prometheus: Checks) -> None:
    prometheus.accept(MONITORING / "prometheus/prometheus.yml", MONITORING / "prometheus/alerts.yml")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["alert"])
def test_an_alert_fires_when_it_should_and_is_quiet_otherwise(case: dict[str, Any], prometheus: Checks, tmp_path: Path) -> None:
    alert = next(each for each in ALERTS if each["alert"] == case["alert"])
    labels = case["fires"].get("labels", {})
    words = {name: LABEL.sub(lambda found: labels[found[1]], text) for name, text in alert["annotations"].items()}
    fired = [{"exp_labels": labels | alert["labels"], "exp_annotations": words}]
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in given["series"].items()],
            "alert_rule_test": [{"alertname": case["alert"], "eval_time": f"{given['at']}m", "exp_alerts": expected}],
        }
        for given, expected in ((case["fires"], fired), (case["quiet"], []))
    ]
    prometheus.hold(tests, tmp_path, MONITORING / "prometheus/alerts.yml")


def _holds(whole: Any, part: Any) -> bool:
    """Whether `part` is all in `whole`, which may have more."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and _holds(whole[name], value) for name, value in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(_holds, whole, part))
    return bool(whole == part)


def operators() -> str:
    """Return the alerts as the Prometheus operator takes them."""
    _, _, groups = (MONITORING / "prometheus/alerts.yml").read_text().partition("groups:\n")
    return HEAD + textwrap.indent(f"groups:\n{groups}", "  ")


if __name__ == "__main__":
    OPERATORS.write_text(operators())
