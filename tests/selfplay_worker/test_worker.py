"""A whole worker in one event loop: fake evaluator, fake stream, real search, real records."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from worker_at_work import changed, working

from games.core import Game
from selfplay_worker.game_register import GameRegister, Ticket
from selfplay_worker.settings import WorkerSettings
from zerofleet.contracts.played import FULL_SEARCH, REDUCED, WOULD_RESIGN
from zerofleet.contracts.records import decode_record, validate
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.telemetry import metrics, tracing
from zerofleet.telemetry.tracing_sdk import otlp_provider


@pytest.fixture(autouse=True)
def _traces_off_again() -> Iterator[None]:
    yield
    tracing.install(None, 0.0)


def value_of(metric: Any) -> float:
    return float(metric._value.get())


async def test_published_games_are_valid_distinct_and_name_their_model(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    promotions.promote(1)
    async with working(game, settings, evaluator, stream, promotions):
        await stream.until(40)
    records = [decode_record(payload) for payload in stream.published.values()]
    for uid, record in zip(stream.published, records, strict=True):
        validate(record)
        assert (record.uid, record.worker_id, list(record.seat_versions)) == (uid, "w0", [1, 1])
        assert {move.model_version for move in record.searched} == {1}
    assert len({record.seed for record in records}) == len(records)
    assert len({tuple(record.moves) for record in records}) > len(records) / 2


async def test_a_worker_without_a_tree_publishes_the_choice_behind_every_move(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    promotions.promote(1)
    without = changed(settings, selfplay={"mode": "afterstates", "opening_plies": 2, "decided_openings": "redraw"})
    async with working(game, without, evaluator, stream, promotions):
        await stream.until(40)
    lengths = set()
    for payload in stream.published.values():
        read = validate(decode_record(payload))
        chosen = read.search
        assert len(read.movers) - len(chosen.ply) in (0, 1, 2)
        assert set(chosen.model_version.tolist()) == {1}
        assert (chosen.flags & FULL_SEARCH == 0).all()
        assert ((chosen.behaviour > 0) & (chosen.behaviour <= 1)).all()
        lengths.add(len(read.movers))
    assert len(lengths) > 1


async def test_nothing_is_evaluated_before_the_first_champion(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    async with working(game, settings, evaluator, stream, promotions):
        pass
    assert evaluator.asked == []


async def test_the_same_worker_and_incarnation_play_the_same_games(
    game: Game, settings: WorkerSettings, make_stream: Callable[[], Any], evaluator: Any, make_promotions: Callable[[], Any]
) -> None:
    found = []
    for _ in range(2):
        stream, promotions = make_stream(), make_promotions()
        promotions.promote(1)
        async with working(game, changed(settings, selfplay={"lanes": 1}), evaluator, stream, promotions):
            await stream.until(12)
        found.append({uid: tuple(decode_record(payload).moves) for uid, payload in stream.published.items()})
    shared = found[0].keys() & found[1].keys()
    assert len(shared) >= 12
    assert all(found[0][uid] == found[1][uid] for uid in shared)


async def test_another_incarnation_plays_other_games(
    game: Game, settings: WorkerSettings, make_stream: Callable[[], Any], evaluator: Any, make_promotions: Callable[[], Any]
) -> None:
    seeds = []
    for incarnation in (1, 2):
        stream, promotions = make_stream(), make_promotions()
        promotions.promote(1)
        async with working(game, changed(settings, incarnation=incarnation), evaluator, stream, promotions):
            await stream.until(8)
        seeds.append({decode_record(payload).seed for payload in stream.published.values()})
    assert not seeds[0] & seeds[1]


@pytest.mark.parametrize(
    ("staleness", "mixed", "abandoned"), [("finish", False, False), ("switch", True, False), ("drop", False, True)]
)
async def test_staleness_decides_what_a_running_game_does_with_a_new_champion(
    game: Game,
    settings: WorkerSettings,
    stream: Any,
    evaluator: Any,
    promotions: Any,
    staleness: str,
    mixed: bool,
    abandoned: bool,
) -> None:
    before = value_of(metrics.GAMES_ABANDONED.labels(reason="stale"))
    evaluator.served = {1, 2}
    promotions.promote(1)
    async with working(game, changed(settings, selfplay={"staleness": staleness}), evaluator, stream, promotions):
        await evaluator.until_asked(1)
        promotions.promote(2)
        await evaluator.until_asked(2)
        await stream.until(len(stream.published) + 30)
    used = [{move.model_version for move in decode_record(payload).searched} for payload in stream.published.values()]
    assert ({1, 2} in used) == mixed
    assert {2} in used
    assert (value_of(metrics.GAMES_ABANDONED.labels(reason="stale")) > before) == abandoned
    for payload in stream.published.values():
        record = decode_record(payload)
        validate(record)
        versions = [move.model_version for move in record.searched]
        assert versions == sorted(versions)
        assert versions[0] == record.seat_versions[0]


async def test_games_of_a_retired_version_are_dropped_and_play_continues(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    before = value_of(metrics.GAMES_ABANDONED.labels(reason="version_gone"))
    promotions.promote(1)
    async with working(game, changed(settings, selfplay={"staleness": "finish"}), evaluator, stream, promotions):
        await evaluator.until_asked(1)
        evaluator.served = {2}
        promotions.promote(2)
        await evaluator.until_asked(2)
        await stream.until(len(stream.published) + 20)
    assert value_of(metrics.GAMES_ABANDONED.labels(reason="version_gone")) > before
    for payload in stream.published.values():
        validate(decode_record(payload))


async def test_games_of_a_version_that_is_still_served_go_on_when_an_older_one_is_retired(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[int] = []
    abandon, evaluate = GameRegister.abandon, evaluator.evaluate

    def note(register: GameRegister, ticket: Ticket, reason: str) -> None:
        if reason == "version_gone":
            dropped.append(ticket.version)
        abandon(register, ticket, reason)

    async def retire(batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        if version == 1 and evaluator.served == {1, 2} and 2 in evaluator.asked:  # games of both are in progress
            promotions.promote(3)
            for _ in range(200):
                await asyncio.sleep(0)
            evaluator.served = {2, 3}
        found: Evaluation = await evaluate(batch, version=version)
        return found

    monkeypatch.setattr(GameRegister, "abandon", note)
    monkeypatch.setattr(evaluator, "evaluate", retire)
    evaluator.served = {1, 2}
    promotions.promote(1)
    one_lane = changed(settings, selfplay={"staleness": "finish", "lanes": 1})
    async with working(game, one_lane, evaluator, stream, promotions):
        await evaluator.until_asked(1)
        promotions.promote(2)
        await evaluator.until_asked(3)
        await stream.until(len(stream.published) + 10)
    assert set(dropped) == {1}
    assert 2 in {move.model_version for payload in stream.published.values() for move in decode_record(payload).searched}


async def test_the_worker_waits_for_a_champion_that_is_not_served_yet(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    evaluator.served = set()
    promotions.promote(1)
    async with working(game, settings, evaluator, stream, promotions):
        await evaluator.until_asked(1)
        evaluator.served = {1}
        await stream.until(4)


async def test_games_resume_where_they_were_when_the_server_is_back(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    before = sum(value_of(metrics.GAMES_ABANDONED.labels(reason=r)) for r in ("stale", "version_gone"))
    retries = metrics.EVAL_RETRIES.labels(reason="Unavailable")
    retried = value_of(retries)
    promotions.promote(1)
    async with working(game, settings, evaluator, stream, promotions):
        await stream.until(3)
        evaluator.away = True
        await evaluator.until_asked()
        evaluator.away = False
        while value_of(retries) == retried:
            await evaluator.until_asked()
        await stream.until(len(stream.published) + 20)
    assert sum(value_of(metrics.GAMES_ABANDONED.labels(reason=r)) for r in ("stale", "version_gone")) == before


async def test_a_full_stream_pauses_the_lanes_and_loses_nothing(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    finished = metrics.GAMES_FINISHED
    before = sum(value_of(child) for child in finished._metrics.values())
    stream.open.clear()
    promotions.promote(1)
    async with working(game, changed(settings, publish_queue_games=3), evaluator, stream, promotions):
        asked = -1
        while asked != len(evaluator.asked) or not asked:  # until nothing is asked any more
            asked = len(evaluator.asked)
            for _ in range(200):
                await asyncio.sleep(0)
        assert not stream.published
        stream.open.set()
        await stream.until(10)
    assert sum(value_of(child) for child in finished._metrics.values()) - before == len(stream.published)


async def test_a_stream_gets_every_game_after_an_outage(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    before = sum(value_of(child) for child in metrics.GAMES_FINISHED._metrics.values())
    stream.away = True
    promotions.promote(1)
    async with working(game, settings, evaluator, stream, promotions):
        assert await stream.reached.get() == -1
        stream.away = False
        await stream.until(10)
    assert sum(value_of(child) for child in metrics.GAMES_FINISHED._metrics.values()) - before == len(stream.published)


async def test_a_game_refused_by_the_stream_is_counted_and_does_not_block_others(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    before = value_of(metrics.GAMES_ABANDONED.labels(reason="refused"))
    stream.refuses = {2, 3}
    promotions.promote(1)
    async with working(game, settings, evaluator, stream, promotions):
        await stream.until(5)
    assert value_of(metrics.GAMES_ABANDONED.labels(reason="refused")) - before == 2


async def test_sigterm_publishes_finished_games_and_counts_abandoned_ones(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    dropped = value_of(metrics.GAMES_ABANDONED.labels(reason="drain"))
    active = value_of(metrics.GAMES_ACTIVE)
    promotions.promote(1)
    async with working(game, settings, evaluator, stream, promotions):
        await stream.until(5)
    assert 0 < value_of(metrics.GAMES_ABANDONED.labels(reason="drain")) - dropped <= 8
    assert value_of(metrics.GAMES_ACTIVE) == active
    assert value_of(metrics.PUBLISH_QUEUE) == 0


async def test_sigterm_can_play_running_games_to_their_end(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    dropped = value_of(metrics.GAMES_ABANDONED.labels(reason="drain"))
    promotions.promote(1)
    async with working(game, changed(settings, drain="finish"), evaluator, stream, promotions):
        await stream.until(5)
    assert value_of(metrics.GAMES_ABANDONED.labels(reason="drain")) == dropped


async def test_a_worker_that_waits_for_its_server_stops_on_request(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    evaluator.away = True
    promotions.promote(1)
    async with working(game, changed(settings, drain="finish", grace_s=0.2), evaluator, stream, promotions):
        await evaluator.until_asked()


async def test_players_resign_once_control_games_allow_it(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    """With a threshold just below 0 every lost position is given up, except in the control share."""
    promotions.promote(1)
    resigning = changed(
        settings, search={"resign_threshold": -0.3, "resign_control_share": 0.3, "simulations": 30}, resign_min_games=3
    )
    resigning = changed(resigning, selfplay={"resign_false_rate": 0.4})
    async with working(game, resigning, evaluator, stream, promotions):
        while not any(decode_record(payload).resigned_seat for payload in list(stream.published.values())):
            await stream.until(len(stream.published) + 5)
    records = [decode_record(payload) for payload in stream.published.values()]
    for record in records:
        validate(record)
        assert not (record.resignation_control and record.resigned_seat)


async def test_softly_resigned_games_are_played_out_and_their_later_samples_are_marked(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    soft_before = value_of(metrics.GAMES_ENDED.labels(ending="soft_resigned"))
    reduced_before = value_of(metrics.SELFPLAY_SAMPLES.labels(weight="reduced"))
    promotions.promote(1)
    soft = changed(
        settings,
        search={"resign_threshold": -0.3, "resign_control_share": 0.3, "simulations": 30, "resignation": "soft"},
        selfplay={"resign_false_rate": 0.4},
        resign_min_games=3,
    )
    reduced: list[Any] = []
    async with working(game, soft, evaluator, stream, promotions):
        while not reduced:
            await stream.until(len(stream.published) + 5)
            records = [decode_record(payload) for payload in stream.published.values()]
            reduced = [record for record in records if any(move.flags & REDUCED for move in record.searched)]
    for record in reduced:
        validated = validate(record)
        assert not record.resigned_seat
        assert not record.resignation_control
        marked = (validated.search.flags & REDUCED) > 0
        assert marked.tolist() == sorted(marked.tolist())  # from one move on
        crossed = validated.search.flags[~marked][-1]
        assert crossed & WOULD_RESIGN
    assert value_of(metrics.GAMES_ENDED.labels(ending="soft_resigned")) >= soft_before + len(reduced)
    assert value_of(metrics.SELFPLAY_SAMPLES.labels(weight="reduced")) > reduced_before


async def test_the_metrics_of_a_worker_describe_its_games(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    ended_before = value_of(metrics.GAMES_ENDED.labels(ending="result"))
    samples_before = value_of(metrics.SELFPLAY_SAMPLES.labels(weight="full"))
    begun_before = value_of(metrics.OPENINGS.labels(kind="uniform"))
    promotions.promote(1)
    async with working(game, settings, evaluator, stream, promotions):
        await stream.until(30)
    games = len(stream.published)
    records = [decode_record(payload) for payload in stream.published.values()]
    targets = sum(bool(move.flags & FULL_SEARCH) for record in records for move in record.searched)
    assert value_of(metrics.GAMES_ENDED.labels(ending="result")) == ended_before + games
    assert value_of(metrics.SELFPLAY_SAMPLES.labels(weight="full")) == samples_before + targets
    assert value_of(metrics.OPENINGS.labels(kind="uniform")) >= begun_before + games
    lines = {tuple(record.moves[:8]) for record in records}
    assert value_of(metrics.DISTINCT_OPENINGS) == pytest.approx(len(lines) / games)
    assert 0.0 < value_of(metrics.NEW_POSITIONS) < 1.0
    assert value_of(metrics.TARGET_ENTROPY) > 0.0


async def test_published_games_begin_with_random_plies_that_are_not_samples(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    promotions.promote(1)
    async with working(game, changed(settings, selfplay={"opening_plies": 3}), evaluator, stream, promotions):
        await stream.until(24)
    played = [validate(decode_record(payload)) for payload in stream.published.values()]
    first_searched = {int(record.search.ply[0]) for record in played}
    assert first_searched == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", ["deep", "balanced", "forked"])
async def test_published_games_begin_with_openings_of_every_kind(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, kind: str
) -> None:
    """Balanced and forked lines share the requests of the search; the record reproduces the game."""
    promotions.promote(1)
    chosen = {f"{kind}_opening_share": 1.0, "deep_opening_plies": (2, 4), "forked_opening_choices": 3}
    async with working(game, changed(settings, selfplay=chosen), evaluator, stream, promotions):
        await stream.until(40)
    played = [validate(decode_record(payload)) for payload in stream.published.values()]
    first_searched = [int(record.search.ply[0]) for record in played]
    if kind == "forked":
        assert set(first_searched[8:]) > {0, 1, 2, 3}  # the first games of the slots find no finished game
    else:
        assert set(first_searched) == {2, 3, 4}


class LikesEvenPlies:
    """Evaluator that considers positions after an even number of plies of tic-tac-toe equal, others won."""

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        uniform = await UniformEvaluator(2).evaluate(batch, version=version)
        plies = 9 - (batch.legal >= 0).sum(axis=1)
        won = (plies % 2).astype(np.float32)
        return Evaluation(uniform.policy, np.stack([won, -won], axis=1), version)


async def test_each_balanced_opening_is_chosen_by_the_values_of_its_own_lines(
    game: Game, settings: WorkerSettings, stream: Any, promotions: Any
) -> None:
    """The lines of several games and the leaves of others share a request, so rows could be mixed up."""
    promotions.promote(1)
    chosen = {
        "balanced_opening_share": 0.7,
        "balanced_opening_choices": 16,
        "balanced_opening_sharpness": 1000.0,
        "deep_opening_plies": (2, 5),
        "opening_plies": 1,
    }
    async with working(game, changed(settings, selfplay=chosen), LikesEvenPlies(), stream, promotions):
        await stream.until(100)
    first_searched = [int(validate(decode_record(payload)).search.ply[0]) for payload in stream.published.values()]
    assert {plies for plies in first_searched if plies > 1} == {2, 4}


async def test_tracing_a_sampled_game_does_not_change_its_play(
    game: Game, settings: WorkerSettings, make_stream: Callable[[], Any], evaluator: Any, make_promotions: Callable[[], Any]
) -> None:
    exporter, found = InMemorySpanExporter(), []
    for share in (0.0, 0.3):
        stream, promotions = make_stream(), make_promotions()
        tracing.install(otlp_provider("selfplay_worker", SimpleSpanProcessor(exporter)) if share else None, share)
        promotions.promote(1)
        async with working(game, changed(settings, selfplay={"lanes": 1}), evaluator, stream, promotions):
            await stream.until(40)
        found.append({uid: tuple(decode_record(payload).moves) for uid, payload in stream.published.items()})
    assert all(found[0][uid] == found[1][uid] for uid in found[0].keys() & found[1].keys())
    spans = exporter.get_finished_spans()
    games = {span.context.trace_id: dict(span.attributes or {}) for span in spans if span.name == "game"}
    finished = {str(about["zerofleet.game_uid"]) for about in games.values() if "zerofleet.outcome" in about}
    assert 0 < len(finished) < len(found[1])
    assert {span.context.trace_id for span in spans} == set(games)
    published = {(span.attributes or {})["zerofleet.game_uid"] for span in spans if span.name == "game.publish"}
    assert published == finished & found[1].keys()
    asked = Counter(span.context.trace_id for span in spans if span.name == "evaluate")
    for trace_id, about in games.items():
        assert asked[trace_id] <= int(about["zerofleet.requests"]).bit_length()
    assert sum(len(span.links) for span in spans if span.name == "evaluate") > 0
