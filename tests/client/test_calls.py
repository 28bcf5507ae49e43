"""Both clients of the installed wheel against real servers of this process: the same answers, errors and ends."""

from __future__ import annotations

import asyncio
import math

import pytest
from fake_network import MODEL

from zerofleet.rpc.evaluation_client import EvaluationClient

pytestmark = pytest.mark.slow
NOBODY = "127.0.0.1:1"
ENDLESS_S = 120.0


async def test_a_position_is_evaluated_as_by_the_product(connect, wire):
    ask = connect(wire.server.address)
    opinion = await ask("evaluate", MODEL, ["b2"], simulations=40, seed=3)
    async with EvaluationClient(wire.server.address) as own:
        wanted = await own.evaluate(MODEL, ["b2"], simulations=40, seed=3)
    assert str(opinion) == str(wanted)
    assert [(move.move, move.visits, move.value) for move in opinion.moves] == [
        (move.move, move.visits, move.value) for move in wanted.moves
    ]
    assert (await ask("evaluate", MODEL, ["b2"], model_version=1)).principal_variation == ()


async def test_a_call_without_end_of_its_time_is_answered(connect, wire):
    assert (await connect(wire.server.address, timeout_s=math.inf)("evaluate", MODEL)).model_version == 1


async def test_an_error_of_the_server_has_its_class_and_text(connect, wire, library):
    ask = connect(wire.server.address)
    for options, error, text in (
        ({"moves": ["a1", "a1"]}, library.InvalidRequest, "move 2"),
        ({"model_version": 9}, library.ModelNotFound, "version 9"),
        ({"simulations": -1}, library.InvalidRequest, "cannot be sent"),
        ({"moves": [4]}, library.InvalidRequest, "moves is .4., want a list of texts"),
        ({"parameters": {"rows": 5}}, library.InvalidRequest, "no parameter rows"),
        ({"timeout_s": 0.0}, library.ConfigurationError, "more than 0 seconds"),
    ):
        with pytest.raises(error, match=text):
            await ask("evaluate", MODEL, **options)
    with pytest.raises(library.ConfigurationError, match="no address"):
        await ask("champion", MODEL)


async def test_the_wrong_servers_address_is_named_as_such(connect, wire, library):
    ask = connect(gatekeeper=wire.server.address)
    with pytest.raises(library.ConfigurationError, match="want the address of a Zerofleet gatekeeper"):
        await ask("champion", MODEL)
    with pytest.raises(library.ConfigurationError, match="gatekeeper"):
        await ask.next(ask.client.watch_champion(MODEL))


async def test_an_absent_server_is_unavailable_at_once(connect, library):
    with pytest.raises(library.Unavailable, match="is it running"):
        await connect(NOBODY)("evaluate", MODEL)


@pytest.mark.parametrize("options", [{"token": "two\nlines"}, {"token": ""}, {"timeout_s": -1.0}])
async def test_a_wrong_option_is_refused_before_any_call(connect, library, options):
    with pytest.raises(library.ConfigurationError):
        connect(NOBODY, **options)
    for addresses in ((), ("",), ("host:99999",)):
        with pytest.raises(library.ConfigurationError, match="address"):
            connect(*addresses)


async def test_a_call_ends_with_its_deadline(connect, wire, loader, library):
    loader.gate.clear()  # the device waits
    try:
        with pytest.raises(library.Unavailable, match=r"did not answer Evaluate in time|deadline"):
            await connect(wire.server.address)("evaluate", MODEL, timeout_s=0.2)
    finally:
        loader.gate.set()


