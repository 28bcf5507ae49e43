"""Readings of a run whose gatekeeper promotes at once: candidates that were never measured are left out."""

from __future__ import annotations

import errno
import math
import time
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from zerofleet.contracts.promotions import Candidate, CandidateStatus, Champion, MatchReport, Rung
from zerofleet.errors import Unavailable
from zerofleet.rpc.gatekeeper_client import ModelChanges
from zerofleet.strength.ratings.intervals import share_interval
from zerofleet.supervisor.child import ChildState
from zerofleet.supervisor.figures import figures
from zerofleet.supervisor.lines import progress_line, row
from zerofleet.supervisor.observer import Observer, _memory
from zerofleet.supervisor.pages import MetricsPage
from zerofleet.supervisor.processor_time import ProcessorTime
from zerofleet.supervisor.words import UNKNOWN

MODEL = "connect_four"
REPORT = MatchReport(2, 14, 4, 8, (0, 1, 2, 3, 4), 0.6, 0.5, 0.7, 3.0)
CONFIRMED = Candidate(MODEL, 3, CandidateStatus.PROMOTED, REPORT, "not weaker")
PASSED_OVER = Candidate(MODEL, 4, CandidateStatus.UNPROVEN, None, "version 6 replaced it before it was measured")
UNDECIDED = Candidate(MODEL, 5, CandidateStatus.UNPROVEN, REPORT, "undecided")
WAITING = Candidate(MODEL, 6, CandidateStatus.TRIAL, None, "promoted at once")
READY = SimpleNamespace(
    name="gatekeeper",
    state=ChildState.READY,
    metrics_port=0,
    since_s=0.0,
    restarts=0,
    pid=None,
    compiling=None,
    look=int,
)
PLAYING = Candidate(MODEL, 7, CandidateStatus.TRIAL, None, "promoted at once")


def test_a_machine_with_too_many_open_files_costs_memory_and_time_of_a_service_and_not_the_run(monkeypatch):
    def refuses(pid):
        raise OSError(errno.ENFILE, "Too many open files in system", f"/proc/{pid}/stat")

    monkeypatch.setattr(psutil, "Process", refuses)
    assert _memory(7) == 0
    meter = ProcessorTime()
    meter.take(1.0, 7)
    assert math.isnan(meter.cores)


class Gatekeeper:
    """Gatekeeper in mode `watch`."""

    def __init__(self) -> None:
        self.candidates = [CONFIRMED]

    async def changes(self, model: str, cursor: str = "") -> ModelChanges:
        seen, last = int(cursor or 0), self.candidates[-1].version
        page = tuple(self.candidates[seen : seen + 2])
        champion = Champion(model, last, last, "ab", 0, "promoted at once")
        return ModelChanges(page, champion, str(seen + len(page)), has_more=seen + 2 < len(self.candidates))

    async def ladder(self, model: str) -> list[Rung]:
        return [
            Rung("model:3", 900.0, 850.0, 950.0, 40, anchored=True),
            Rung("model:2", 950.0, 850.0, 980.0, 40, anchored=True),
            Rung("random", 0, 0, 0, 40, anchored=True),
        ]


@pytest.fixture
def gatekeeper() -> Gatekeeper:
    return Gatekeeper()


async def test_candidates_that_were_never_measured_are_neither_shown_nor_reported_except_the_champion(gatekeeper) -> None:
    said: list[str] = []
    observer = Observer([READY], gatekeeper, MODEL, said.append)
    await observer.look(None)
    gatekeeper.candidates += [PASSED_OVER, UNDECIDED, WAITING, PLAYING]
    readings = await observer.look(None)
    assert [candidate.version for candidate in readings.candidates] == [3, 5, 7]
    assert [line.split(":")[0] for line in said] == ["candidate 3 promoted against 2", "candidate 5 unproven against 2"]


async def test_the_verdicts_before_an_observer_was_attached_to_a_run_are_not_news(gatekeeper) -> None:
    said: list[str] = []
    observer = Observer([READY], gatekeeper, MODEL, said.append, began_at_s=time.time() - 60.0)
    await observer.look(None)  # one verdict is known
    assert said == []
    gatekeeper.candidates.append(UNDECIDED)
    await observer.look(None)
    assert [line.split(":")[0] for line in said] == ["candidate 5 unproven against 2"]


async def test_a_measurement_in_progress_has_the_interval_of_its_pairs_and_the_age_of_its_version(gatekeeper) -> None:
    observer = Observer([READY], gatekeeper, MODEL, lambda _line: None)
    gatekeeper.candidates.append(PLAYING)
    counts = {"0": 0, "0.25": 1, "0.5": 2, "0.75": 3, "1": 4}
    groups = "".join(f'zerofleet_gate_match_groups{{share="{part}"}} {number}\n' for part, number in counts.items())
    text = f'zerofleet_gate_candidate_version 7\nzerofleet_gate_match_games{{result="win"}} 14\n{groups}'
    observer._pages["gatekeeper"] = MetricsPage(text)
    readings = await observer.look(None)
    assert readings.match is not None
    scores = np.repeat([float(part) for part in counts], list(counts.values()))
    assert readings.match.share == scores.mean()  # not that of the 14 games won, some of which are of incomplete pairs
    assert (readings.match.share_low, readings.match.share_high) == share_interval(scores)
    assert readings.promoted_for_s[7] == pytest.approx(time.time(), abs=60.0)  # promoted in 1970

    observer._pages["gatekeeper"] = MetricsPage("zerofleet_gate_candidate_version 7\n")
    readings = await observer.look(None)
    assert readings.match is not None
    assert (readings.match.share, readings.match.share_low, readings.match.share_high) == (None, None, None)


