"""KServe v2 over HTTP: tritonclient and plain JSON get the answers that gRPC gives."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable
from typing import Any

import fake_network
import numpy as np
import pytest
import tritonclient.http as triton
from fake_network import MODEL, expected_value, until
from google.protobuf import json_format
from raw_http import Caller, as_json, ask, binary_request, get, json_request, with_binary
from tritonclient.grpc import service_pb2 as messages

from inference_server.rest.answers import message_json
from zerofleet.contracts.priorities import Priority
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.telemetry import metrics


@pytest.fixture
async def served(open_wire, publish):
    """A server of versions 1 and 2 with HTTP; without a champion, 2 answers requests without a version."""
    publish()
    publish("opponents", "plies_left")
    async with open_wire(http_address="127.0.0.1:0") as running:
        await running.server.plane.registry.serve(MODEL, [1, 2])
        yield running


async def with_client(http_address: str, use: Callable[[triton.InferenceServerClient], Any]) -> Any:
    """Run `use` with tritonclient's blocking client in a thread."""

    def work() -> Any:
        with triton.InferenceServerClient(http_address) as client:
            return use(client)

    return await asyncio.to_thread(work)


def inputs(states: np.ndarray, legal: np.ndarray, *, binary: bool = True) -> list[triton.InferInput]:
    return [
        triton.InferInput("state__0", list(states.shape), "UINT8").set_data_from_numpy(states, binary_data=binary),
        triton.InferInput("legal__1", list(legal.shape), "INT16").set_data_from_numpy(legal, binary_data=binary),
    ]


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
async def test_tritonclient_gets_the_outputs_that_grpc_gives(served, http_address, positions, binary):
    states, legal = positions[0][:40], positions[1][:40]
    reply = await with_client(
        http_address,
        lambda client: client.infer(MODEL, inputs(states, legal, binary=binary), model_version="1", request_id="me"),
    )
    said = reply.get_response()
    assert (said["model_name"], said["model_version"], said["id"]) == (MODEL, "1", "me")
    version, value = await served.infer(states, legal, version="1")
    assert version == "1"
    np.testing.assert_array_equal(reply.as_numpy("value__1"), value)
    np.testing.assert_array_equal(reply.as_numpy("policy__0"), uniform_policy(legal))
    assert reply.as_numpy("policy__0").dtype == np.float16


async def test_a_request_names_its_outputs_and_how_each_is_sent(http_address, positions):
    states, legal = positions[0][:3], positions[1][:3]
    wanted = [
        triton.InferRequestedOutput("value__1", binary_data=False),
        triton.InferRequestedOutput("head__3", binary_data=True),
    ]
    reply = await with_client(http_address, lambda client: client.infer(MODEL, inputs(states, legal), outputs=wanted))
    listed = {output["name"]: output for output in reply.get_response()["outputs"]}
    assert sorted(listed) == ["head__3", "value__1"]
    assert "data" in listed["value__1"]
    assert listed["head__3"]["parameters"] == {"binary_data_size": 12}
    np.testing.assert_array_equal(reply.as_numpy("value__1"), expected_value(states, legal, 2))
    np.testing.assert_array_equal(reply.as_numpy("head__3"), expected_value(states, legal, 2)[:, 1:])


async def test_the_bytes_of_a_reply_follow_its_json(http_address, positions):
    states, legal = positions[0][:2], positions[1][:2]
    reply = await ask(http_address, with_binary(*binary_request(states, legal, binary_data_output=True)))
    length = int(reply.headers["inference-header-content-length"])
    assert reply.headers["content-type"] == "application/octet-stream"
    content, at = json.loads(reply.body[:length]), length
    for output in content["outputs"]:
        assert "data" not in output
        at += output["parameters"]["binary_data_size"]
    assert at == len(reply.body)


