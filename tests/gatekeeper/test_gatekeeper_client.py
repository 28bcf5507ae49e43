import asyncio
import random

import grpc
import pytest
from structlog.testing import capture_logs

import zerofleet.rpc.gatekeeper_client as client_module
from zerofleet.contracts.promotions import Candidate, CandidateStatus, Champion, MatchReport, Rung, champion_to_wire
from zerofleet.contracts.wire import gatekeeper_pb2 as wire
from zerofleet.contracts.wire import gatekeeper_pb2_grpc as stubs
from zerofleet.errors import (
    ConfigurationError,
    CorruptModel,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    StaleEpoch,
    Unavailable,
    ZerofleetError,
)
from zerofleet.rpc.errors import ErrorInterceptor, code_of
from zerofleet.rpc.failures import error_from
from zerofleet.rpc.gatekeeper_client import GatekeeperClient

REPORT = MatchReport(3, 10, 4, 6, (1, 2, 3, 4, 0), 0.6, 0.5, 0.7, 1.25)


class ScriptedServicer(stubs.GatekeeperServicer):
    """Answers from attributes; `error` is raised by every call."""

    def __init__(self):
        self.error = None
        self.failures = None  # number of calls that meet the error; None: all
        self.champions = asyncio.Queue()
        self.watchers = 0

    def _maybe_raise(self):
        if self.error is not None and self.failures != 0:
            self.failures = None if self.failures is None else self.failures - 1
            raise self.error

    async def SubmitCandidate(self, request, context):
        self._maybe_raise()
        return Candidate(request.game, request.version, CandidateStatus.REJECTED, REPORT, "too weak").to_wire()

    async def GetChampion(self, request, context):
        self._maybe_raise()
        return champion_to_wire(Champion(request.game, 4, 9, "ab", 77, "why", 66))

    async def WatchChampion(self, request, context):
        self._maybe_raise()
        self.watchers += 1
        while (item := await self.champions.get()) is not None:
            yield champion_to_wire(item)

    async def ListModels(self, request, context):
        return wire.ListModelsReply(models=[Candidate(request.game, 1, CandidateStatus.PROMOTED).to_wire()])

    async def Promote(self, request, context):
        self._maybe_raise()
        return champion_to_wire(Champion(request.game, request.version, 10, "cd", 78, "why"))

    async def Rollback(self, request, context):
        self._maybe_raise()
        return champion_to_wire(Champion(request.game, 3, 11, "ef", 79, "why"))

    async def GetLadder(self, request, context):
        return wire.Ladder(game=request.game, rungs=[Rung("random", 0.0, -1.0, 1.0, 5, anchored=True).to_wire()])


async def serve(servicer, port=0):
    server = grpc.aio.server(interceptors=[ErrorInterceptor()], options=[("grpc.so_reuseport", 0)])
    stubs.add_GatekeeperServicer_to_server(servicer, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server, bound


@pytest.fixture
async def gate():
    servicer = ScriptedServicer()
    server, port = await serve(servicer)
    async with GatekeeperClient(f"127.0.0.1:{port}", rng=random.Random(1)) as client:
        yield servicer, server, client, port
    await server.stop(None)


async def test_every_value_survives_the_wire(gate):
    _, _, client, _ = gate
    submitted = await client.submit("tic_tac_toe", 7, "ab" * 32)
    assert submitted == Candidate("tic_tac_toe", 7, CandidateStatus.REJECTED, REPORT, "too weak")
    assert await client.champion("tic_tac_toe") == Champion("tic_tac_toe", 4, 9, "ab", 77, "why", 66)
    assert await client.models("tic_tac_toe") == ([Candidate("tic_tac_toe", 1, CandidateStatus.PROMOTED)], None)
    assert (await client.promote("tic_tac_toe", 5, reason="because")).version == 5
    assert (await client.rollback("tic_tac_toe", reason="because")).version == 3
    assert await client.ladder("tic_tac_toe") == [Rung("random", 0.0, -1.0, 1.0, 5, anchored=True)]


@pytest.mark.parametrize("error", [InvalidRequest("a"), ModelNotFound("b"), CorruptModel("c"), StaleEpoch("d")])
async def test_an_error_of_the_server_arrives_as_the_same_error_with_its_text(gate, error):
    servicer, _, client, _ = gate
    servicer.error = error
    with pytest.raises(type(error), match=str(error)):
        await client.promote("tic_tac_toe", 1, reason="")


async def test_calls_are_repeated_while_the_server_is_overloaded(gate, monkeypatch):
    monkeypatch.setattr("zerofleet.rpc.channel_client.FIRST_RETRY_S", 0.001)
    servicer, _, client, _ = gate
    servicer.error, servicer.failures = Overloaded("Concurrent RPC limit exceeded!"), 3
    assert (await client.promote("tic_tac_toe", 5, reason="because")).version == 5
    assert servicer.failures == 0


async def test_an_overload_that_does_not_end_is_raised_after_the_time_of_the_call(gate):
    servicer, _, _, port = gate
    servicer.error = Overloaded("4096 calls are in progress")
    async with GatekeeperClient(f"127.0.0.1:{port}", timeout_s=0.3) as client:
        with pytest.raises((Overloaded, Unavailable)):
            await client.champion("tic_tac_toe")


async def test_no_champion_yet_is_none_rather_than_an_error(gate):
    servicer, _, client, _ = gate
    servicer.error = ModelNotFound("no champion yet")
    assert await client.champion("tic_tac_toe") is None


async def test_the_text_of_an_unexpected_exception_stays_on_the_server(gate):
    servicer, _, client, _ = gate
    servicer.error = KeyError("/secret/path")
    with pytest.raises(ZerofleetError, match=r"internal error [0-9a-f]{12}") as caught:
        await client.rollback("tic_tac_toe", reason="")
    assert "secret" not in str(caught.value)


async def test_an_unreachable_server_is_unavailable_and_named(gate):
    _, server, client, port = gate
    await server.stop(None)
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port} does not answer"):
        await client.ladder("tic_tac_toe")


