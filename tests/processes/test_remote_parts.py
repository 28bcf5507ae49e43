"""The whole loop with its games in Redis and its models in an object store, followed by its spans.

One game is followed from its worker to the champion that it taught, through real processes, a real Redis and OTLP. Then the
object store is away for a while.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as otlp_grpc

from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import ModelStore, open_model_store

sys.path.insert(0, str(Path(__file__).parents[1] / "streams"))

import redis_programs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1100)]  # a machine that is loaded takes minutes

MODEL = "tic_tac_toe"
StartRun = Callable[..., AbstractAsyncContextManager[Any]]

OPERATOR_TOKEN = "operator-token-that-no-log-may-name"
WORKER_TOKEN = "worker-token-that-no-log-may-name"
REDIS_PASSWORD = "password-that-no-log-may-name"
STORE_SECRET = "secret-of-the-tests"  # of tests/conftest.py
GAMES_SAMPLED = 0.1


@dataclass(frozen=True)
class Span:
    """A span as it arrived."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    links: list[str]
    """Trace ids of what it links to."""
    attributes: dict[str, Any]
    began_ns: int
    ended_ns: int


@dataclass
class Collector(otlp_grpc.TraceServiceServicer):
    """Keeps every span that is sent to it."""

    spans: list[Span] = field(default_factory=list)
    address: str = ""

    async def Export(self, request: Any, context: Any) -> Any:
        for each in request.resource_spans:
            service = {entry.key: _value(entry.value) for entry in each.resource.attributes}["service.name"]
            self.spans += [_span(service, span) for scope in each.scope_spans for span in scope.spans]
        return otlp.ExportTraceServiceResponse()

    def of(self, trace_id: str) -> dict[str, Span]:
        """Return the spans of a trace, by service and name."""
        return {f"{span.service} {span.name}": span for span in self.spans if span.trace_id == trace_id}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def _span(service: str, span: Any) -> Span:
    return Span(
        service=service,
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        links=[link.trace_id.hex() for link in span.links],
        attributes={entry.key: _value(entry.value) for entry in span.attributes},
        began_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
    )


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """Listen for spans as a collector does."""
    collector, server = Collector(), grpc.aio.server()
    otlp_grpc.add_TraceServiceServicer_to_server(collector, server)
    collector.address = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield collector
    finally:
        await server.stop(None)


@pytest.fixture
def redis_url() -> Iterator[str]:
    """A real server of Redis' protocol whose only user has a password."""
    with tempfile.TemporaryDirectory(prefix="zf-") as directory:
        socket = Path(directory) / "redis.sock"
        words = [redis_programs.program().path, "--port", "0", "--unixsocket", str(socket), "--dir", directory, "--save", ""]
        users = Path(directory) / "users.acl"
        users.write_text(f"user default off\nuser fleet on >{REDIS_PASSWORD} ~* &* +@all\n")
        with redis_programs.start([*words, "--aclfile", str(users)]) as process:
            try:
                yield f"unix://fleet:{REDIS_PASSWORD}@{socket}"
            finally:
                process.kill()


