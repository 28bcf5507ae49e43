"""A whole worker in one event loop: fake evaluator, fake stream, real search, real records."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from worker_at_work import changed, value_of, working

from games.core import Game
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.worker import SelfPlay
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.played import FULL_SEARCH, REDUCED, WOULD_RESIGN
from zerofleet.contracts.records import decode_record, validate
from zerofleet.errors import ConfigurationError
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.search import Leaves, SearchBlock
from zerofleet.search.afterstates.settings import AfterstateSettings
from zerofleet.service.lifecycle import EXIT_REFUSED, Service, serve_until_drained
from zerofleet.telemetry import metrics, tracing
from zerofleet.telemetry.tracing_sdk import otlp_provider


@pytest.fixture(autouse=True)
def _traces_off_again() -> Iterator[None]:
    yield
    tracing.install(None, 0.0)


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


def against_version_7(settings: WorkerSettings) -> WorkerSettings:
    opponents = AfterstateSettings(opponents=("self", "version:7"), learner_seat="alternate")
    without_tree = {"mode": "afterstates", "opening_plies": 2, "decided_openings": "redraw"}
    return changed(settings, selfplay=without_tree, afterstates=opponents)


async def test_a_worker_does_not_begin_against_a_frozen_version_that_its_store_lacks(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in ("1", "6"):
        (Path(settings.model_store) / model_name(game) / version).mkdir(parents=True)
    promotions.promote(1)

    async def main(service: Service) -> None:
        worker = SelfPlay(game, against_version_7(settings), evaluator=evaluator, stream=stream)
        await worker.run(service, promotions.watch())

    assert await serve_until_drained(main, settings) == EXIT_REFUSED
    assert "has version:7, which" in capsys.readouterr().err
    assert not evaluator.asked


@pytest.mark.parametrize("stored", [(), ("1", "7")])
async def test_a_worker_begins_against_a_frozen_version_that_is_stored_and_without_a_store(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, stored: tuple[str, ...]
) -> None:
    for version in stored:
        (Path(settings.model_store) / model_name(game) / version).mkdir(parents=True)
    evaluator.served = {1, 7}
    promotions.promote(1)
    async with working(game, against_version_7(settings), evaluator, stream, promotions):
        await stream.until(10)
    assert set(evaluator.asked) == {1, 7}


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


async def test_a_game_that_has_ended_reaches_the_stream_before_the_others_are_evaluated(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may wait long, and be dropped with their version."""
    search_on, evaluate = SearchBlock.search_on, evaluator.evaluate
    ended: list[int] = []  # slots of the first games
    published: list[int] = []

    def note(block: SearchBlock, *answers: Any) -> Leaves:
        leaves = search_on(block, *answers)
        ended.extend(block.finished() if not ended else [])
        return leaves

    async def wait(batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        if ended and not published:
            for _ in range(50):  # turns of the publisher
                await asyncio.sleep(0)
            published.append(len(stream.published))
        found: Evaluation = await evaluate(batch, version=version)
        return found

    monkeypatch.setattr(SearchBlock, "search_on", note)
    monkeypatch.setattr(evaluator, "evaluate", wait)
    promotions.promote(1)
    async with working(game, changed(settings, selfplay={"lanes": 1}), evaluator, stream, promotions):
        while not published:
            await evaluator.until_asked()
    assert published == [len(ended)]


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


async def test_a_worker_that_fails_publishes_its_finished_games_first(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    before = sum(value_of(child) for child in metrics.GAMES_FINISHED._metrics.values())
    stream.open.clear()
    stream.turns, evaluator.breaks_at = 100, 60
    promotions.promote(1)

    async def main(service: Service) -> None:
        await SelfPlay(game, settings, evaluator=evaluator, stream=stream).run(service, promotions.watch())

    async with asyncio.TaskGroup() as group:
        worker = group.create_task(serve_until_drained(main, settings))
        await evaluator.broken.wait()
        stream.open.set()
    assert worker.result() == 1
    finished = sum(value_of(child) for child in metrics.GAMES_FINISHED._metrics.values()) - before
    assert finished == len(stream.published) > 0


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"search": {"resign_control_share": 0.0}}, "search.resign_control_share=0 leaves no games to calibrate"),
        ({"resign_window_games": 39}, "resign_min_games=40 control games never fit into resign_window_games=39"),
    ],
)
def test_a_resignation_that_would_never_take_place_is_refused(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, changes: Any, message: str
) -> None:
    never = changed(settings, **changes)
    SelfPlay(game, never, evaluator=evaluator, stream=stream)  # without resignation they have no effect
    with pytest.raises(ConfigurationError, match=message):
        SelfPlay(game, changed(never, search={"resign_threshold": -0.9}), evaluator=evaluator, stream=stream)


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