async def test_an_overloaded_server_is_asked_again_until_the_time_is_over(connect, open_wire, publish, loader, library):
    async with open_wire(max_searches=1) as wire:
        await wire.server.plane.registry.serve(MODEL, [publish()])
        loader.gate.clear()
        ask = connect(wire.server.address)
        async with asyncio.TaskGroup() as group:
            thinking = group.create_task(ask("evaluate", MODEL, simulations=20))
            assert await asyncio.to_thread(loader.entered.wait, 60)
            with pytest.raises(library.Overloaded, match="1 searches are under way"):
                await ask("evaluate", MODEL, simulations=20, timeout_s=2.0)
            patient = group.create_task(ask("evaluate", MODEL, simulations=20))
            loader.gate.set()
        assert len(thinking.result().moves) == len(patient.result().moves) == 9


async def test_cancelling_a_task_frees_the_server(library, open_wire, publish, loader):
    async with open_wire(max_searches=1) as wire, library.AsyncClient(wire.server.address) as client:
        await wire.server.plane.registry.serve(MODEL, [publish()])
        loader.gate.clear()
        thinking = asyncio.create_task(client.evaluate(MODEL, simulations=20))
        assert await asyncio.to_thread(loader.entered.wait, 60)
        thinking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await thinking
        loader.gate.set()
        assert len((await client.evaluate(MODEL, simulations=20)).moves) == 9


async def test_closing_ends_calls_in_progress_and_refuses_later_ones(connect, wire, loader, library):
    loader.gate.clear()
    ask = connect(wire.server.address)
    try:
        async with asyncio.TaskGroup() as group:
            refused = group.create_task(expect(library.Unavailable, ask("evaluate", MODEL)))
            assert await asyncio.to_thread(loader.entered.wait, 60)
            await ask("close")
        assert str(refused.result()) == "the client is closed"
    finally:
        loader.gate.set()
    with pytest.raises(library.Unavailable, match="the client is closed"):
        await ask("evaluate", MODEL)


async def test_tokens_and_tls_are_presented(connect, open_wire, publish, certificates, library):
    settings = {"tls_ca": certificates.ca, "tls_identity": certificates.root / "server"}
    async with open_wire(tokens="evaluator: " + "e" * 20, **settings) as wire:
        await wire.server.plane.registry.serve(MODEL, [publish()])
        own = certificates.root / "client"
        tls = library.Tls(ca=certificates.ca, certificate=own / "tls.crt", key=own / "tls.key")
        target = "localhost:" + wire.server.address.rpartition(":")[2]
        assert (await connect(target, token="e" * 20, tls=tls)("evaluate", MODEL)).model_version == 1
        with pytest.raises(library.PermissionRefused, match="token"):
            await connect(target, token="wrong", tls=tls)("evaluate", MODEL)
        with pytest.raises(library.Unavailable):
            await connect(target, token="e" * 20)("evaluate", MODEL)


async def test_tls_files_that_cannot_be_used_are_refused_when_the_client_is_made(connect, certificates, library, tmp_path):
    own, other = certificates.root / "client", certificates.root / "server"
    text, torn = tmp_path / "text.crt", tmp_path / "torn.crt"
    text.write_text("no certificate\n")
    torn.write_bytes(certificates.ca.read_bytes().replace(b"M", b"N", 1))
    for files, refusal in (
        ({"ca": "absent.crt"}, r"absent\.crt cannot be read"),
        ({"ca": text}, r"text\.crt holds no certificates"),
        ({"ca": torn}, r"torn\.crt holds no certificates"),
        ({"ca": own / "tls.key"}, r"tls\.key holds no certificates"),
        ({"key": own / "tls.key"}, "certificate and key together"),
        ({"certificate": own / "tls.crt", "key": other / "tls.key"}, "no certificate and its key"),
        ({"certificate": own / "tls.key", "key": own / "tls.crt"}, "no certificate and its key"),
        ({"certificate": text, "key": text}, "no certificate and its key"),
    ):
        with pytest.raises(library.ConfigurationError, match=refusal):
            connect("localhost:1", tls=library.Tls(**files))


async def test_a_unix_socket_is_plain_text_whatever_tls_is_for_others(connect, open_wire, publish, tmp_path, library):
    async with open_wire(address=f"unix:{tmp_path}/inference.sock") as wire:
        await wire.server.plane.registry.serve(MODEL, [publish()])
        assert (await connect(wire.server.address, tls=library.Tls())("evaluate", MODEL)).model_version == 1


