"""Evaluation over KServe v2 gRPC: one client for Zerofleet's inference server and for Triton.

A batch becomes one request (several if it exceeds `max_rows`), tensors are sent as raw bytes, and every reply is checked
for the requested version. Share one evaluator per process: it holds one channel.

Requests to an overloaded or unreachable server are retried for `retry_s`, and with several replicas those for a version
that a replica lacks for `MISSING_S`. Other failures are final.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from tritonclient.grpc import service_pb2 as kserve
from tritonclient.grpc import service_pb2_grpc

from zerofleet.contracts.naming import (
    LEGAL_TENSOR,
    MAX_MESSAGE_BYTES,
    MAX_REQUEST_ROWS,
    POLICY_TENSOR,
    STATE_TENSOR,
    VALUE_TENSOR,
    head_tensor,
    require_model_name,
)
from zerofleet.contracts.priorities import HIGH_PRIORITY_HEADER, PRIORITY_PARAMETER, Priority
from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound, Overloaded, Unavailable, ZerofleetError
from zerofleet.evaluators.addresses import may_have_replicas
from zerofleet.evaluators.answers import check_answer, refuse_answer
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion, empty_evaluation
from zerofleet.rpc.calls import Patience, all_of
from zerofleet.rpc.channel_client import ChannelClient
from zerofleet.rpc.failures import call_error
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.rpc.security.tls import PLAIN, Tls

__all__ = ["KServeEvaluator"]

MAX_IN_FLIGHT = 64  # requests of one evaluator; further ones wait
_HEAD_BYTES = 64 << 10  # names, shapes and values of a message
MISSING_S = 2.0
"""Maximum time for which a version missing at one replica is requested from others."""

_NUMPY_TYPES: dict[str, np.dtype[Any]] = {"FP16": np.dtype("<f2"), "FP32": np.dtype("<f4")}


class KServeEvaluator(ChannelClient):
    """`Evaluator` that is the client of a server at `target` (`host:port`, `dns:///name:port` or `unix:/path`).

    token        token presented to the server, if it requires one
    tls          trusted authorities and own certificate; plain text by default
    timeout_s    deadline of one attempt, including the connection
    retry_s      total time after which an overloaded or unreachable server becomes an error; 0 if the caller retries
    priority     priority of its requests at the server; the default is that of self-play
    on_retry     called with the failure before each retry
    """

    def __init__(
        self,
        target: str,
        model: str,
        *,
        token: str | None = None,
        tls: Tls = PLAIN,
        timeout_s: float = 15.0,
        retry_s: float = 60.0,
        max_rows: int = MAX_REQUEST_ROWS,
        priority: Priority = Priority.DEFAULT,
        on_retry: Callable[[ZerofleetError], None] = lambda failure: None,
        rng: random.Random | None = None,
    ) -> None:
        self._model = require_model_name(model)  # before there is a channel to close
        headers = (HIGH_PRIORITY_HEADER,) if priority is Priority.HIGH else ()
        super().__init__(target, open_inference_channel(target, tls), token, tls, headers=headers)
        self._timeout_s = timeout_s
        self._retry_s = retry_s
        self._max_rows = max_rows
        self._priority = priority
        self._missing_s = MISSING_S if may_have_replicas(target) else 0.0
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._on_retry = on_retry
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. The arrays of `batch` are copied before the first suspension.

        Also raises `CorruptModel` when a reply is not finite or of the wrong shape or type, and `InvalidRequest` when the
        model has fewer extra heads than `batch.extra_heads`.
        Cancellation: the server drops requests it has not started; evaluate again.
        """
        if version < 1:
            raise InvalidRequest(f"model version {version} does not exist; versions begin at 1")
        if len(batch) == 0:
            return empty_evaluation(batch, version)
        rows = min(self._max_rows, _rows_in_message(batch))
        parts = [batch] if len(batch) <= rows else [_part(batch, start, start + rows) for start in range(0, len(batch), rows)]
        requests = [self._request(part, version) for part in parts]
        if len(requests) == 1:
            replies = [await self._send(requests[0])]
        else:
            replies = await all_of(self._send(request) for request in requests)
        read = [_read_reply(reply, request) for reply, request in zip(replies, requests, strict=True)]
        policy, value, *extra_heads = read[0] if len(read) == 1 else map(np.concatenate, zip(*read, strict=True))
        return Evaluation(policy, value, version, tuple(extra_heads))

    def _request(self, batch: LeafBatch, version: int) -> Any:
        states, legal = batch.states, batch.legal
        request = kserve.ModelInferRequest(model_name=self._model, model_version=str(version))
        if self._priority is not Priority.DEFAULT:
            request.parameters[PRIORITY_PARAMETER].uint64_param = self._priority
        request.inputs.add(name=STATE_TENSOR, datatype="UINT8", shape=states.shape)
        request.inputs.add(name=LEGAL_TENSOR, datatype="INT16", shape=legal.shape)
        request.outputs.add(name=POLICY_TENSOR)
        request.outputs.add(name=VALUE_TENSOR)
        for index in range(batch.extra_heads):
            request.outputs.add(name=head_tensor(index))
        request.raw_input_contents.append(states.tobytes())
        request.raw_input_contents.append(legal.astype("<i2", copy=False).tobytes())
        return request

    async def _send(self, request: Any) -> Any:
        """Send one request, with jittered back-off while the server is overloaded or unreachable.

        Each attempt may reach another replica, so a missing version is retried as well.
        """
        patience = Patience(self._retry_time_s, rng=self._rng)  # the wait for a slot counts
        async with self._slots:
            return await self.repeated(
                lambda: self._stub.ModelInfer(request, timeout=self._timeout_s, wait_for_ready=True, metadata=self._metadata),
                lambda failure: call_error(failure, target=self.target),
                patience,
                on_retry=self._on_retry,
            )

    def _retry_time_s(self, error: ZerofleetError) -> float:
        """Return the retry time for a failure."""
        if isinstance(error, Overloaded | Unavailable):
            return self._retry_s
        return self._missing_s if isinstance(error, ModelNotFound) else 0.0


