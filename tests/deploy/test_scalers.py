"""Scalers of workers: what they ask for is there, and they add none where nothing could serve them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from manifests import KUBERNETES, ROOT, SCALERS, of_kind, workloads
from prometheus_checks import Checks

from selfplay_worker.settings import WorkerSettings
from zerofleet.storage.streams.base import StreamSettings
from zerofleet.telemetry import metrics


def _queries(composed) -> dict[str, str]:
    rules = yaml.safe_load((KUBERNETES / "components/autoscaling-hpa/adapter-rules.yaml").read_text())["externalRules"]
    scaled = of_kind(composed("local", "autoscaling-keda"), "ScaledObject")["selfplay-worker"]["spec"]
    return {"hpa": rules[0]["metricsQuery"], "keda": scaled["triggers"][0]["metadata"]["query"]}


def test_scalers_query_metrics_that_services_export(composed) -> None:
    names = {name for service in metrics.EVERY for name in metrics.names(service)}
    for query in _queries(composed).values():
        asked = {re.sub(r"_bucket$", "", name) for name in re.findall(r"\bzerofleet_\w+", query)}
        assert asked
        assert asked <= names
        assert query.count("(") == query.count(")")


def test_both_scalers_compute_the_same_headroom(composed) -> None:
    plain = {name: re.sub(r"\{[^}]*\}|\s+", "", query) for name, query in _queries(composed).items()}
    assert plain["hpa"].startswith(f"({plain['keda']})")


def test_the_autoscaler_queries_the_metric_that_the_adapter_serves(composed) -> None:
    rule = yaml.safe_load((KUBERNETES / "components/autoscaling-hpa/adapter-rules.yaml").read_text())["externalRules"][0]
    scaler = of_kind(composed("local", "autoscaling-hpa"), "HorizontalPodAutoscaler")["selfplay-worker"]["spec"]
    assert [each["external"]["metric"]["name"] for each in scaler["metrics"]] == [rule["name"]["as"]]


@pytest.mark.parametrize("option", SCALERS)
def test_only_the_scaler_sets_the_number_of_workers(composed, option: str) -> None:
    documents = composed("local", option)
    (scaler,) = of_kind(documents, "HorizontalPodAutoscaler", "ScaledObject").values()
    target = scaler["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", "selfplay-worker")
    assert "replicas" not in workloads(documents)["selfplay-worker"]["spec"]


def test_keda_stops_workers_before_their_stream_is_full(composed) -> None:
    documents = composed("local", "autoscaling-keda")
    scaled = of_kind(documents, "ScaledObject")["selfplay-worker"]["spec"]
    lag = scaled["triggers"][1]["metadata"]
    assert lag["stream"] == WorkerSettings.model_fields["stream_name"].default
    assert int(lag["streamLength"]) < StreamSettings.model_fields["high_water"].default
    names = {trigger["name"] for trigger in scaled["triggers"]}
    formula = scaled["advanced"]["scalingModifiers"]["formula"]
    assert set(re.findall(r"[a-z_]+", formula)) == names
    assert lag["streamLength"] in formula
    assert lag["address"].partition(".")[0] in of_kind(documents, "Service")


NAMESPACE = 'namespace="zerofleet"'
BUCKET = 'zerofleet_inference_queue_seconds_bucket{namespace="zerofleet", le="%s"}'
LOADED = {'zerofleet_inference_version_loaded{namespace="zerofleet", model="othello", version="1"}': "1x10"}
IDLE = {BUCKET % le: "0x10" for le in ("0.01", "0.02", "+Inf")}
# Each request waits 10 to 20 ms, nine in ten of them less than 19.
SLOW = {BUCKET % "0.01": "0x10", BUCKET % "0.02": "0+60x10", BUCKET % "+Inf": "0+60x10"}
LAG = 'zerofleet_stream_lag_entries{namespace="zerofleet"}'


@pytest.mark.parametrize(
    ("series", "headroom"),
    [
        (SLOW | LOADED, 0.526),
        (IDLE | LOADED, 2.0),
        (LOADED, 2.0),  # the server has just come
        ({}, None),  # Triton serves, which has none of these metrics
        (IDLE, None),  # no version is served yet
        (IDLE | dict.fromkeys(LOADED, "1x3 stale"), None),  # it is given back
        ({name: values.replace("x10", "x3 stale") for name, values in (SLOW | LOADED).items()}, None),  # the server is gone
        (IDLE | {name.replace('zerofleet"', 'other"'): values for name, values in LOADED.items()}, None),
    ],
)
def test_workers_are_added_only_while_a_server_has_a_model(
    composed, prometheus: Checks, tmp_path: Path, series: dict[str, str], headroom: float | None
) -> None:
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": each, "values": values} for each, values in (series | {LAG: f"{lag}x10"}).items()],
            "promql_expr_test": [
                {
                    "expr": f"round({query.replace('<<.LabelMatchers>>', NAMESPACE)}, 0.001)",
                    "eval_time": "8m",
                    "exp_samples": [] if headroom is None else [{"labels": "{}", "value": headroom if counts else 0.0}],
                }
            ],
        }
        for name, query in _queries(composed).items()
        for lag, counts in ((100, True), (6000, name == "keda"))  # which asks Redis for the lag, and not here
    ]
    prometheus.hold(tests, tmp_path)


def test_keda_reads_the_length_of_the_stream_for_which_its_user_has_the_right(composed) -> None:
    """With a consumer group and a lag KEDA sends INFO first, which is not limited to a key; the group's lag may be unknown."""
    lag = of_kind(composed("local", "autoscaling-keda"), "ScaledObject")["selfplay-worker"]["spec"]["triggers"][1]["metadata"]
    (rights,) = re.findall(r"^user scaler .*", (ROOT / "docs/kubernetes.md").read_text(), re.MULTILINE)
    assert "consumerGroup" not in lag
    assert rights.endswith(f" ~{lag['stream']} -@all +ping +xlen")


def test_keda_treats_a_query_without_a_result_as_an_error_and_not_as_zero(composed) -> None:
    scaled = of_kind(composed("local", "autoscaling-keda"), "ScaledObject")["selfplay-worker"]["spec"]
    assert scaled["triggers"][0]["metadata"]["ignoreNullValues"] == "false"
    assert "fallback" not in scaled