async def test_the_gatekeeper_is_asked_and_told(connect, open_gate, models, library, monkeypatch):
    monkeypatch.setattr("zerofleet_client.operations.PAGE_SIZE", 1)  # so that versions come in pages
    async with open_gate() as gate:
        ask = connect(gatekeeper=gate.gatekeeper.address)
        assert (await ask("champion", MODEL), await ask("versions", MODEL)) == (None, ())
        watch = ask.client.watch_champion(MODEL)
        await gate.offer()
        first = await ask.next(watch)
        assert (first.version, first) == (1, await ask("champion", MODEL))
        second, _ = models.publish()
        promoted = await ask("promote", MODEL, second, reason="by hand")
        assert promoted == await ask.next(watch)
        assert (await ask("rollback", MODEL, reason="worse")).version == 1
        assert (await ask.next(watch)).reason.startswith("rollback")
        await ask.end(watch)
        wanted, _ = await gate.client.models(MODEL)
        found = await ask("versions", MODEL)
        assert [(one.version, str(one.status), one.reason) for one in found] == [
            (one.version, str(one.status), one.reason) for one in wanted
        ]
        assert len(found) == 2
        assert isinstance(await ask("ladder", MODEL), tuple)
        with pytest.raises(library.ModelNotFound):
            await ask("promote", MODEL, 9, reason="no such version")
        with pytest.raises(library.InvalidRequest, match="othello"):
            await ask.next(ask.client.watch_champion("othello"))


async def test_a_watch_survives_a_restart_and_ends_with_the_client(connect, open_gate, library):
    lost = asyncio.Queue()
    loop = asyncio.get_running_loop()
    async with open_gate() as gate:
        ask = connect(gatekeeper=gate.gatekeeper.address)
        watch = ask.client.watch_champion(MODEL, on_lost=lambda error: loop.call_soon_threadsafe(lost.put_nowait, error))
        await gate.offer()
        assert (await ask.next(watch)).version == 1
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(ask.next(watch))
            await gate.gatekeeper.grpc.stop(None)
            assert isinstance(await lost.get(), library.Unavailable)
            await ask("close")
        assert waiting.result() is None


def test_a_watch_that_meets_a_client_just_closed_ends_without_an_error(library, monkeypatch):
    client = library.Client(gatekeeper=NOBODY)
    start = client._start

    def closed_meanwhile(connection, call):
        client.close()
        return start(connection, call)

    monkeypatch.setattr(client, "_start", closed_meanwhile)
    assert list(client.watch_champion(MODEL)) == []


async def test_closing_ends_the_pause_before_a_call_is_made_again(library, monkeypatch):
    pausing = asyncio.Event()

    def pause_s(attempts, error):
        pausing.set()
        return ENDLESS_S

    monkeypatch.setattr("zerofleet_client.attempts.Attempts.pause_s", pause_s)
    client = library.AsyncClient(NOBODY)
    waiting = asyncio.create_task(client.evaluate(MODEL))
    await pausing.wait()
    await client.close()
    with pytest.raises(library.Unavailable, match="the client is closed"):
        await asyncio.wait_for(waiting, ENDLESS_S / 2)


async def test_closing_ends_the_pause_of_a_watch(library, monkeypatch):
    monkeypatch.setattr("zerofleet_client.attempts.Watch.pause_s", lambda watch: ENDLESS_S)
    lost = asyncio.Event()
    client = library.AsyncClient(gatekeeper=NOBODY)

    async def champions():
        return [champion async for champion in client.watch_champion(MODEL, on_lost=lambda error: lost.set())]

    watching = asyncio.create_task(champions())
    await lost.wait()
    await client.close()
    assert await asyncio.wait_for(watching, ENDLESS_S / 2) == []


async def expect(error, call):
    with pytest.raises(error) as caught:
        await call
    return caught.value
