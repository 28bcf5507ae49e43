"""What is particular to Redis: it goes away and comes back, wants a password, is full, or holds what others wrote."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from socket import AF_INET
from typing import Any, Protocol

import pytest
import redis.asyncio
from structlog.testing import capture_logs

from zerofleet.contracts.naming import MAX_RECORD_BYTES
from zerofleet.errors import ConfigurationError, PermissionRefused, Unavailable
from zerofleet.service.authority import Authority
from zerofleet.storage.streams import GameStream, RedisStream, StreamSettings, open_stream
from zerofleet.storage.streams import redis as redis_module
from zerofleet.telemetry import metrics


class Server(Protocol):
    url: str
    socket: Path

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def client(self) -> redis.asyncio.Redis: ...


MakeServer = Callable[..., Server]
WORKER_RIGHTS = "~games +ping +xadd +xlen"
TRAINER_RIGHTS = (
    "~games ~games:dead +ping +xadd +xlen +xgroup +xreadgroup +xpending +xclaim +xrange +xrevrange +xack +xdel +eval +time"
)
NO_PATIENCE = StreamSettings(retry_for_s=0.0)


async def take(stream: GameStream, block_s: float = 0.0) -> list[str]:
    return [delivery.uid for delivery in await stream.consume(consumer="a", limit=100, block_s=block_s)]


# -- away ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_start_waits_for_a_redis_that_is_down(make_redis_server: MakeServer) -> None:
    server = make_redis_server()
    stream = RedisStream(server.url, name="games")
    with capture_logs() as logs:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            publishing = tasks.create_task(stream.publish("game-0", b"x"))
            while not logs:  # noqa: ASYNC110  (the log is what a person would watch)
                await asyncio.sleep(0)
            assert not publishing.done()
            await asyncio.to_thread(server.start)
    assert [entry["event"] for entry in logs] == ["stream.away", "stream.back"]
    assert str(server.socket) in logs[0]["address"]
    assert "No such file" in logs[0]["error"]
    assert await take(stream) == ["game-0"]
    await stream.aclose()


async def test_a_call_fails_when_redis_stays_down(make_redis_server: MakeServer) -> None:
    stream = RedisStream(make_redis_server().url, name="games", settings=NO_PATIENCE)
    for call in (stream.publish("game-0", b"x"), stream.stats(), stream.acknowledge(["1-0"]), stream.dead()):
        with pytest.raises(Unavailable, match="is it running"):
            await call
    await stream.aclose()


async def test_consumer_of_an_absent_redis_waits_as_for_an_empty_stream(make_redis_server: MakeServer) -> None:
    stream = RedisStream(make_redis_server().url, name="games", settings=NO_PATIENCE)
    loop = asyncio.get_running_loop()
    before_s = loop.time()
    assert await take(stream, block_s=0.1) == []
    assert 0.09 <= loop.time() - before_s < 5.0
    await stream.aclose()


@pytest.mark.slow
async def test_restart_pauses_both_sides_and_loses_nothing(make_redis_server: MakeServer) -> None:
    server = make_redis_server()
    server.start()
    publisher, consumer = RedisStream(server.url, name="games"), RedisStream(server.url, name="games")
    total = 150
    got: dict[str, bytes] = {}
    moments = {total // 3: asyncio.Event(), 2 * total // 3: asyncio.Event()}

    async def publish() -> None:
        for number in range(total):
            await publisher.publish(f"game-{number}", f"payload {number}".encode())
            if moment := moments.get(number):
                moment.set()

    async def consume() -> None:
        while len(got) < total:
            deliveries = await consumer.consume(consumer="trainer-0", limit=7, block_s=1.0)
            got.update({delivery.uid: delivery.payload for delivery in deliveries})
            await consumer.acknowledge([delivery.entry_id for delivery in deliveries])

    async def restart() -> None:
        for moment in moments.values():
            await moment.wait()
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for part in (publish, consume, restart):
            tasks.create_task(part())
    assert got == {f"game-{number}": f"payload {number}".encode() for number in range(total)}
    while await take(consumer):  # copies of games whose answer was lost
        pass
    await publisher.aclose()
    await consumer.aclose()


@pytest.mark.slow
async def test_redis_that_lost_everything_gets_a_new_group(make_redis_server: MakeServer) -> None:
    server = make_redis_server("--appendonly", "no")
    server.start()
    stream = RedisStream(server.url, name="games")
    await stream.publish("game-0", b"x")
    assert await take(stream) == ["game-0"]
    server.kill()
    server.start()
    await stream.publish("game-1", b"x")
    assert await take(stream) == ["game-1"]
    await stream.aclose()


@pytest.mark.slow
async def test_redis_without_memory_makes_publishers_wait_and_can_still_be_emptied(make_redis_server: MakeServer) -> None:
    server = make_redis_server("--maxmemory-policy", "noeviction")
    server.start()
    admin = server.client()
    stream, impatient = RedisStream(server.url, name="games"), RedisStream(server.url, name="games", settings=NO_PATIENCE)
    for number in range(3):
        await stream.publish(f"game-{number}", b"x")
    assert await take(impatient) == ["game-0", "game-1", "game-2"]
    await admin.config_set("maxmemory", 1)

    deliveries = await stream.consume(consumer="a", limit=3, block_s=0.0)
    await impatient.dead_letter(deliveries[0], reason="moves")
    with pytest.raises(Unavailable, match="memory"):
        await impatient.publish("game-3", b"x")
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(stream.publish("game-3", b"x"))
        await stream.acknowledge([delivery.entry_id for delivery in deliveries[1:]])
        assert (await stream.stats()).length == 0
        done, _ = await asyncio.wait([waiting], timeout=0.03)
        assert not done
        await admin.config_set("maxmemory", 0)
    assert await take(stream) == ["game-3"]
    stats = await stream.stats()
    assert (stats.length, stats.dead) == (1, 1)
    for client in (stream, impatient, admin):
        await client.aclose()


@pytest.mark.slow
async def test_a_redis_that_cannot_write_to_its_disk_is_away_for_every_call_and_not_foreign(
    make_redis_server: MakeServer,
) -> None:
    server = make_redis_server("--dbfilename", "taken")
    server.start()
    admin = server.client()
    stream = RedisStream(server.url, name="games", settings=NO_PATIENCE)
    for number in range(3):
        await stream.publish(f"game-{number}", b"x")
    deliveries = await stream.consume(consumer="a", limit=3, block_s=0.0)

    (server.socket.parent / "taken").mkdir()  # where a snapshot would be written
    await admin.config_set("save", "3600 1")
    await admin.bgsave()
    while (await admin.info("persistence"))["rdb_last_bgsave_status"] == "ok":
        pass
    writes = {
        "publish": lambda: stream.publish("game-3", b"x"),
        "acknowledge": lambda: stream.acknowledge([delivery.entry_id for delivery in deliveries[1:]]),
        "dead_letter": lambda: stream.dead_letter(deliveries[0], reason="moves"),
    }
    for write in writes.values():
        with pytest.raises(Unavailable, match="MISCONF"):
            await write()

    await admin.config_set("save", "")
    for write in writes.values():
        await write()
    assert await take(stream) == ["game-3"]
    stats = await stream.stats()
    assert (stats.length, stats.dead) == (1, 1)
    for client in (stream, admin):
        await client.aclose()


@pytest.mark.slow
async def test_a_redis_filled_by_large_bad_games_still_accepts_good_ones(make_redis_server: MakeServer) -> None:
    server = make_redis_server("--maxmemory-policy", "noeviction", "--maxmemory", "24mb", "--appendfsync", "no")
    server.start()
    settings = StreamSettings(dead_limit=200, poll_s=0.005)  # letters of 6.4 MB; whole they would have 200 MiB
    worker, trainer = (RedisStream(server.url, name="games", settings=settings) for _ in range(2))
    flood = RedisStream(server.url, name="games", settings=NO_PATIENCE)
    large = random.Random(1).randbytes(MAX_RECORD_BYTES)
    for wave in range(12):
        bad = 0
        with contextlib.suppress(Unavailable):  # until Redis is full
            while True:
                await flood.publish(f"bad-{wave}-{bad}", large)
                bad += 1
        assert bad > 10
        found = await trainer.consume(consumer="a", limit=100, block_s=0.0)
        assert len(found) == bad
        for delivery in found:
            await trainer.dead_letter(delivery, reason="moves")
        async with asyncio.timeout(60):
            await worker.publish(f"good-{wave}", b"x")
        (good,) = await trainer.consume(consumer="a", limit=100, block_s=0.0)
        assert good.uid == f"good-{wave}"
        await trainer.acknowledge([good.entry_id])
    stats = await trainer.stats()
    assert (stats.length, stats.pending) == (0, 0)
    assert [letter.size_bytes for letter in await trainer.dead(limit=1000)] == [len(large)] * stats.dead
    assert 100 < stats.dead <= 200
    for stream in (worker, trainer, flood):
        await stream.aclose()


async def test_a_bad_game_whose_dead_letter_is_refused_is_counted_and_blocks_no_other(redis_server: Server) -> None:
    client = redis_server.client()
    stream = RedisStream(redis_server.url, name="refused")
    await client.set("refused:dead", "no stream")
    await stream.publish("bad", b"x")
    await stream.publish("good", b"x")
    before = metrics.DEAD_LETTERS_LOST._value.get()
    bad, good = await stream.consume(consumer="a", limit=2, block_s=0.0)
    with capture_logs() as logs:
        await stream.dead_letter(bad, reason="moves")
    await stream.acknowledge([good.entry_id])
    assert metrics.DEAD_LETTERS_LOST._value.get() - before == 1
    assert [(line["event"], line["game_uid"]) for line in logs] == [("stream.dead_letter_lost", "bad")]
    assert "WRONGTYPE" in logs[0]["error"]
    assert await client.xlen("refused") == 0
    assert (await client.xpending("refused", "trainer"))["pending"] == 0
    await client.delete("refused", "refused:dead")
    await client.aclose()
    await stream.aclose()


async def test_a_redis_that_runs_a_long_script_is_waited_for(redis_server: Server) -> None:
    admin, stream = redis_server.client(), RedisStream(redis_server.url, name="during-a-script")
    await admin.config_set("busy-reply-threshold", 1)
    await stream.publish("game-0", b"x")

    async def script() -> None:
        with pytest.raises(redis.exceptions.ResponseError, match="killed"):
            await admin.eval("while true do end", 0)

    with capture_logs() as logs:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(script())
            tasks.create_task(stream.publish("game-1", b"x"))
            while not any("BUSY" in entry.get("error", "") for entry in logs):  # noqa: ASYNC110  (as above)
                await asyncio.sleep(0)
            async with redis_server.client() as another:
                await another.execute_command("SCRIPT", "KILL")
    assert [entry["event"] for entry in logs] == ["stream.away", "stream.back"]
    assert await take(stream) == ["game-0", "game-1"]
    await admin.config_set("busy-reply-threshold", 5000)
    await admin.aclose()
    await stream.aclose()


# -- refused -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_password_comes_from_a_file_that_may_change(make_redis_server: MakeServer, tmp_path: Path) -> None:
    server = make_redis_server("--requirepass", "open sesame")
    server.start()
    file = tmp_path / "password"
    file.write_text("wrong\n")
    stream = open_stream(f"{server.url}?password_file={file}&retry_for_s=0", name="games")
    with pytest.raises(PermissionRefused, match="check user and password") as refused:
        await stream.publish("game-0", b"x")
    assert "wrong" not in str(refused.value)
    file.write_text("open sesame\n")
    await stream.publish("game-0", b"x")
    assert await take(stream) == ["game-0"]
    await stream.aclose()

    anonymous = RedisStream(server.url, name="games")
    with pytest.raises(PermissionRefused):
        await anonymous.consume(consumer="a", limit=1, block_s=10.0)
    await anonymous.aclose()


@pytest.mark.slow
async def test_users_need_no_more_than_the_documented_rights(make_redis_server: MakeServer, tmp_path: Path) -> None:
    server = make_redis_server()
    server.start()
    admin = server.client()
    for user, rights in (("worker", WORKER_RIGHTS), ("trainer", TRAINER_RIGHTS)):
        assert rights in redis_module.__doc__.replace("\n", " ")
        await admin.execute_command("ACL", "SETUSER", user, "on", ">pw", "resetkeys", "-@all", *rights.split())
    file = tmp_path / "password"
    file.write_text("pw")
    worker, trainer = (
        open_stream(f"unix://{user}@{server.socket}?password_file={file}&max_deliveries=1", name="games")
        for user in ("worker", "trainer")
    )
    for number in range(3):
        await worker.publish(f"game-{number}", b"x")
    assert await worker.length() == 3
    for call in (worker.stats(), worker.consume(consumer="a", limit=1, block_s=0.0)):
        with pytest.raises(PermissionRefused):
            await call

    deliveries = await trainer.consume(consumer="a", limit=10, block_s=0.0)
    await trainer.acknowledge([deliveries[0].entry_id])
    await trainer.dead_letter(deliveries[1], reason="moves")
    again = open_stream(f"unix://trainer@{server.socket}?password_file={file}&max_deliveries=1", name="games")
    assert await take(again) == []
    assert [letter.reason for letter in await again.dead()] == ["poison", "moves"]
    assert (await again.stats()).length == 0
    for stream in (worker, trainer, again):
        await stream.aclose()
    await admin.aclose()


async def test_tls_needs_the_right_authority(redis_server: Server, tmp_path: Path) -> None:
    identity = Authority(tmp_path).issue("redis", ["localhost"], days=1).directory
    async with tls_in_front_of(redis_server.socket, serving(identity)) as port:
        url = f"rediss://localhost:{port}/0?retry_for_s=0"
        trusting = open_stream(f"{url}&tls_ca_file={identity / 'ca.crt'}", name="behind-tls")
        await trusting.publish("game-0", b"x")
        assert await take(trusting) == ["game-0"]
        doubting = open_stream(url, name="behind-tls")
        with pytest.raises(Unavailable, match=r"(?i)certificate"):
            await doubting.publish("game-1", b"x")
        for stream in (trusting, doubting):
            await stream.aclose()


async def test_files_of_tls_that_were_renewed_count_at_the_next_connection(redis_server: Server, tmp_path: Path) -> None:
    former, renewed = (Authority(tmp_path / name).issue("redis", ["localhost"], days=1).directory for name in ("a", "b"))
    ca = tmp_path / "ca.crt"
    ca.write_bytes((former / "ca.crt").read_bytes())
    context, admin = serving(former), redis_server.client()
    async with tls_in_front_of(redis_server.socket, context) as port:
        stream = open_stream(f"rediss://localhost:{port}/0?retry_for_s=2&tls_ca_file={ca}", name="renewed-tls")
        await stream.publish("game-0", b"x")
        ca.write_bytes((renewed / "ca.crt").read_bytes())
        context.load_cert_chain(renewed / "tls.crt", renewed / "tls.key")
        await admin.client_kill_filter(_type="normal", skipme=True)
        await stream.publish("game-1", b"x")
        assert await take(stream) == ["game-0", "game-1"]
        await stream.aclose()
    await admin.aclose()


def serving(identity: Path) -> ssl.SSLContext:
    """Return the context of a server with this certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(identity / "tls.crt", identity / "tls.key")
    return context


