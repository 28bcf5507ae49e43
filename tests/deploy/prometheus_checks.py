"""What checks alerts and queries: our evaluation of PromQL on every machine, and promtool where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import jsonschema
import promql
import promql_parser
import yaml

SCHEMAS = Path(__file__).parent / "prometheus_schemas.yml"
_LABEL = re.compile(r"{{ *\$labels\.(\w+) *}}")


class Checks(Protocol):
    """Checks of what Prometheus is given."""

    def accept(self, config: Path, rules: Path) -> None:
        """Fail unless configuration and rules are valid."""
        ...

    def hold(self, cases: list[dict[str, Any]], folder: Path, *rules: Path) -> None:
        """Fail unless the cases hold, which are as `promtool test rules` takes them, with these files of rules."""
        ...


class Promtool:
    """Prometheus itself."""

    def accept(self, config: Path, rules: Path) -> None:
        self._run("check", "config", "--lint=all", "--lint-fatal", str(config))
        self._run("check", "rules", "--lint=all", "--lint-fatal", str(rules))

    def hold(self, cases: list[dict[str, Any]], folder: Path, *rules: Path) -> None:
        file = folder / "test.yml"
        file.write_text(yaml.safe_dump({"rule_files": [str(path) for path in rules], "tests": cases}))
        self._run("test", "rules", str(file))

    def _run(self, *words: str) -> None:
        done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


class Evaluation:
    """`promql.py` and schemas of the fields in use."""

    def accept(self, config: Path, rules: Path) -> None:
        schemas = yaml.safe_load(SCHEMAS.read_text())
        read = yaml.safe_load(rules.read_text())
        jsonschema.validate(yaml.safe_load(config.read_text()), schemas["config"])
        jsonschema.validate(read, schemas["rules"])
        for rule in _rules(rules):
            promql_parser.parse(rule["expr"])
            _seconds(rule["for"])
            texts = rule["annotations"].values()
            assert not [text for text in texts if "{{" in _LABEL.sub("", text)], (
                f"{rule['alert']}: want {{{{ $labels.NAME }}}} only"
            )

    def hold(self, cases: list[dict[str, Any]], folder: Path, *rules: Path) -> None:
        known = [rule for path in rules for rule in _rules(path)]
        for case in cases:
            interval_s = _seconds(case["interval"])
            series = promql.read_series(((each["series"], each["values"]) for each in case["input_series"]), interval_s)
            for wanted in case.get("promql_expr_test", ()):
                found = promql.value(wanted["expr"], series, _seconds(wanted["eval_time"]))
                expected = {
                    frozenset[tuple[str, str]](): each["value"] for each in wanted["exp_samples"] if each["labels"] == "{}"
                }
                assert len(expected) == len(wanted["exp_samples"]), "only samples without labels are compared"
                assert found.keys() == expected.keys(), wanted
                assert all(abs(found[labels] - expected[labels]) < 1e-9 for labels in found), (found, wanted)
            for wanted in case.get("alert_rule_test", ()):
                fired = [
                    alert
                    for rule in known
                    if rule["alert"] == wanted["alertname"]
                    for alert in _fired(rule, series, _seconds(wanted["eval_time"]), interval_s)
                ]
                expected = [_comparable(each["exp_labels"], each["exp_annotations"]) for each in wanted["exp_alerts"]]
                assert sorted(fired) == sorted(expected), wanted


def found() -> list[Checks]:
    """Return the checks of this machine."""
    return [Evaluation(), *([Promtool()] if shutil.which("promtool") else [])]


def _fired(rule: dict[str, Any], series: promql.Series, until_s: float, interval_s: float) -> Iterator[Any]:
    """Yield labels and annotations of what fires at a time: its expression held at each evaluation for the rule's time."""
    since: dict[promql.Labels, float] = {}
    for number in range(int(until_s // interval_s) + 1):
        now_s = number * interval_s
        active = {promql.unnamed(labels) for labels in promql.value(rule["expr"], series, now_s)}
        since = {labels: since.get(labels, now_s) for labels in active}
    for labels, begun_s in since.items():
        if now_s - begun_s >= _seconds(rule["for"]):
            texts = dict(labels)
            said = {name: _LABEL.sub(lambda field: texts.get(field[1], ""), text) for name, text in rule["annotations"].items()}  # noqa: B023 - used at once
            yield _comparable(texts | rule["labels"], said)


def _comparable(labels: dict[str, str], annotations: dict[str, str]) -> tuple[Any, Any]:
    return tuple(sorted(labels.items())), tuple(sorted(annotations.items()))


def _rules(path: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def _seconds(duration: str) -> float:
    return float(promql_parser.parse_duration(duration).total_seconds()) if re.search("[1-9]", duration) else 0.0
