"""Whatever comes in over HTTP gets a clear answer in JSON, and the next good request is served as if nothing had been."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_network import MODEL, expected_value, infer_request, refusal, until
from raw_http import INFER, Caller, as_json, ask, binary_request, get, json_request, post, with_binary

from inference_server.rest.infer_bodies import MAX_JSON_BYTES
from inference_server.rest.listener import HttpServer
from zerofleet.contracts.naming import MAX_REQUEST_ROWS
from zerofleet.rpc.security.tls import PLAIN
from zerofleet.telemetry import metrics

Spoil = Callable[[dict[str, Any]], None]


@pytest.fixture
def block(positions) -> tuple[np.ndarray, np.ndarray]:
    return positions[0][:3], positions[1][:3]


async def expect_still_serving(http_address: str, block) -> None:
    reply = await ask(http_address, json_request(as_json(*block)))
    assert reply.status == 200
    value = next(output["data"] for output in reply.json["outputs"] if output["name"] == "value__1")
    np.testing.assert_array_equal(np.array(value, np.float32).reshape(3, 2), expected_value(*block, 1))


def setting(*path: Any, to: Any) -> Spoil:
    """A change of one value in the JSON; `to` of `...` removes it."""

    def spoil(content: dict[str, Any]) -> None:
        place: Any = content
        for part in path[:-1]:
            place = place[part]
        if to is ...:
            del place[path[-1]]
        else:
            place[path[-1]] = to

    return spoil


def data(*numbers: Any) -> Spoil:
    return setting("inputs", 1, "data", to=list(numbers))


JSON_ROWS = [
    (setting("inputs", to=...), "inputs: Field required"),
    (setting("inputs", to={}), "inputs: Input should be a valid list"),
    (setting("inputs", to=[]), "input state__0 and legal__1 is missing"),
    (setting("inputs", to=[{"name": "a", "datatype": "UINT8", "shape": [1]}] * 17), "at most 16 items"),
    (setting("inputs", 0, "name", to="state"), "unknown input 'state'"),
    (setting("inputs", 1, "name", to="state__0"), "legal__1 is missing"),
    (setting("inputs", 0, "name", to=7), "inputs.0.name: Input should be a valid string"),
    (setting("inputs", 0, "datatype", to="FP32"), "type 'FP32', want UINT8"),
    (setting("inputs", 1, "datatype", to="BYTES"), "type 'BYTES', want INT16"),
    (setting("inputs", 0, "shape", to=[3, 4]), r"shape \[3, 4\], want \[positions, 3\]"),
    (setting("inputs", 0, "shape", to=[3.5, 3]), "inputs.0.shape.0: Input should be a valid integer"),
    (setting("inputs", 0, "shape", to=[True, 3]), "inputs.0.shape.0: Input should be a valid integer"),
    (setting("inputs", 0, "shape", to=[-3, -3]), "want"),
    (setting("inputs", 0, "shape", to=[2**62, 3]), "4611686018427387904 rows"),
    (setting("inputs", 0, "shape", to=[2**70, 3]), "rows"),
    (setting("inputs", 0, "shape", to=[2, 3]), "9 bytes, want 6"),
    (setting("inputs", 1, "shape", to=[27]), "do not have the lengths of its shape"),
    (setting("inputs", 0, "data", to=...), "neither data nor binary_data_size"),
    (setting("inputs", 0, "data", to=[1.5] * 9), "data of type float, want integers"),
    (setting("inputs", 0, "data", to=[True] * 9), "data of type bool"),
    (setting("inputs", 0, "data", to=["1"] * 9), "data of type str"),
    (setting("inputs", 0, "data", to=[None] * 9), "data of type NoneType"),
    (setting("inputs", 0, "data", to=[256] * 9), "'state__0' has a number out of range for UINT8"),
    (setting("inputs", 0, "data", to=[2**80] * 9), "'state__0' has a number out of range for UINT8"),
    (setting("inputs", 0, "data", to=[0] * 8), "8 bytes, want 9"),
    (data([0] * 9, [0] * 9, [0] * 8), "do not have the lengths of its shape"),
    (data([0] * 9, 0, [0] * 9), "do not have the lengths of its shape"),
    (data(*[[[0]] * 9] * 3), "data of type list"),
    (data([9] + [-1] * 8, [0] + [-1] * 8, [0] + [-1] * 8), "row 0 lists an action out of range.*0 to 8"),
    (data([0] + [-1] * 8, [1, 1] + [-1] * 7, [0] + [-1] * 8), "row 1 is not in order"),
    (setting("inputs", 0, "parameters", to={"binary_data_size": 9}), "data beside binary_data_size"),
    (
        setting("inputs", 0, "parameters", to={"shared_memory_region": "r"}),
        "'shared_memory_region'.*shared memory is not supported",
    ),
    (setting("outputs", to=[{"name": "logits"}]), "unknown output 'logits'"),
    (setting("outputs", to=[{"name": "value__1", "parameters": {"classification": 3}}]), "'classification'; want binary_data"),
    (setting("outputs", to=[{"name": "value__1", "parameters": {"binary_data": 1}}]), "want true or false"),
    (lambda content: content.update({f"key{n}": n for n in range(16)}), "an object with 17 keys, want at most 16"),
    (lambda content: content["inputs"][1].update({f"key{n}": n for n in range(16)}), "an object with 20 keys"),
    (setting("output", to=[]), "output: Extra inputs are not permitted"),
    (setting("parameters", to={"binary_data_output": "yes"}), "binary_data_output of the request is yes, want true or false"),
    (setting("parameters", to={"priority": -1}), "priority is -1, want 0"),
    (setting("parameters", to={"priority": "1"}), "priority is 1, want a whole number"),
    (setting("parameters", to={"priority": True}), "priority is True, want a whole number"),
    (setting("parameters", to={"timeout": -1}), "timeout is -1, want microseconds"),
    (setting("id", to=5), "id: Input should be a valid string"),
]


async def test_malformed_json_requests_are_refused_and_named(http_address, block):
    async with Caller.open(http_address) as caller:  # one connection: a refused request does not end it
        for spoil, says in JSON_ROWS:
            content = as_json(*block)
            spoil(content)
            reply = await caller.ask(json_request(content))
            assert reply.status == 400, says
            assert len(reply.error) < 500
            with pytest.raises(AssertionError, match=says):
                raise AssertionError(reply.error)
    await expect_still_serving(http_address, block)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"[]", "request: Input should be a valid dictionary"),
        (b"\xff{}", "the body is not JSON"),
        (b'{"inputs": [], "parameters": {"a": NaN}}', "the body is not JSON"),
        (b'{"inputs": [{"name": "state__0", "datatype": "UINT8", "shape": [1, 3], "data": [NaN]}]}', "the body is not JSON"),
        (b'{"inputs": [], "parameters": {"a": -Infinity}}', "the body is not JSON"),
        (b"[" * 50_000, "the body is not JSON"),
        (b'{"inputs": [{"data": ' + b"9" * 5000 + b"}]}", "number out of range"),
    ],
)
async def test_a_body_that_is_not_the_json_of_a_request_is_refused(http_address, block, body, says):
    reply = await ask(http_address, json_request(body))
    assert (reply.status, says in reply.error) == (400, True), reply.error
    await expect_still_serving(http_address, block)


async def test_binary_data_that_disagrees_with_its_sizes_is_refused(http_address, block):
    content, binary = binary_request(*block)
    length = len(json.dumps(content))

    def sized(first: Any, second: Any) -> dict[str, Any]:
        changed, _ = binary_request(*block)
        for tensor, size in zip(changed["inputs"], (first, second), strict=True):
            tensor["parameters"]["binary_data_size"] = size
        return changed

    rows = [
        (with_binary(content, binary, json_length=str(length + 1)), "the body is not JSON"),
        (with_binary(content, binary, json_length=str(length - 1)), "the body is not JSON"),
        (with_binary(content, binary, json_length=str(length + len(binary) + 1)), "but the body has"),
        (with_binary(content, binary, json_length="9" * 10), "but the body has"),
        (with_binary(content, binary, json_length="0"), "the body is not JSON"),
        (with_binary(content, binary, json_length="-1"), "want a number of bytes"),
        (with_binary(content, binary, json_length="+5"), "want a number of bytes"),
        (with_binary(content, binary, json_length="1e2"), "want a number of bytes"),
        (with_binary(content, binary, json_length="\u00b2"), "want a number of bytes"),
        (with_binary(content, binary, "Inference-Header-Content-Length: 1"), "want a number of bytes"),
        (json_request(content), "binary_data_size 9, but 0 bytes of binary data are left"),
        (with_binary(content, binary[:-1]), "binary_data_size 54, but 53 bytes"),
        (with_binary(content, binary + b"\0"), "64 bytes of binary data follow the JSON, but the inputs list 63"),
        (with_binary(sized(63, 54), binary), "binary_data_size 54, but 0 bytes"),
        (with_binary(sized(8, 55), binary), "8 bytes, want 9"),
        (with_binary(sized(-1, 64), binary), "binary_data_size -1, but 63"),
        (with_binary(sized(2**64, 1), binary), "binary_data_size 18446744073709551616, but"),
        (with_binary(sized(True, 62), binary), "binary_data_size True, but"),
        (with_binary(sized("9", 54), binary), "binary_data_size 9, but"),
        (with_binary(as_json(*block), b"\0"), "1 bytes of binary data follow the JSON, but the inputs list 0"),
    ]
    async with Caller.open(http_address) as caller:
        for request, says in rows:
            reply = await caller.ask(request)
            assert (reply.status, says in reply.error) == (400, True), (says, reply.error)
    await expect_still_serving(http_address, block)


async def test_http_and_grpc_refuse_a_request_with_one_text(served, http_address, block):
    content = as_json(*block)
    content["inputs"][1]["data"][2] = [0, 0] + [-1] * 7
    request = infer_request(block[0], np.array(content["inputs"][1]["data"], "<i2"))
    _, text = await refusal(served.stub.ModelInfer(request, timeout=60))
    assert (await ask(http_address, json_request(content))).error == text
    _, text = await refusal(served.stub.ModelInfer(infer_request(*block, version="7"), timeout=60))
    reply = await ask(http_address, json_request(as_json(*block), path=f"/v2/models/{MODEL}/versions/7/infer"))
    assert (reply.status, reply.error) == (404, text)


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        (get("/"), 404, "no path '/'"),
        (get("/v2/models"), 404, "no path"),
        (get("/v2/repository/index"), 404, "no path"),
        (get(f"/v2/models/{MODEL}/versions//ready"), 404, "no path"),
        (get("/v2/models/go"), 404, "model go is not served"),
        (get(f"/v2/models/{MODEL}/versions/2/stats"), 404, "version 2 of"),
        (get(f"/v2/models/{MODEL}/versions/01"), 400, "is not a version"),
        (get("/v2/models/..%2Faz"), 400, "model"),
        (get("/v2/models/%00"), 400, "model"),
        (get(f"/v2/models/{MODEL.upper()}"), 400, "model"),
        (get(INFER), 405, "takes POST"),
        (get("/v2", method="DELETE"), 405, "takes GET"),
        (get("/v2", method="POST"), 405, "takes GET"),
        (get("/v2", "Origin: https://example.org"), 403, "pages in a browser"),
        (post(b"{}", "Content-Encoding: gzip"), 415, "compressed"),
        (b"GET /v2 HTTP/1.1\r\n\r\n", 400, "malformed request"),
        (b"HELLO\r\n\r\n", 400, "malformed request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "malformed request"),
        (get("/v2", "Content-Length: 3", "Content-Length: 4"), 400, "malformed request"),
        (get("/v2", "Content-Length: -1"), 400, "malformed request"),
        (get("/v2", "X-Long: " + "x" * 70_000), 431, "the head of the request is too long"),
    ],
)
async def test_requests_that_are_no_calls_are_refused_with_their_status(http_address, block, request_, status, says):
    reply = await ask(http_address, request_)
    assert (reply.status, says in reply.error) == (status, True), reply.error
    await expect_still_serving(http_address, block)


async def test_a_body_over_the_limit_is_refused_unread(open_wire, publish):
    publish()
    async with open_wire(http_address="127.0.0.1:0", max_message_bytes=300_000) as wire:
        http_address = wire.server.http.address
        reply = await ask(http_address, post(b"", path=INFER).replace(b"Content-Length: 0", b"Content-Length: 300001"))
        assert (reply.status, reply.error) == (413, "the request has 300001 bytes, want at most 300000")
        assert reply.headers["connection"] == "close"
        assert (await ask(http_address, post(b"x" * 2000, path="/v2").replace(b"POST", b"GET"))).status == 413


async def test_long_json_is_refused_and_long_binary_data_is_not(http_address, positions):
    reply = await ask(http_address, json_request(b" " * (MAX_JSON_BYTES + 1)))
    assert reply.status == 413
    assert "send tensors as binary data, or fewer rows" in reply.error
    states, legal = (np.resize(part, (MAX_REQUEST_ROWS, part.shape[1])) for part in positions)
    assert (await ask(http_address, with_binary(*binary_request(states, legal)))).status == 200
    states, legal = (np.resize(part, (MAX_REQUEST_ROWS + 1, part.shape[1])) for part in positions)
    reply = await ask(http_address, with_binary(*binary_request(states, legal)))
    assert (reply.status, "1025 rows, want 1 to 1024" in reply.error) == (400, True)


async def test_a_chunked_body_without_end_is_refused_before_its_first_chunk(http_address, block):
    async with Caller.open(http_address) as caller:
        head = f"POST {INFER} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
        reply = await caller.ask(head.encode() + b"1\r\nx\r\n" * 1000)
        assert (reply.status, reply.headers["connection"]) == (411, "close")
        assert "send Content-Length" in reply.error
        assert await caller.is_closed()
    await expect_still_serving(http_address, block)


@pytest.mark.parametrize(
    "sent", [b"GET /v2 HT", post(b"{}" * 1000)[:-1], get("/v2", "Host: b")[:-2]], ids=["line", "body", "head"]
)
async def test_a_request_that_does_not_arrive_in_time_ends(served, http_address, block, sent):
    before = metrics.INFERENCE_REFUSED.labels(reason="slow")._value.get()
    async with Caller.open(http_address) as caller:
        assert (await caller.ask(get("/v2"))).status == 200
        (connection,) = served.server.http._open.values()
        connection._transfer_s = 0.1
        reply = await caller.ask(sent)
        assert (reply.status, reply.error) == (408, "the request did not arrive within 0.1 s")
        assert await caller.is_closed()
    assert metrics.INFERENCE_REFUSED.labels(reason="slow")._value.get() == before + 1
    await expect_still_serving(http_address, block)


async def test_a_connection_without_a_request_is_closed_in_time(served):
    server = HttpServer(served.server.http._routes, "127.0.0.1:0", PLAIN, transfer_s=0.1)
    try:
        async with Caller.open(server.address) as silent:
            assert await silent.is_closed()
    finally:
        await server.aclose()


async def test_an_idle_connection_is_closed_in_time(served):
    server = HttpServer(served.server.http._routes, "127.0.0.1:0", PLAIN, idle_s=0.1)
    try:
        async with Caller.open(server.address) as caller:
            assert (await caller.ask(get("/v2"))).status == 200
            assert await caller.is_closed()
    finally:
        await server.aclose()


async def test_a_caller_that_ends_inside_a_request_leaves_nothing(served, http_address, block):
    bounds = served.server.http._routes._bounds
    async with Caller.open(http_address) as caller:
        caller.writer.write(post(b"{}" * 100)[:-1])
        caller.writer.write_eof()
        assert (await caller.reply()).status == 400
    await expect_still_serving(http_address, block)
    assert (await ask(http_address, get("/v2", "Connection: close"))).status == 200
    await until(lambda: not len(served.server.http))
    assert (bounds._calls.places.taken, bounds._calls.bytes.taken) == (0, 0)
    assert (bounds._calls.places._by_peer, bounds._calls.bytes._by_peer) == ({}, {})