async def test_plain_json_by_urllib(http_address, positions):
    states, legal = positions[0][:2], positions[1][:2]

    def call() -> Any:
        body = json.dumps(as_json(states, legal)).encode()
        with urllib.request.urlopen(f"http://{http_address}/v2/models/{MODEL}/versions/1/infer", body, timeout=60) as reply:
            return json.load(reply)

    said = await asyncio.to_thread(call)
    assert (said["model_name"], said["model_version"]) == (MODEL, "1")
    assert "id" not in said
    value = next(output for output in said["outputs"] if output["name"] == "value__1")
    assert (value["datatype"], value["shape"]) == ("FP32", [2, 2])
    np.testing.assert_array_equal(np.array(value["data"], np.float32).reshape(2, 2), expected_value(states, legal, 1))


async def test_long_outputs_in_json_are_whole(http_address, positions):
    states, legal = np.resize(positions[0], (1024, 3)), np.resize(positions[1], (1024, 9))
    content, binary = binary_request(states, legal)
    reply = await ask(http_address, with_binary(content, binary))
    policy = reply.json["outputs"][0]
    assert policy["shape"] == [1024, 9]
    np.testing.assert_array_equal(np.array(policy["data"], np.float16).reshape(1024, 9), uniform_policy(legal))


@pytest.mark.parametrize("form", ["json", "binary"])
async def test_an_output_that_is_not_finite_is_refused_and_the_others_are_sent(http_address, positions, monkeypatch, form):
    monkeypatch.setattr(fake_network, "expected_value", lambda states, *_: np.full((len(states), 2), np.nan, np.float32))
    said = as_json(positions[0][:2], positions[1][:2]) | {"parameters": {"binary_data_output": form == "binary"}}
    reply = await ask(http_address, json_request(said | {"outputs": [{"name": "value__1"}]}))
    assert (reply.status, reply.error) == (
        500,
        f"model {MODEL} version 2 returned value__1 with numbers that are not finite; it must not be used",
    )
    assert (await ask(http_address, json_request(said | {"outputs": [{"name": "policy__0"}]}))).status == 200


async def test_tritonclient_reads_health_metadata_configuration_and_statistics(served, http_address, positions):
    await served.infer(positions[0][:4], positions[1][:4], version="1")

    def look(client: triton.InferenceServerClient) -> None:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready(MODEL)
        assert client.is_model_ready(MODEL, "2")
        assert not client.is_model_ready(MODEL, "3")
        assert not client.is_model_ready("go")
        about = client.get_server_metadata()
        assert about["name"] == "zerofleet"
        assert about["extensions"] == ["binary_tensor_data", "model_configuration", "statistics"]
        model = client.get_model_metadata(MODEL, "1")
        assert (model["name"], model["versions"]) == (MODEL, ["1", "2"])
        assert model["inputs"] == [
            {"name": "state__0", "datatype": "UINT8", "shape": [-1, 3]},
            {"name": "legal__1", "datatype": "INT16", "shape": [-1, 9]},
        ]
        config = client.get_model_config(MODEL)
        assert (config["name"], config["max_batch_size"]) == (MODEL, 1024)
        assert config["input"][0]["data_type"] == "TYPE_UINT8"
        assert config["input"][0]["dims"] == [3]
        (one,) = client.get_inference_statistics(MODEL, "1")["model_stats"]
        assert (one["version"], one["inference_count"]) == ("1", 4)
        assert one["inference_stats"]["success"]["count"] == 1
        every = client.get_inference_statistics()["model_stats"]
        assert [stats["version"] for stats in every] == ["1", "2"]

    await with_client(http_address, look)


def test_messages_have_the_fields_of_protobufs_own_json():
    message = messages.ModelMetadataResponse(name="a", versions=["1"], platform="p")
    message.inputs.add(name="i", datatype="UINT8", shape=[-1, 2])
    own = json_format.MessageToDict(message, preserving_proto_field_name=True)
    own["inputs"][0]["shape"] = [-1, 2]  # texts in protobuf's JSON
    assert message_json(message) == own


async def test_a_server_without_models_is_live_and_not_ready(open_wire):
    async with open_wire(http_address="127.0.0.1:0") as wire:
        assert (await ask(wire.server.http.address, get("/v2/health/live"))).json == {"live": True}
        reply = await ask(wire.server.http.address, get("/v2/health/ready"))
        assert (reply.status, reply.error) == (400, "the server is not ready: it serves no model, or is shutting down")