@contextlib.asynccontextmanager
async def tls_in_front_of(socket: Path, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Yield the port of localhost at which the server of that socket answers in TLS; not every Valkey has TLS of its own."""
    relays: list[asyncio.Task[None]] = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while said := await reader.read(65_536):
                writer.write(said)
                await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            relays.append(task)
        answers, requests = await asyncio.open_unix_connection(socket)
        try:
            await asyncio.gather(pass_on(reader, requests), pass_on(answers, writer))
        finally:
            requests.transport.abort()
            writer.transport.abort()

    async with await asyncio.start_server(relay, "localhost", 0, ssl=context, family=AF_INET) as listener:
        yield listener.sockets[0].getsockname()[1]
        for task in relays:
            task.cancel()
        await asyncio.gather(*relays, return_exceptions=True)


async def test_a_key_of_another_type_is_named_in_the_error(redis_server: Server) -> None:
    client = redis_server.client()
    await client.set("not-a-stream", "text")
    stream = RedisStream(redis_server.url, name="not-a-stream", settings=NO_PATIENCE)
    for call in (stream.publish("game-0", b"x"), take(stream), stream.stats()):
        with pytest.raises(ConfigurationError, match="a key without foreign data"):
            await call
    await client.delete("not-a-stream")
    await client.aclose()
    await stream.aclose()


# -- what others wrote -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields", [{"something": "else"}, {"uid": "game-0"}, {"payload": b"x"}, {"uid": b"\xff\xfe", "payload": b"x"}]
)
async def test_a_malformed_entry_becomes_a_dead_letter_and_blocks_no_other(
    redis_server: Server, fields: dict[Any, Any]
) -> None:
    client = redis_server.client()
    stream = RedisStream(redis_server.url, name="mixed")
    await client.xadd("mixed", fields)
    await stream.publish("game-1", b"x")
    assert await take(stream) == ["game-1"]
    assert [letter.reason for letter in await stream.dead()] == ["malformed"]
    assert (await stream.stats()).length == 1
    await client.delete("mixed", "mixed:dead")
    await client.aclose()
    await stream.aclose()


async def test_the_dead_letter_of_an_entry_with_many_fields_is_small(redis_server: Server) -> None:
    client = redis_server.client()
    stream = RedisStream(redis_server.url, name="odd")
    await client.xadd("odd", {f"field {number}": b"x" * 100 for number in range(10_000)} | {"uid": "u" * 100_000})
    assert await take(stream) == []
    (letter,) = await stream.dead()
    assert (letter.uid, letter.payload, letter.size_bytes) == ("u" * 128, b"", 1_100_000)
    assert (await client.memory_usage("odd:dead")) < 8192
    await client.delete("odd", "odd:dead")
    await client.aclose()
    await stream.aclose()


async def test_a_trimmed_entry_is_skipped(redis_server: Server) -> None:
    client = redis_server.client()
    before = RedisStream(redis_server.url, name="trimmed")
    for number in range(3):
        await before.publish(f"game-{number}", b"x")
    await take(before)
    await client.xtrim("trimmed", maxlen=1, approximate=False)
    after = RedisStream(redis_server.url, name="trimmed")
    assert await take(after) == ["game-2"]
    assert (await after.stats()).pending == 1
    await client.delete("trimmed")
    await client.aclose()
    await before.aclose()
    await after.aclose()