def _part(batch: LeafBatch, first: int, after: int) -> LeafBatch:
    return LeafBatch(batch.states[first:after], batch.legal[first:after], batch.extra_heads, batch.head_width)


def _rows_in_message(batch: LeafBatch) -> int:
    """Return the number of positions, at least 1, for which request and answer fit into a message.

    An answer has an entry of at most 4 bytes for each listed action, and for each column of an extra head, by default as many.
    """
    listed = batch.legal.shape[1]
    asked = batch.states.shape[1] + 2 * listed
    answered = 4 * (listed + batch.extra_heads * (batch.head_width or listed))
    return max(1, (MAX_MESSAGE_BYTES - _HEAD_BYTES) // int(max(asked, answered, 1)))


def _read_reply(reply: Any, request: Any) -> list[np.ndarray]:
    """Return policy, value and the extra heads of a reply; raises `CorruptModel` if it does not match the request."""
    asked, answered = (request.model_name, request.model_version), (reply.model_name, reply.model_version)
    if asked != answered:
        raise CorruptModel(f"requested model {asked[0]} version {asked[1]}, but {answered[0]} version {answered[1]} replied")
    arrays = _arrays(reply, request)
    found = [arrays.get(output.name) for output in request.outputs]
    return check_answer(found, tuple(request.inputs[1].shape), asked)


def _arrays(reply: Any, request: Any) -> dict[str, np.ndarray]:
    """Return the tensors of a reply by name, except those of unsupported types."""
    arrays, named = {}, (request.model_name, request.model_version)
    if len(reply.raw_output_contents) != len(reply.outputs):
        refuse_answer(named, f"{len(reply.raw_output_contents)} raw tensors for {len(reply.outputs)} outputs")
    for output, content in zip(reply.outputs, reply.raw_output_contents, strict=True):
        if (dtype := _NUMPY_TYPES.get(output.datatype)) is not None:
            shape = tuple(output.shape)
            if len(content) != dtype.itemsize * math.prod(shape):
                refuse_answer(named, f"{len(content)} bytes of {output.name} for shape {shape} {output.datatype}")
            arrays[output.name] = np.frombuffer(content, dtype).reshape(shape)
    return arrays
