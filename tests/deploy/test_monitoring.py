"""Alerts and dashboard ask for metrics and labels that the services have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from zerofleet import metrics

MONITORING = Path(__file__).parents[2] / "deploy/monitoring"
NAMES = {name for service in metrics.EVERY for name in metrics.names(service)}
PARTS = re.compile(r"(_bucket|_sum|_count)$")

ALERTS: list[dict[str, Any]] = yaml.safe_load((MONITORING / "prometheus/alerts.yml").read_text())["groups"][0]["rules"]
PANELS: list[dict[str, Any]] = json.loads((MONITORING / "grafana/dashboards/zerofleet.json").read_text())["panels"]
QUERIES = [each["expr"] for each in ALERTS] + [target["expr"] for panel in PANELS for target in panel["targets"]]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_metrics_that_a_service_has(query: str) -> None:
    asked = re.findall(r"\bzerofleet_\w+", query)
    assert asked or "up" in query  # which Prometheus has of every service itself
    assert {name if name in NAMES else PARTS.sub("", name) for name in asked} <= NAMES


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_it_means_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"info", "warning", "critical"}
    assert {"summary", "runbook"} == set(alert["annotations"])
    named = re.findall(r"\bzerofleet_\w+", alert["annotations"]["runbook"])
    assert set(named) <= NAMES


def test_prometheus_reads_the_alerts_and_looks_for_every_service() -> None:
    config = yaml.safe_load((MONITORING / "prometheus/prometheus.yml").read_text())
    assert config["rule_files"] == ["alerts.yml"]
    assert {each["job_name"] for each in config["scrape_configs"]} == set(metrics.EVERY)


def test_panels_ask_the_data_source_that_is_provisioned() -> None:
    sources = yaml.safe_load((MONITORING / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]
    assert {panel["datasource"]["uid"] for panel in PANELS} == {each["uid"] for each in sources}
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
