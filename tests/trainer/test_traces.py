"""Trace of a candidate: its links to the sampled games."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from small_trainer import settings_of

from trainer.export import export_served
from trainer.replay import AcceptedGame
from trainer.start import open_training
from zerofleet.errors import Unavailable
from zerofleet.telemetry import tracing
from zerofleet.telemetry.tracing_sdk import otlp_provider

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def memory():
    exporter = InMemorySpanExporter()
    tracing.install(otlp_provider("trainer", SimpleSpanProcessor(exporter)), 1.0)
    yield exporter
    tracing.install(None, 0.0)


def test_a_candidate_that_could_not_be_published_leaves_its_games_and_steps_to_the_next(game, tmp_path, record, memory):
    store_is_away = False

    def export(*given, **options):
        if store_is_away:
            raise Unavailable("the store is away")
        return export_served(*given, **options)

    training = open_training(settings_of(tmp_path), game, export=export)
    uid, payload = record(1)
    training.replay.keep([AcceptedGame(uid, payload, training.replay.read(payload), SAMPLED)])
    training.traces.stepping(0)
    store_is_away = True
    with pytest.raises(Unavailable):
        training.publish_candidate()
    store_is_away = False
    version = training.publish_candidate()
    training.publish_candidate()
    spans = memory.get_finished_spans()
    failed, first, second = [span for span in spans if span.name == "candidate"]
    assert [len(span.links) for span in (failed, first, second)] == [1, 1, 0]
    assert failed.start_time == first.start_time < second.start_time
    uses = [
        (span.attributes["zerofleet.game_uid"], span.attributes["zerofleet.version"]) for span in spans if "use" in span.name
    ]
    assert uses == [(uid, version)]
    training.replay.close()
