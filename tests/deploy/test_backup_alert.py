"""The alert of the component `backup-alerts`: it names the job of `backup`, and fires after a day without a backup."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from manifests import of_kind
from prometheus_checks import Checks

JOB = '{namespace="zerofleet", cronjob="backup"}'
CREATED, SUCCEEDED = f"kube_cronjob_created{JOB}", f"kube_cronjob_status_last_successful_time{JOB}"

# Series in promtool's notation, a sample a minute, values in seconds since the first: 90,000 are 25 hours.
FIRES: dict[str, dict[str, str]] = {
    "the latest backup is older than a day": {CREATED: "-200000x80", SUCCEEDED: "-90000x80"},
    "none has ever succeeded": {CREATED: "-90000x80"},
    "there is no job": {},
}
QUIET: dict[str, dict[str, str]] = {
    "a backup has succeeded at last": {CREATED: "-200000x80", SUCCEEDED: "-90000x50 3000x30"},
    "the latest backup is 20 hours old": {CREATED: "-200000x80", SUCCEEDED: "-70000x80"},
    "the job is new": {CREATED: "0+0x80"},
}


@pytest.fixture
def rule(composed) -> dict[str, Any]:
    """Return the specification of the rules, rendered with those of the services."""
    spec: dict[str, Any] = of_kind(composed("local", "service-monitor", "backup", "backup-alerts"), "PrometheusRule")[
        "zerofleet-backup"
    ]["spec"]
    return spec


def test_the_alert_about_backups_names_the_job_of_the_component(composed, rule) -> None:
    (job,) = of_kind(composed("local", "backup"), "CronJob").values()
    (alert,) = (each for group in rule["groups"] for each in group["rules"])
    asked = set(re.findall(r"kube_cronjob_\w+({[^}]*})", alert["expr"]))
    assert asked == {f'{{namespace="{job["metadata"]["namespace"]}", cronjob="{job["metadata"]["name"]}"}}'}


@pytest.mark.parametrize(("series", "fires"), [(each, True) for each in FIRES] + [(each, False) for each in QUIET])
def test_the_alert_about_backups_fires_after_a_day_without_one(
    rule, prometheus: Checks, tmp_path: Path, series: str, fires: bool
) -> None:
    (alert,) = rule["groups"][0]["rules"]
    fired = {
        "exp_labels": {"namespace": "zerofleet", "cronjob": "backup"} | alert["labels"],
        "exp_annotations": alert["annotations"],
    }
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in (FIRES | QUIET)[series].items()],
        "alert_rule_test": [{"alertname": alert["alert"], "eval_time": "70m", "exp_alerts": [fired] if fires else []}],
    }
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rule))
    prometheus.hold([case], tmp_path, tmp_path / "rules.yml")
