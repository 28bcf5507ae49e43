"""Evaluations over KServe v2 gRPC: the same client for our inference server and for Triton.

A batch becomes one request (several when it exceeds `max_rows`), tensors travel as raw bytes, and every reply is checked
to name the version that was asked for. Make one evaluator a process and share it: it holds one channel.
"""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any, NoReturn

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as kserve
from tritonclient.grpc import service_pb2_grpc

from zerofleet.channel_client import ChannelClient
from zerofleet.errors import CorruptModel, InvalidRequest, Overloaded, Unavailable, ZerofleetError
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.channels import call_error, open_channel
from zerofleet.naming import (
    LEGAL_TENSOR,
    MAX_REQUEST_ROWS,
    POLICY_TENSOR,
    STATE_TENSOR,
    VALUE_TENSOR,
    require_model_name,
)

__all__ = ["KServeEvaluator"]

FIRST_BACKOFF_S = 0.02
MAX_BACKOFF_S = 2.0

_NUMPY_TYPES: dict[str, np.dtype[Any]] = {"FP16": np.dtype("<f2"), "FP32": np.dtype("<f4")}


class KServeEvaluator(ChannelClient):
    """`Evaluator` that asks a server at `target` (`host:port`, `dns:///name:port` or `unix:/path`).

    timeout_s    deadline of one attempt, waiting for a connection included
    retry_s      total time after which an overloaded or unreachable server becomes an error
    concurrency  requests in flight at most; further ones wait here
    """

    def __init__(
        self,
        target: str,
        game_name: str,
        *,
        timeout_s: float = 15.0,
        retry_s: float = 60.0,
        max_rows: int = MAX_REQUEST_ROWS,
        concurrency: int = 64,
        rng: random.Random | None = None,
    ) -> None:
        self._model = require_model_name(game_name)  # before there is a channel to close
        super().__init__(target, open_channel(target))
        self._timeout_s = timeout_s
        self._retry_s = retry_s
        self._max_rows = max_rows
        self._slots = asyncio.Semaphore(concurrency)
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. The arrays of `batch` are copied before the first suspension.

        Also raises `CorruptModel` when an answer is not finite or of the wrong shape.
        Cancellation: the server drops what it has not begun; evaluate again.
        """
        if version < 1:
            raise InvalidRequest(f"model version {version} cannot be asked for; versions begin at 1")
        if len(batch) == 0:
            policy = np.zeros(batch.legal.shape, np.float16)
            return Evaluation(policy, np.zeros((0, 0), np.float32), version)
        requests = [self._request(batch, start, version) for start in range(0, len(batch), self._max_rows)]
        if len(requests) == 1:
            replies = [await self._send(requests[0])]
        else:
            replies = await self._send_all(requests)
        parts = [_read_reply(reply, request) for reply, request in zip(replies, requests, strict=True)]
        if len(parts) == 1:
            return Evaluation(*parts[0], version)
        return Evaluation(np.concatenate([p for p, _ in parts]), np.concatenate([v for _, v in parts]), version)

    def _request(self, batch: LeafBatch, start: int, version: int) -> Any:
        states, legal = batch.states[start : start + self._max_rows], batch.legal[start : start + self._max_rows]
        request = kserve.ModelInferRequest(model_name=self._model, model_version=str(version))
        request.inputs.add(name=STATE_TENSOR, datatype="UINT8", shape=states.shape)
        request.inputs.add(name=LEGAL_TENSOR, datatype="INT16", shape=legal.shape)
        request.outputs.add(name=POLICY_TENSOR)
        request.outputs.add(name=VALUE_TENSOR)
        request.raw_input_contents.append(states.astype("u1", copy=False).tobytes())
        request.raw_input_contents.append(legal.astype("<i2", copy=False).tobytes())
        return request

    async def _send_all(self, requests: list[Any]) -> list[Any]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._send(request)) for request in requests]
        except* ZerofleetError as errors:
            raise _first(errors) from errors
        return [task.result() for task in tasks]

    async def _send(self, request: Any) -> Any:
        """Send one request, and again after jittered, growing pauses while the server is overloaded or away."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._retry_s
        attempt = 0
        async with self._slots:
            while True:
                try:
                    return await self._stub.ModelInfer(request, timeout=self._timeout_s, wait_for_ready=True)
                except grpc.aio.AioRpcError as failure:
                    error = call_error(failure, target=self.target)
                    if not isinstance(error, Overloaded | Unavailable):
                        raise error from failure
                    pause_s = self._rng.uniform(0, min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2**attempt))
                    if loop.time() + pause_s >= give_up_at:
                        raise error from failure
                await asyncio.sleep(pause_s)
                attempt += 1


def _first(errors: BaseExceptionGroup[ZerofleetError]) -> BaseException:
    """Return one error of a group; parts of one batch fail for the same reason."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _read_reply(reply: Any, request: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return policy and value of a reply; raises `CorruptModel` when it does not answer the request."""
    asked, answered = (request.model_name, request.model_version), (reply.model_name, reply.model_version)
    if asked != answered:
        raise CorruptModel(f"asked model {asked[0]} version {asked[1]}, but {answered[0]} version {answered[1]} answered")
    arrays = {}
    if len(reply.raw_output_contents) != len(reply.outputs):
        _refuse(request, f"{len(reply.raw_output_contents)} raw tensors for {len(reply.outputs)} outputs")
    for output, content in zip(reply.outputs, reply.raw_output_contents, strict=True):
        if (dtype := _NUMPY_TYPES.get(output.datatype)) is not None:
            shape = tuple(output.shape)
            if len(content) != dtype.itemsize * math.prod(shape):
                _refuse(request, f"{len(content)} bytes of {output.name} for shape {shape} {output.datatype}")
            arrays[output.name] = np.frombuffer(content, dtype).reshape(shape)
    policy, value = arrays.get(POLICY_TENSOR), arrays.get(VALUE_TENSOR)
    wanted = tuple(request.inputs[1].shape)
    if policy is None or policy.shape != wanted:
        _refuse(request, f"{POLICY_TENSOR} of shape {None if policy is None else policy.shape}, want {wanted}")
    if value is None or value.ndim != 2 or len(value) != wanted[0] or value.shape[1] == 0:
        _refuse(request, f"{VALUE_TENSOR} of shape {None if value is None else value.shape}, want ({wanted[0]}, players)")
    if not (np.isfinite(policy).all() and np.isfinite(value).all()):
        _refuse(request, "numbers that are not finite")
    return policy.astype(np.float16, copy=False), value.astype(np.float32, copy=False)


def _refuse(request: Any, what: str) -> NoReturn:
    raise CorruptModel(f"model {request.model_name} version {request.model_version} answered {what}; it must not be used")