async def test_a_sampled_game_leads_to_its_champion_no_log_has_a_secret_and_an_outage_of_the_object_store_is_survived(
    start_run: StartRun, redis_url: str, object_server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    location = f"s3://{object_server.make_bucket()}/team/models"
    async with collecting() as collector:
        for name, value in {
            "ZEROFLEET_TRACE_SAMPLE": str(GAMES_SAMPLED),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address,
            "ZEROFLEET_STREAM_URL": redis_url,
            "ZEROFLEET_MODEL_STORE": location,
            "ZEROFLEET_TOKENS": f"worker: {WORKER_TOKEN}\noperator: {OPERATOR_TOKEN}\n",
            "ZEROFLEET_TOKEN": OPERATOR_TOKEN,
            "ZEROFLEET_LOG_LEVEL": "debug",
        }.items():
            monkeypatch.setenv(name, value)
        async with start_run("--set", "gate.mode=share", "--set", "gate.share=0.1") as run:
            await run.until(r"candidate \d+ promoted against", times=2)  # the first replaces random weights without a match
            object_server.stop()
            try:
                await run.until_logged("trainer", "candidate.not_published")
            finally:
                object_server.start()
            await run.until(r"candidate \d+ promoted against")
            text = await run.end()
        assert run.process.returncode == 0, text
        assert "restarting" not in text, "no service died of the absence"
        assert list(run.paths.models.iterdir()) == [], "nothing lies where a directory store would"
        store = open_model_store(location, cache=tmp_path / "another cache")
        check_chain(collector, run.paths, store)
        check_logs(collector, run.paths.logs, text)
        await check_store(store, run.paths.root)


async def check_store(store: ModelStore, root: Path) -> None:
    """The versions in the object store are sound, and the command line finds them there."""
    champion = store.champion(MODEL)
    assert champion is not None
    assert store.verify(MODEL, champion.version).version == champion.version
    assert store.history(MODEL)[0].version == 1
    assert store.config(MODEL)
    command = [
        sys.executable,
        "-c",
        "from zerofleet.cli import main; main()",
        "models",
        "verify",
        MODEL,
        "--run-dir",
        str(root),
    ]
    said = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("ok") == len(store.versions(MODEL))


def check_chain(collector: Collector, paths: Any, store: ModelStore) -> None:
    """Follow a promoted version back to a game, and the game forward to the version."""
    promotion = next(span for span in collector.spans if span.name == "gate.promote" and span.attributes["zerofleet.epoch"] > 2)
    version = promotion.attributes["zerofleet.version"]
    assert version in {champion.version for champion in store.history(MODEL)}

    candidate = collector.of(promotion.trace_id)
    parents = {name: _parent(candidate, span) for name, span in candidate.items()}
    submit, load = "zerofleet.v1.Gatekeeper/SubmitCandidate", "inference.GRPCInferenceService/RepositoryModelLoad"
    wanted: dict[str, str | None] = {
        "trainer candidate": None,
        "trainer train.steps": "trainer candidate",
        "trainer candidate.export": "trainer candidate",
        "trainer candidate.submit": "trainer candidate.export",
        f"gatekeeper {submit}": "trainer candidate.submit",
        "gatekeeper gate": f"gatekeeper {submit}",
        "gatekeeper gate.check": "gatekeeper gate",
        "gatekeeper gate.load": "gatekeeper gate",
        f"inference_server {load}": "gatekeeper gate.load",
        "inference_server model.load": f"inference_server {load}",
        "gatekeeper gate.match": "gatekeeper gate",
        "gatekeeper gate.promote": "gatekeeper gate",
    }
    assert wanted.items() <= parents.items()
    assert candidate["inference_server model.load"].attributes["zerofleet.version"] == version

    taught = candidate["trainer candidate"].links
    assert taught
    game = max((collector.of(trace_id) for trace_id in taught), key=len)  # games begun together share their requests' spans
    uid = game["selfplay_worker game"].attributes["zerofleet.game_uid"]
    infer = "inference_server zerofleet.shared_memory/Evaluate"
    assert set(game) == {
        "selfplay_worker game",
        "selfplay_worker evaluate",
        infer,
        "selfplay_worker game.publish",
        "trainer game.intake",
        "trainer train.first_use",
    }
    assert game["trainer game.intake"].attributes["zerofleet.verdict"] == "accepted"
    assert game["trainer game.intake"].parent_id == game["selfplay_worker game.publish"].span_id
    assert game["trainer train.first_use"].attributes["zerofleet.version"] == version
    assert game["trainer train.first_use"].links == [promotion.trace_id]
    assert game[infer].attributes["zerofleet.version"] == game["selfplay_worker game"].attributes["zerofleet.version"]
    with GameLog.open(paths.replay, writer=False) as log:
        assert log.find_index(uid) is not None


def _parent(trace: dict[str, Span], span: Span) -> str | None:
    return next((name for name, other in trace.items() if other.span_id == span.parent_id), None)


def check_logs(collector: Collector, logs: Path, text: str) -> None:
    """No secret is in what was logged or printed, nor in what was sent to the collector."""
    said = text + "".join(path.read_text(errors="replace") for path in logs.iterdir()) + repr(collector.spans)
    assert "rpc" in said
    assert "game.published" in said
    for secret in (OPERATOR_TOKEN, WORKER_TOKEN, REDIS_PASSWORD, STORE_SECRET):
        assert secret not in said
    traced = {span.trace_id for span in collector.spans}
    assert set(re.findall(r'"trace_id": "([0-9a-f]{32})"', said)) & traced
