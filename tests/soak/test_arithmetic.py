"""The arithmetic of a soak: slopes of memory and their intervals, which lines of logs are explained, and the report."""

import json

import numpy as np
import pytest
from soak_faults import BY_NAME, Harm
from soak_logs import ECHO_S, EXPLANATIONS, ITSELF, Line, event_of, explain, loud
from soak_memory import Sample, slope
from soak_report import Findings, write


def life(name, values, *, every_s=5.0, began_s=0.0, service="trainer"):
    return [Sample(service, name, began_s + every_s * i, every_s * i, float(v)) for i, v in enumerate(values)]


def test_the_slope_of_lives_at_different_levels_is_their_common_one():
    minutes = np.arange(60) * 5.0 / 60
    samples = life("a", 100 + 2 * minutes) + life("b", 300 + 2 * minutes, began_s=400)
    found = slope(samples, warm_up_s=0)
    assert found.mib_per_min == pytest.approx(2)
    assert found.low == pytest.approx(2)
    assert (found.lives, found.samples) == (2, 120)


def test_growth_while_warming_up_is_left_out():
    values = [*np.linspace(0, 500, 20), *([500] * 40)]
    assert slope(life("a", values), warm_up_s=100).mib_per_min == pytest.approx(0)
    assert slope(life("a", values), warm_up_s=0).mib_per_min > 50


def test_lives_too_short_to_say_anything_say_nothing():
    assert slope(life("a", [1, 2, 3]), warm_up_s=0) is None
    assert slope([], warm_up_s=0) is None


@pytest.mark.parametrize("likeness", [0.0, 0.7])
def test_the_interval_holds_the_true_slope_about_nineteen_times_in_twenty(likeness):
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        noise = np.zeros(120)
        for i in range(1, 120):
            noise[i] = likeness * noise[i - 1] + rng.normal()
        found = slope(life("a", 0.5 * np.arange(120) * 5 / 60 + noise), warm_up_s=0)
        held += found.low <= 0.5 <= found.high
    assert held >= 0.90 * 300


def line(service, at_s=10.0, **fields):
    return Line(service, at_s, json.dumps(fields))


def test_warnings_errors_and_lines_of_unknown_form_are_loud():
    assert loud(line("trainer", level="warning", event="stream.away"))
    assert loud(line("trainer", level="critical", event="x"))
    assert not loud(line("trainer", level="info", event="x"))
    assert loud(Line("trainer", 0, "Traceback (most recent call last):"))
    assert loud(Line("trainer", 0, "[1, 2]"))
    assert not loud(Line("trainer", 0, " "))
    assert loud(Line("redis", 0, "7:M 21 Nov 2026 12:00:00.123 # Out of memory"))
    assert not loud(Line("redis", 0, "7:M 21 Nov 2026 12:00:00.123 * Ready to accept connections"))


def killed(service, at_s):
    return Harm("kill", service, at_s, at_s)


def test_a_line_is_explained_by_a_kill_of_its_cause_shortly_before_and_by_nothing_else():
    away = line("trainer", at_s=200.0, level="warning", event="stream.away")
    assert explain(away, [killed("redis", 150.0)])
    assert explain(away, []) is None
    assert explain(away, [killed("gatekeeper", 150.0)]) is None
    assert explain(away, [killed("redis", 201.0)]) is None
    assert explain(away, [killed("redis", 200.0 - ECHO_S - 1)]) is None
    assert explain(line("trainer", level="error", event="rpc.failed"), [killed("redis", 9.0)]) is None


def test_a_fault_that_lasts_explains_lines_until_its_echo_ends():
    away = line("trainer", at_s=200.0, level="warning", event="stream.away")
    assert explain(away, [Harm("pause", "redis", 40.0, 101.0)])
    assert explain(away, [Harm("pause", "redis", 40.0, 99.0)]) is None
    assert explain(away, [Harm("pause", "redis", 40.0)]), "it was not undone yet"


def test_lost_packets_explain_the_complaints_of_their_own_container_alone():
    away = line("selfplay_worker", at_s=20.0, level="warning", event="stream.away")
    assert explain(away, [Harm("loss", "selfplay_worker", 10.0, 15.0)])
    assert explain(away, [Harm("loss", "trainer", 10.0, 15.0)]) is None
    assert explain(away, [Harm("full_disk", "selfplay_worker", 10.0, 15.0)]) is None


def test_a_full_disk_explains_what_cannot_be_written_and_a_kill_does_not():
    refused = line("trainer", at_s=20.0, level="error", event="intake.disk_refuses")
    assert explain(refused, [Harm("full_disk", "trainer", 10.0, 30.0)])
    assert explain(refused, [killed("trainer", 10.0)]) is None


def test_a_damaged_champion_pointer_explains_its_refusal_and_a_kill_does_not():
    refused = Line("gatekeeper", 20.0, "gatekeeper: /data/models/connect_four/champion.json is not JSON (expected value)")
    kept = line("inference_server", at_s=20.0, level="warning", event="model.champion_unknown")
    for found in (refused, kept):
        assert explain(found, [Harm("byte", "gatekeeper", 10.0, 30.0)])
        assert explain(found, [killed("gatekeeper", 10.0)]) is None


def test_every_explanation_gives_a_reason_and_names_services_of_the_cluster():
    services = {"redis", "inference_server", "gatekeeper", "trainer", "selfplay_worker"}
    for explanation in EXPLANATIONS:
        assert explanation.why
        assert explanation.causes == ITSELF or set(explanation.causes) <= services
        assert set(explanation.kinds) <= set(BY_NAME)
        assert explanation.service in services | {"*"}


def test_equal_lines_are_counted_as_one_kind():
    assert event_of(line("trainer", event="stream.away", error="a")) == "stream.away"
    assert event_of(Line("redis", 0, "7:M 21 Nov 2026 12:00:00.123 # 5 bytes")) == "N bytes"


def test_the_report_names_what_was_lost_and_draws_the_memory(tmp_path):
    found = Findings(seed=4, workers=2, minutes=30.0, published=10, stored=9, lost=1)
    found.samples = life("a", [100.0] * 60) + life("b", [5.0] * 60, service="redis")
    found.harms = [killed("redis", 60.0)]
    found.loud = [line("trainer", at_s=70.0, level="warning", event="stream.away"), line("trainer", level="error", event="odd")]
    found.harms.append(Harm("byte", "trainer", 90.0, 99.0, {"file": "games", "outcome": "started"}))
    found.not_made = {"reorder": "the kernel has no netem"}
    page = write(found, tmp_path / "report")
    assert "| kill | 1 | redis 1 |" in page
    assert "| byte | 1 | games: started 1 |" in page
    assert "| reorder | not made | the kernel has no netem |" in page
    assert "| games that damaged bytes may have cost | 1 |" in page
    assert "| lost, stored twice, never published | 1, 0, 0 |" in page
    assert "| trainer | stream.away | 1 | Redis was killed" in page
    assert "| explained, unexplained | 1, 1 |" in page.replace("warnings and errors: ", "")
    assert "odd" in (tmp_path / "report/unexplained.log").read_text()
    assert "<svg" in (tmp_path / "report/memory.svg").read_text()