async def test_requests_follow_one_another_on_a_connection_also_sent_ahead(http_address, positions):
    one = json_request(as_json(positions[0][:1], positions[1][:1]))
    async with Caller.open(http_address) as caller:
        for _ in range(3):
            assert (await caller.ask(one)).status == 200
        head = await caller.ask(get("/v2/health/live", method="HEAD"))
        assert (head.status, head.headers["content-length"]) == (200, "13")
        caller.writer.write(one + get("/v2") + one)
        assert [(await caller.reply()).status for _ in range(3)] == [200, 200, 200]
        caller.writer.write(get("/v2", "Connection: close"))
        assert (await caller.reply()).status == 200
        assert await caller.is_closed()


async def test_a_body_is_asked_for_with_continue(http_address, positions):
    head, _, body = json_request(as_json(positions[0][:1], positions[1][:1]), "Expect: 100-continue").partition(b"\r\n\r\n")
    async with Caller.open(http_address) as caller:
        caller.writer.write(head + b"\r\n\r\n")
        async with asyncio.timeout(60):
            assert (await caller.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        assert (await caller.ask(body)).status == 200


async def test_an_answer_has_the_id_of_its_request(http_address):
    reply = await ask(http_address, get("/v2", "x-request-id: mine"))
    assert reply.headers["x-request-id"] == "mine"
    assert len((await ask(http_address, get("/v2"))).headers["x-request-id"]) == 16


async def test_requests_are_counted_by_route_and_status(http_address, positions):
    def count(route: str, status: str) -> float:
        return metrics.INFERENCE_HTTP.labels(route=route, status=status)._value.get()

    before = count("infer", "200"), count("infer", "400"), count("unknown", "404")
    await ask(http_address, json_request(as_json(positions[0][:1], positions[1][:1])))
    await ask(http_address, json_request({}))
    await ask(http_address, get("/v2/x"))
    assert (count("infer", "200"), count("infer", "400"), count("unknown", "404")) == tuple(n + 1 for n in before)


async def test_a_priority_reaches_the_queue_and_a_timeout_ends_the_wait(served, http_address, loader, positions):
    loader.gate.clear()
    loader.entered.clear()
    try:
        async with asyncio.TaskGroup() as group:
            held = group.create_task(served.infer(positions[0][:1], positions[1][:1]))
            await asyncio.to_thread(loader.entered.wait, 60)
            content = as_json(positions[0][:2], positions[1][:2]) | {"parameters": {"priority": 1, "timeout": 1}}
            late = group.create_task(ask(http_address, json_request(content)))
            await until(lambda: served.waiting_rows() == 2)
            assert [key.priority for key in served.server.plane._batcher._queue._groups] == [Priority.HIGH]
            loader.gate.set()
        assert held.result()[0] == "2"
        assert (late.result().status, late.result().headers["retry-after"]) == (503, "1")
        assert "the deadline passed" in late.result().error
    finally:
        loader.gate.set()


async def test_a_caller_that_disconnects_leaves_the_queue(served, http_address, loader, positions):
    loader.gate.clear()
    loader.entered.clear()
    try:
        held = asyncio.create_task(served.infer(positions[0][:1], positions[1][:1]))
        await asyncio.to_thread(loader.entered.wait, 60)
        async with Caller.open(http_address) as caller:
            caller.writer.write(json_request(as_json(positions[0][:3], positions[1][:3])))
            await until(lambda: served.waiting_rows() == 3)
        await until(lambda: served.waiting_rows() == 0)
        loader.gate.set()
        await held
    finally:
        loader.gate.set()


async def test_a_drain_completes_requests_in_progress_and_closes_idle_connections(served, http_address, loader, positions):
    loader.gate.clear()
    async with Caller.open(http_address) as idle, Caller.open(http_address) as busy:
        assert (await idle.ask(get("/v2"))).status == 200
        busy.writer.write(json_request(as_json(positions[0][:3], positions[1][:3])))
        await asyncio.to_thread(loader.entered.wait, 60)
        drained = asyncio.create_task(served.server.drain(60))
        assert await idle.is_closed()
        loader.gate.set()
        reply = await busy.reply()
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert await busy.is_closed()
        await drained
    with pytest.raises(ConnectionError):
        await ask(http_address, get("/v2"))