async def test_a_watch_continues_after_a_restart_and_yields_each_epoch_once(gate, monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_PAUSE_S", 0.001)
    servicer, server, client, port = gate
    first, second = Champion("tic_tac_toe", 1, 1, "a", 0, "why"), Champion("tic_tac_toe", 2, 2, "b", 0, "why")
    await servicer.champions.put(first)
    watching = client.watch("tic_tac_toe")
    assert await anext(watching) == first
    await server.stop(None)
    again = ScriptedServicer()
    for champion in (first, second):
        await again.champions.put(champion)
    replacement, _ = await serve(again, port)
    assert await anext(watching) == second
    await watching.aclose()
    await replacement.stop(None)


async def test_a_watch_reconnects_when_the_server_ends_the_stream(gate, monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_PAUSE_S", 0.001)
    servicer, _, client, _ = gate
    for item in (Champion("tic_tac_toe", 1, 1, "a", 0, "why"), None, Champion("tic_tac_toe", 2, 2, "b", 0, "why")):
        await servicer.champions.put(item)
    watching = client.watch("tic_tac_toe")
    assert [(await anext(watching)).version, (await anext(watching)).version] == [1, 2]
    assert servicer.watchers == 2
    await watching.aclose()


async def test_a_watch_whose_client_is_closed_is_unavailable(gate):
    servicer, _, client, _ = gate
    servicer.champions.put_nowait(Champion("tic_tac_toe", 1, 1, "ab", 1, "first"))
    watching = client.watch("tic_tac_toe")
    await anext(watching)
    following = asyncio.create_task(anext(watching))
    await asyncio.sleep(0)  # it waits for the next champion
    await client.aclose()
    for watch in (following, anext(client.watch("tic_tac_toe"))):
        with pytest.raises(Unavailable, match="closed"):
            await watch


async def test_a_watch_whose_client_is_closed_while_the_gatekeeper_is_away_is_unavailable():
    async with GatekeeperClient("127.0.0.1:1") as client:
        watching = asyncio.create_task(anext(client.watch("tic_tac_toe")))
        await asyncio.sleep(0)  # it waits for a connection
    with pytest.raises(Unavailable, match="closed"):
        await watching


async def test_a_watch_raises_errors_that_a_retry_cannot_repair(gate):
    servicer, _, client, _ = gate
    servicer.error = InvalidRequest("this gatekeeper judges connect_four")
    with pytest.raises(InvalidRequest, match="judges connect_four"):
        await anext(client.watch("tic_tac_toe"))


@pytest.mark.parametrize("other", [{"status": 99}, {"status": 0}, {"status": 3, "match": wire.MatchResult(wins=1)}])
def test_a_candidate_of_another_release_names_the_remedy(other):
    with pytest.raises(ConfigurationError, match=r"version 7 .* install that of the gatekeeper"):
        Candidate.from_wire(wire.Candidate(game="tic_tac_toe", version=7, **other))


async def test_the_address_of_another_service_is_named_as_such():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with GatekeeperClient(f"127.0.0.1:{port}") as client:
        with pytest.raises(ZerofleetError, match=f"127.0.0.1:{port} lacks this call .* another service"):
            await client.champion("tic_tac_toe")
        with capture_logs() as logs:
            watching = asyncio.ensure_future(anext(client.watch("tic_tac_toe")))
            while not logs:  # noqa: ASYNC110
                await asyncio.sleep(0)
            watching.cancel()
            await asyncio.wait({watching})
        assert "another service" in logs[0]["error"]
    await server.stop(None)


def test_pauses_between_retries_grow_and_stay_bounded():
    channelless = GatekeeperClient.__new__(GatekeeperClient)
    channelless._rng = random.Random(3)
    backoff = channelless._backoff()
    pauses = [backoff.next_s() for _ in range(1, 200)]
    assert max(pauses) <= client_module.MAX_PAUSE_S
    assert min(pauses) >= client_module.FIRST_PAUSE_S / 2
    assert len(set(pauses)) > 190


def test_an_unknown_exception_has_no_code():
    assert code_of(ValueError("x")) is None


def test_an_unmapped_status_becomes_the_base_error():
    failure = grpc.aio.AioRpcError(grpc.StatusCode.DATA_LOSS, grpc.aio.Metadata(), grpc.aio.Metadata(), details="flipped")
    assert type(error_from(failure, target="x")) is CorruptModel
    failure = grpc.aio.AioRpcError(grpc.StatusCode.ALREADY_EXISTS, grpc.aio.Metadata(), grpc.aio.Metadata())
    assert str(error_from(failure, target="x")) == "x answered ALREADY_EXISTS"