async def test_the_rating_of_the_newest_rated_version_is_shown_until_the_champion_has_one(gatekeeper) -> None:
    observer = Observer([READY], gatekeeper, MODEL, lambda _line: None)
    assert "champion 3 (900 Elo, 850 to 950)" in progress_line(await observer.look(None))
    gatekeeper.candidates.append(PLAYING)
    assert "champion 7 (version 3: 900 Elo, 850 to 950)" in progress_line(await observer.look(None))


async def test_only_what_changed_is_requested(gatekeeper) -> None:
    observer = Observer([READY], gatekeeper, MODEL, lambda _line: None)
    await observer.look(None)
    requested: list[str] = []
    changes = gatekeeper.changes

    async def counted(model: str, cursor: str = "") -> ModelChanges:
        requested.append(cursor)
        return await changes(model, cursor)

    gatekeeper.changes = counted
    gatekeeper.candidates.append(UNDECIDED)
    assert [candidate.version for candidate in (await observer.look(None)).candidates] == [3, 5]
    await observer.look(None)
    assert requested == ["1", "2"]


async def test_a_list_that_stays_out_of_date_is_reported_once(gatekeeper) -> None:
    said: list[str] = []
    observer = Observer([READY], gatekeeper, MODEL, said.append)
    await observer.look(None)

    async def fail(model: str, cursor: str = "") -> ModelChanges:
        raise Unavailable("too large")

    gatekeeper.changes = fail
    for _ in range(30):
        await observer.look(None)
    assert said[-1:] == ["the gatekeeper's list of candidates is out of date: too large"]
    assert len(said) == 2  # with the verdict of the first look


async def test_a_service_that_stops_answering_is_shown_as_silent_and_its_counts_as_unknown(gatekeeper, monkeypatch) -> None:
    """A worker answers, a trainer never did: it is stopped, and its connections are accepted by the kernel alone."""
    answers = {1: (None, False), 2: (MetricsPage("zerofleet_games_active 12\n"), True), 3: (None, True)}

    async def read(port: int, token: str | None = None) -> tuple[MetricsPage | None, bool]:
        return answers[port]

    monkeypatch.setattr("zerofleet.supervisor.observer.read_page", read)
    names = ("trainer", "worker-0", "inference_server")  # the last one rejects the token of the metrics
    services = [SimpleNamespace(**{**vars(READY), "name": name, "metrics_port": at}) for at, name in enumerate(names, 1)]
    observer = Observer(services, gatekeeper, MODEL, lambda _line: None, began_at_s=time.time() - 60.0)
    assert [one.state for one in (await observer.look(None)).services] == [ChildState.READY] * 3  # it may be busy
    now = await observer.look(None)
    assert [one.state for one in now.services] == [ChildState.SILENT, ChildState.READY, ChildState.READY]
    shown = {figure.label: figure.value for _, figures_shown in figures(now) for figure in figures_shown}
    assert [shown[label] for label in ("stored", "step", "window", "reuse", "in play")] == [*[UNKNOWN] * 4, "12"]
    assert (row(now)["step"], row(now)["games"]) == (None, 0)

    answers[1] = (MetricsPage("zerofleet_train_step 7\nzerofleet_candidate_version 3\n"), True)
    now = await observer.look(None)
    assert (now.services[0].state, now.known("step"), now.newest_version) == (ChildState.READY, 7, 3)


async def test_a_worker_that_ended_has_no_game_in_play(gatekeeper) -> None:
    worker = SimpleNamespace(**{**vars(READY), "name": "worker-0", "state": ChildState.ENDED})
    observer = Observer([worker], gatekeeper, MODEL, lambda _line: None)
    observer._pages["worker-0"] = MetricsPage("zerofleet_games_active 12\nzerofleet_publish_queue_games 2\n")
    now = await observer.look(None)
    assert (now.games_active, now.waiting_games) == (0, 0)


async def test_the_busy_share_of_several_devices_is_their_mean(gatekeeper, monkeypatch) -> None:
    servers = [SimpleNamespace(**{**vars(READY), "name": f"inference_server-{index}"}) for index in range(2)]
    observer = Observer(servers, gatekeeper, MODEL, lambda _line: None)
    for now_s, busy_s, positions in ((100.0, 0.0, 0.0), (110.0, 8.0, 300.0)):
        clock = SimpleNamespace(monotonic=lambda now_s=now_s: now_s, time=time.time)
        monkeypatch.setattr("zerofleet.supervisor.observer.time", clock)
        for index, part in enumerate((1.0, 0.5)):
            text = (
                f'zerofleet_inference_device{{device="cuda:{index}"}} 1\n'
                "# TYPE zerofleet_inference_device_busy_seconds_total counter\n"
                f"zerofleet_inference_device_busy_seconds_total {busy_s * part}\n"
                "# TYPE zerofleet_inference_positions_total counter\n"
                f"zerofleet_inference_positions_total {positions * part}\n"
            )
            observer._pages[f"inference_server-{index}"] = MetricsPage(text)
            observer._totals.take(f"inference_server-{index}", MetricsPage(text))
        now = await observer.look(None)
    assert (now.device_busy, now.devices) == (pytest.approx(0.6), {"cuda:0", "cuda:1"})
    assert [(one.device, one.share) for one in now.services] == [
        ("cuda:0", pytest.approx(2 / 3)),
        ("cuda:1", pytest.approx(1 / 3)),
    ]
