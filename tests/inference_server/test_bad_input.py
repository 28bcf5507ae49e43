"""Whatever comes in over the wire gets a clear answer, and the next good request is served as if nothing had been."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from fake_network import MODEL, Wire, expected_value, infer_request, refusal, until
from tritonclient.grpc import service_pb2 as messages

from zerofleet.contracts.naming import MAX_MESSAGE_BYTES, MAX_REQUEST_ROWS
from zerofleet.errors import Unavailable

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND


@pytest.fixture
def good(positions):
    """A fresh, well-formed request of three positions, to be spoilt."""
    states, legal = positions[0][:3], positions[1][:3]
    return infer_request(states, legal)


async def expect_still_serving(wire: Wire, positions) -> None:
    states, legal = positions[0][:5], positions[1][:5]
    version, value = await wire.infer(states, legal)
    assert version == "1"
    np.testing.assert_array_equal(value, expected_value(states, legal, 1))


def resize(index: int, shape: list[int]) -> Callable[[Any], None]:
    def spoil(request: Any) -> None:
        del request.inputs[index].shape[:]
        request.inputs[index].shape.extend(shape)

    return spoil


def typed(index: int, datatype: str) -> Callable[[Any], None]:
    def spoil(request: Any) -> None:
        request.inputs[index].datatype = datatype

    return spoil


def with_legal(*rows: list[int]) -> Callable[[Any], None]:
    def spoil(request: Any) -> None:
        legal = np.array([row + [-1] * (9 - len(row)) for row in rows], "<i2")
        request.raw_input_contents[1] = legal.tobytes()

    return spoil


def no_inputs(request: Any) -> None:
    del request.inputs[:]
    del request.raw_input_contents[:]


def one_input(request: Any) -> None:
    del request.inputs[1:]
    del request.raw_input_contents[1:]


def three_inputs(request: Any) -> None:
    request.inputs.add(name="planes__2", datatype="FP32", shape=[3, 1])
    request.raw_input_contents.append(b"\0" * 12)


def twice(request: Any) -> None:
    request.inputs.add().CopyFrom(request.inputs[0])
    request.raw_input_contents.append(request.raw_input_contents[0])


def renamed(request: Any) -> None:
    request.inputs[0].name = "state__0\0"


def long_name(request: Any) -> None:
    request.inputs[0].name = "x" * 5000


def short_bytes(request: Any) -> None:
    request.raw_input_contents[0] = request.raw_input_contents[0][:-1]


def long_bytes(request: Any) -> None:
    request.raw_input_contents[1] += b"\0\0"


def no_bytes(request: Any) -> None:
    del request.raw_input_contents[:]


def one_raw(request: Any) -> None:
    del request.raw_input_contents[1:]


def both_contents(request: Any) -> None:
    request.inputs[0].contents.uint_contents.extend([1, 2, 3])


def shared_memory(request: Any) -> None:
    request.inputs[0].parameters["shared_memory_region"].string_param = "region"


def one_in_shared_memory(request: Any) -> None:
    shared_memory(request)
    del request.raw_input_contents[0]


def numbers_of_another_type(request: Any) -> None:
    del request.raw_input_contents[:]
    request.inputs[0].contents.uint_contents.extend([0] * 9)
    request.inputs[1].contents.int64_contents.extend([0] * 27)


def classified(request: Any) -> None:
    request.outputs.add(name="policy__0").parameters["classification"].int64_param = 2  # tritonclient's class_count


def to_shared_memory(request: Any) -> None:
    request.outputs.add(name="policy__0").parameters["shared_memory_region"].string_param = "region"


def with_priority(kind: str, value: Any) -> Callable[[Any], None]:
    def spoil(request: Any) -> None:
        setattr(request.parameters["priority"], kind, value)

    return spoil


def empty_priority(request: Any) -> None:
    request.parameters["priority"].SetInParent()


def unknown_output(request: Any) -> None:
    request.outputs.add(name="logits")


def stray_bits(request: Any) -> None:
    request.raw_input_contents[0] = b"\xff" * len(request.raw_input_contents[0])


def unequal_rows(request: Any) -> None:
    resize(1, [2, 9])(request)
    request.raw_input_contents[1] = request.raw_input_contents[1][: 2 * 18]


ROWS = [
    (no_inputs, "state__0 and legal__1 is missing"),
    (one_input, "legal__1 is missing"),
    (three_inputs, "unknown input 'planes__2'"),
    (twice, "more than once"),
    (renamed, r"unknown input 'state__0\\x00'"),
    (long_name, "unknown input 'xxxx"),
    (typed(0, "FP64"), "type 'FP64', want UINT8"),
    (typed(0, "INT8"), "want UINT8"),
    (typed(1, "BYTES"), "type 'BYTES', want INT16"),
    (typed(1, "INT32"), "want INT16"),
    (resize(0, [3, 4]), r"shape \[3, 4\], want \[positions, 3\]"),
    (resize(0, []), "want"),
    (resize(0, [9]), "want"),
    (resize(0, [3, 1, 1, 3, 1]), "want"),
    (resize(0, [0, 3]), "0 rows, want 1 to"),
    (resize(0, [-1, 3]), "-1 rows"),
    (resize(0, [3, -3]), "want"),
    (resize(0, [2**62, 3]), "4611686018427387904 rows"),
    (resize(0, [3, 2**62]), "want"),
    (resize(0, [-(2**62), -(2**62)]), "want"),
    (resize(0, [MAX_REQUEST_ROWS + 1, 3]), "1025 rows, want 1 to 1024"),
    (resize(0, [2, 3]), "9 bytes, want 6"),
    (short_bytes, "8 bytes, want 9"),
    (long_bytes, "56 bytes, want 54"),
    (no_bytes, "0 bytes, want 9"),
    (one_raw, "2 inputs but 1 raw_input_contents"),
    (both_contents, "contents beside raw_input_contents"),
    (shared_memory, "shared memory is not supported"),
    (one_in_shared_memory, "input 'state__0' has parameters; shared memory is not supported, send the bytes"),
    (numbers_of_another_type, "input 'legal__1' has numbers in int64_contents, want int_contents for INT16"),
    (classified, "output 'policy__0' has the parameter 'classification'; want binary_data at most"),
    (to_shared_memory, "output 'policy__0' has the parameter 'shared_memory_region'; want binary_data at most"),
    (with_priority("int64_param", -1), "priority is -1, want 0"),
    (with_priority("string_param", "1"), "priority is sent as string_param, want int64_param or uint64_param"),
    (with_priority("bool_param", True), "priority is sent as bool_param"),
    (with_priority("double_param", 1.0), "priority is sent as double_param"),
    (empty_priority, "priority is sent as nothing"),
    (unknown_output, "unknown output 'logits'; this version has policy__0, value__1"),
    (unequal_rows, "3 rows, legal__1 has 2; want equal numbers"),
    (stray_bits, "row 0: bits beyond the 18"),
    (with_legal([0], [], [1]), "row 1 lists no action"),
    (with_legal([0], [1], [-1, 3]), "row 2 lists no action"),
    (with_legal([0, 9], [1], [2]), "row 0 lists an action out of range.*0 to 8"),
    (with_legal([0], [32767], [2]), "row 1 lists an action out of range"),
    (with_legal([0], [1], [2, 1]), "row 2 is not in order"),
    (with_legal([0], [1, 1], [2]), "row 1 is not in order"),
    (with_legal([0], [1, -1, 2], [2]), "row 1 is not in order"),
    (with_legal([0], [1, -2], [2]), "row 1 is not in order"),
    (with_legal([0], [-32768], [2]), "row 1 lists no action"),
]


@pytest.mark.parametrize(("spoil", "says"), ROWS, ids=range(len(ROWS)))
async def test_a_malformed_request_is_refused_and_named(wire, positions, good, spoil, says):
    spoil(good)
    code, details = await refusal(wire.stub.ModelInfer(good, timeout=60))
    assert code is INVALID
    assert len(details) < 500
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(details)
    await expect_still_serving(wire, positions)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../az",
        "az/../az",
        "az\0",
        f"{MODEL}\0",
        "x" * 5000,
        "TIC_TAC_TOE",
        "tic\u200b_tac",
        "conne\u0441t_four",
        "1az",
        "_az",
    ],
)
async def test_an_invalid_model_name_never_reaches_a_path(wire, positions, good, name):
    good.model_name = name
    assert (await refusal(wire.stub.ModelInfer(good, timeout=60)))[0] is INVALID
    load = messages.RepositoryModelLoadRequest(model_name=name)
    assert (await refusal(wire.stub.RepositoryModelLoad(load, timeout=60)))[0] is INVALID
    unload = messages.RepositoryModelUnloadRequest(model_name=name)
    assert (await refusal(wire.stub.RepositoryModelUnload(unload, timeout=60)))[0] is INVALID
    assert (await refusal(wire.stub.ModelReady(messages.ModelReadyRequest(name=name), timeout=60)))[0] is INVALID
    await expect_still_serving(wire, positions)


async def test_an_unserved_model_is_not_found(wire, good):
    good.model_name = "go"
    code, details = await refusal(wire.stub.ModelInfer(good, timeout=60))
    assert (code, details) == (NOT_FOUND, "model go is not served; served models: tic_tac_toe")


@pytest.mark.parametrize("version", ["0", "-1", "01", "1e3", "1.0", " 1", "\uff11", "9" * 40, str(2**64), str(2**63)])
async def test_an_invalid_version_is_refused(wire, good, version):
    good.model_version = version
    code, details = await refusal(wire.stub.ModelInfer(good, timeout=60))
    assert code is INVALID
    assert "is not a version" in details
    assert (await refusal(wire.stub.ModelReady(messages.ModelReadyRequest(name=MODEL, version=version), timeout=60)))[
        0
    ] is INVALID


@pytest.mark.parametrize("version", ["2", str(2**63 - 1)])
async def test_an_unserved_version_is_not_found(wire, good, version):
    good.model_version = version
    code, details = await refusal(wire.stub.ModelInfer(good, timeout=60))
    assert (code, details) == (NOT_FOUND, f"version {version} of {MODEL} is not served; served versions: 1")


async def test_typed_contents_are_taken_and_checked(wire, positions):
    states, legal = positions[0][:2], positions[1][:2]
    request = infer_request(states, legal)
    del request.raw_input_contents[:]
    request.inputs[0].contents.uint_contents.extend(states.ravel().tolist())
    request.inputs[1].contents.int_contents.extend(legal.ravel().tolist())
    reply = await wire.stub.ModelInfer(request, timeout=60)
    np.testing.assert_array_equal(
        np.frombuffer(reply.raw_output_contents[1], "<f4").reshape(2, 2), expected_value(states, legal, 1)
    )
    request.inputs[0].contents.uint_contents[0] = 256
    code, details = await refusal(wire.stub.ModelInfer(request, timeout=60))
    assert (code, details) == (INVALID, "'state__0' has a number out of range for UINT8")


async def test_a_message_over_the_limit_is_refused_by_both_ends(wire, positions, good):
    good.raw_input_contents[0] = b"\0" * (MAX_MESSAGE_BYTES + 1)
    code, details = await refusal(wire.stub.ModelInfer(good, timeout=60))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in details
    async with grpc.aio.insecure_channel(wire.server.address, options=[("grpc.max_send_message_length", -1)]) as careless:
        send = careless.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        code, details = await refusal(send(good.SerializeToString(), timeout=60))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    await expect_still_serving(wire, positions)


async def test_a_decompression_bomb_is_not_unpacked(wire, positions, good):
    good.raw_input_contents[0] = b"\0" * (8 * MAX_MESSAGE_BYTES)
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(wire.server.address, options=options, compression=grpc.Compression.Gzip) as channel:
        send = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        code, _ = await refusal(send(good.SerializeToString(), timeout=30))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    await expect_still_serving(wire, positions)


async def test_malformed_bytes_are_refused(wire, positions):
    send = wire.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    code, details = await refusal(send(b"\xff\xfe\xfd not a protobuf", timeout=60))
    assert (code, details) == (INVALID, "the request is not a valid inference.ModelInferRequest message")
    await expect_still_serving(wire, positions)


async def test_headers_of_a_megabyte_are_refused(wire, positions, good):
    code, _ = await refusal(wire.stub.ModelInfer(good, timeout=60, metadata=(("x-noise", "n" * 1_000_000),)))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    await expect_still_serving(wire, positions)


async def test_a_request_with_an_expired_deadline_is_not_evaluated(wire, loader, positions):
    plane = wire.server.plane
    states, legal = positions[0][:2], positions[1][:2]
    with pytest.raises(Unavailable, match="deadline passed"):
        await plane.evaluate(plane.find(MODEL), states, legal, patience_s=0.0)
    assert loader.networks[1].batches == []
    await expect_still_serving(wire, positions)


async def test_unknown_calls_are_unimplemented(wire):
    for method in ("ModelStreamInfer", "SystemSharedMemoryStatus", "TraceSetting", "Nonsense"):
        call = wire.channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
        assert (await refusal(call(b"", timeout=60)))[0] is grpc.StatusCode.UNIMPLEMENTED


async def test_an_unexpected_error_reaches_the_caller_as_a_number_only(wire, loader, positions, good):
    loader.networks[1].fault = lambda states: ValueError("secret path /etc/shadow")
    code, details = await refusal(wire.stub.ModelInfer(good, timeout=60))
    assert code is grpc.StatusCode.INTERNAL
    assert "secret" not in details
    with pytest.raises(AssertionError, match=r"internal error [0-9a-f]{12}; the server's log"):
        raise AssertionError(details)
    loader.networks[1].fault = lambda states: None
    await expect_still_serving(wire, positions)


async def test_a_flood_is_refused_quickly_and_other_clients_are_answered(open_wire, publish, loader, positions):
    states, legal = positions[0][:10], positions[1][:10]
    async with open_wire(max_queue_positions=50) as wire:
        await wire.server.plane.registry.serve(MODEL, [publish()])
        loader.gate.clear()
        async with asyncio.TaskGroup() as group:
            blocked = group.create_task(wire.infer(states, legal))
            assert await asyncio.to_thread(loader.entered.wait, 60)
            waiting = [group.create_task(wire.infer(states, legal)) for _ in range(5)]
            await until(lambda: wire.waiting_rows() == 50)
            refused = await asyncio.gather(*(refusal(wire.infer(states, legal)) for _ in range(100)))
            assert {code for code, _ in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            assert "50 positions wait for the device" in refused[0][1]
            loader.gate.set()
        for task in [blocked, *waiting]:
            np.testing.assert_array_equal(task.result()[1], expected_value(states, legal, 1))


async def test_more_calls_of_one_address_than_half_are_refused(open_wire, publish, loader, positions):
    states, legal = positions[0][:1], positions[1][:1]
    async with open_wire(max_concurrent_calls=8) as wire:
        await wire.server.plane.registry.serve(MODEL, [publish()])
        loader.gate.clear()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(wire.infer(states, legal))]
            assert await asyncio.to_thread(loader.entered.wait, 60)
            tasks += [group.create_task(wire.infer(states, legal)) for _ in range(3)]
            await until(lambda: wire.waiting_rows() == 3)
            code, _ = await refusal(wire.infer(states, legal))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            loader.gate.set()
        assert [task.result()[0] for task in tasks] == ["1"] * 4


async def test_an_expired_or_cancelled_call_leaves_the_queue(wire, loader, positions):
    states, legal = positions[0][:4], positions[1][:4]
    loader.gate.clear()
    async with asyncio.TaskGroup() as group:
        blocked = group.create_task(wire.infer(states, legal))
        assert await asyncio.to_thread(loader.entered.wait, 60)
        expired = group.create_task(refusal(wire.infer(states, legal, timeout_s=0.1)))
        cancelled = group.create_task(wire.infer(states, legal))
        kept = group.create_task(wire.infer(states, legal))
        await until(lambda: wire.waiting_rows() == 12)
        cancelled.cancel()
        assert (await expired)[0] is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: wire.waiting_rows() == 4)
        loader.gate.set()
    np.testing.assert_array_equal(kept.result()[1], blocked.result()[1])
    assert loader.networks[1].batches == [[4], [4]]


async def test_silent_and_malformed_connections_do_not_delay_others(wire, positions):
    host, _, port = wire.server.address.rpartition(":")
    idle = [await asyncio.open_connection(host, int(port)) for _ in range(30)]
    for number, (_, writer) in enumerate(idle):
        if number % 3 == 1:
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")  # the greeting of HTTP/2, and then nothing
        elif number % 3 == 2:
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.gather(*(expect_still_serving(wire, positions) for _ in range(20)))
    for _, writer in idle:
        writer.transport.abort()
