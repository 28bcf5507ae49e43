"""Targets of the services: every method of every gRPC server, and the HTTP servers, discovered from the running servers.

Each server is opened as its process opens it. Most inputs of a method pass through its real chain of interceptors and handlers
in this process, with a call in place of grpc's; targets whose names begin with `socket` send them over a connection.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import grpc
import numpy as np
from fuzz_messages import mutate_message
from fuzz_models import MODEL, FuzzInference, FuzzLoader, publish
from fuzz_mutation import mutate_lines
from fuzz_queue import queue_target
from fuzz_targets import ACCEPTED, Fault, Outcome, Target
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2
from tritonclient.grpc import service_pb2 as kserve

from games.core import make
from gatekeeper.service import open_gatekeeper
from gatekeeper.settings import GatekeeperSettings
from inference_server.rest.infer_bodies import HEADER_LENGTH
from inference_server.rest.routes import Request, Routes
from inference_server.server import open_server
from inference_server.settings import ServerSettings
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.wire import evaluation_pb2, gatekeeper_pb2
from zerofleet.presets import InferenceSettings
from zerofleet.rpc.channels import open_channel
from zerofleet.service.probes import Answer, ProbeServer
from zerofleet.storage.model_store import DirectoryStore

__all__ = ["Method", "service_targets"]

REFLECTION = "grpc.reflection.v1alpha.ServerReflection"
PEER = "ipv4:127.0.0.1:1"
IN_FLIGHT = 16
SILENT_S = 20.0
"""Longest wait for the answer of an HTTP server; probes end a request after 5 s."""
_FAULTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}


@dataclass
class Server:
    """Interceptors and handlers of a server."""

    interceptors: tuple[Any, ...]
    handlers: dict[str, Any] = field(default_factory=dict)
    """Handler of each method, by its full name `/service/method`."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a server."""

    server: Server
    name: str

    @property
    def request(self) -> Any:
        """Class of its request."""
        _, service, method = self.name.split("/")
        found = descriptor_pool.Default().FindServiceByName(service).methods_by_name[method]
        return message_factory.GetMessageClass(found.input_type)

    async def handler(self) -> Any:
        """Return the handler inside the interceptors, as grpc asks for it with each call."""

        async def innermost(details: Any) -> Any:
            return self.server.handlers[details.method]

        found: Callable[[Any], Any] = innermost
        for interceptor in reversed(self.server.interceptors):
            found = functools.partial(interceptor.intercept_service, found)
        return await found(SimpleNamespace(method=self.name, invocation_metadata=()))

    async def call(self, data: bytes) -> Outcome:
        """Handle the bytes of a request; of a stream the first reply is taken."""
        handler, call = await self.handler(), _Call(data)
        try:
            reply = await self._reply(handler, call)
            if reply is not None and not isinstance(handler.response_serializer(reply), bytes):
                raise Fault("the reply is not serialised to bytes")
        except grpc.aio.AbortError:
            return _status(call.status, call.text)
        finally:
            call.end()
        return Outcome(ACCEPTED)

    @staticmethod
    async def _reply(handler: Any, call: _Call) -> Any:
        if handler.request_streaming and handler.response_streaming:
            replies = handler.stream_stream(call, call)
        elif handler.request_streaming:
            return await handler.stream_unary(call, call)
        elif handler.response_streaming:
            replies = handler.unary_stream(call.data, call)
        else:
            return await handler.unary_unary(call.data, call)
        try:
            return await anext(replies, None)
        finally:
            await replies.aclose()


class _Call:
    """Call in place of grpc's, of one request."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.status, self.text = grpc.StatusCode.OK, ""
        self._done: list[Callable[[Any], None]] = []

    async def read(self) -> bytes:
        return self.data

    def peer(self) -> str:
        return PEER

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._done.append(callback)

    def end(self) -> None:
        for callback in self._done:
            callback(self)

    def time_remaining(self) -> float | None:
        return None

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def set_trailing_metadata(self, metadata: object) -> None:
        pass

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: object = ()) -> None:
        self.status, self.text = code, details
        raise grpc.aio.AbortError

    def code(self) -> grpc.StatusCode:
        return self.status

    def details(self) -> str:
        return self.text


def _status(code: grpc.StatusCode, text: str) -> Outcome:
    if code in _FAULTS:
        raise Fault(f"{code.name}: {text[:200]}")
    return Outcome.refused(code.name, text)


@contextmanager
def _recorded() -> Iterator[list[Server]]:
    """Record the interceptors and handlers of every server that is made inside."""
    servers: list[Server] = []
    make_server = grpc.aio.server

    def recording(*args: Any, **settings: Any) -> Any:
        server, record = make_server(*args, **settings), Server(tuple(settings["interceptors"]))
        add = server.add_generic_rpc_handlers

        def added(handlers: Any) -> None:
            for handler in handlers:
                record.handlers |= handler._method_handlers
            add(handlers)

        server.add_generic_rpc_handlers = added
        servers.append(record)
        return server

    with mock.patch.object(grpc.aio, "server", recording):
        yield servers


@asynccontextmanager
async def service_targets(root: Path) -> AsyncIterator[list[Target]]:
    """Open the servers in `root`, and return their targets.

    Cancellation: the servers are stopped.
    """
    async with AsyncExitStack() as stack:
        with _recorded() as servers:
            inference = await stack.enter_async_context(_inference(root))
            gatekeeper = await stack.enter_async_context(_gatekeeper(root))
        targets = [await stack.enter_async_context(queue_target(root))]
        for running, server in zip((inference, gatekeeper), servers, strict=True):
            channel = await stack.enter_async_context(open_channel(running.address, ()))
            for name in sorted(server.handlers):
                method = Method(server, name)
                seeds, mutate = _seeds(root)[name], functools.partial(_mutate, kind=method.request)
                also = {"also": _STATEFUL.get(name, frozenset()), "prepare": _prepare(running)}
                shown = name[1:]
                if running is gatekeeper and shown.startswith("grpc."):  # health and reflection, which both servers have
                    shown += " of the gatekeeper"
                if REFLECTION not in name:  # its requests are a stream, which grpc alone makes
                    targets.append(Target(shown, seeds, method.call, mutate, **also))
                targets.append(Target(f"socket {shown}", seeds, _over(channel, method), mutate, IN_FLIGHT, **also))
        probes = ProbeServer(
            {"/livez": lambda: Answer(200, b"ok"), "/metrics": lambda: Answer(200, b"a 1")}, tokens={"/metrics": "t"}
        )
        await probes.start("127.0.0.1", 0)
        stack.push_async_callback(probes.aclose)
        prepare, routed = _prepare(inference), functools.partial(_route, inference.http._routes)
        http, probed = (functools.partial(_exchange, at) for at in (inference.http.address, f"127.0.0.1:{probes.port}"))
        targets += [
            Target("HTTP routes of KServe", _http_seeds(), routed, mutate_lines, prepare=prepare),
            Target("socket HTTP of KServe", _http_seeds(), http, mutate_lines, IN_FLIGHT, prepare=prepare),
            Target("socket HTTP of probes", _PROBES, probed, mutate_lines, IN_FLIGHT),
        ]
        yield targets


_STATEFUL = {"/zerofleet.v1.Gatekeeper/Rollback": frozenset({"NOT_FOUND"})}
"""Statuses with which a valid request of a method may be refused: no champion is left to go back to."""


def _prepare(running: Any) -> Callable[[], Any]:
    """Return a call that restores the models of a server, which some requests take out of service."""

    async def prepare() -> None:
        if (plane := getattr(running, "plane", None)) is not None and not plane.model_ready(MODEL, "1"):
            await plane.registry.serve(MODEL, [1])

    return prepare


def _mutate(rng: Any, data: bytes, *, kind: Any) -> bytes:
    return mutate_message(rng, data, kind)


# -- servers


@asynccontextmanager
async def _inference(root: Path) -> AsyncIterator[Any]:
    store = DirectoryStore(root / "served")
    version, _ = publish(store)
    settings = ServerSettings(
        address="127.0.0.1:0", http_address="127.0.0.1:0", model_store=store.root, game=MODEL, reflection="on",
        inference=InferenceSettings(max_batch=64, max_delay_us=0), max_simulations=50,
    )  # fmt: skip
    async with open_server(settings, FuzzLoader()) as server:
        await server.plane.registry.serve(MODEL, [version])
        yield server


@asynccontextmanager
async def _gatekeeper(root: Path) -> AsyncIterator[Any]:
    store = DirectoryStore(root / "gate" / "models")
    for _ in range(3):
        publish(store)
    settings = GatekeeperSettings(run_dir=root / "gate", game=MODEL, preset="tiny", address="127.0.0.1:0", reflection="on")
    async with open_gatekeeper(settings, evaluator=FuzzInference(), control=FuzzInference()) as gatekeeper:
        await gatekeeper.arbiter.promote(1, reason="first", without_self_test=True)
        await gatekeeper.arbiter.promote(2, reason="second", without_self_test=True)
        yield gatekeeper


def _seeds(root: Path) -> Mapping[str, list[bytes]]:
    """Return valid requests of every method; a method that is not here has no target, which a test refuses."""
    sha256 = DirectoryStore(root / "gate" / "models").manifest_sha256(MODEL, 3)
    named = {"name": MODEL}
    gate, rest = "/zerofleet.v1.Gatekeeper/", "/inference.GRPCInferenceService/"
    from grpc_reflection.v1alpha import reflection_pb2  # noqa: PLC0415

    found = {
        f"{rest}ServerLive": kserve.ServerLiveRequest(),
        f"{rest}ServerReady": kserve.ServerReadyRequest(),
        f"{rest}ServerMetadata": kserve.ServerMetadataRequest(),
        f"{rest}ModelReady": kserve.ModelReadyRequest(**named),
        f"{rest}ModelMetadata": kserve.ModelMetadataRequest(**named),
        f"{rest}ModelConfig": kserve.ModelConfigRequest(**named),
        f"{rest}ModelStatistics": kserve.ModelStatisticsRequest(**named),
        f"{rest}ModelInfer": _infer(),
        f"{rest}RepositoryIndex": kserve.RepositoryIndexRequest(),
        f"{rest}RepositoryModelLoad": kserve.RepositoryModelLoadRequest(model_name=MODEL),
        f"{rest}RepositoryModelUnload": kserve.RepositoryModelUnloadRequest(model_name=MODEL),
        "/zerofleet.v1.Evaluation/Evaluate": evaluation_pb2.EvaluateRequest(game=MODEL, simulations=4, moves=["b2"]),
        f"{gate}SubmitCandidate": gatekeeper_pb2.SubmitCandidateRequest(game=MODEL, version=3, manifest_sha256=sha256),
        f"{gate}GetChampion": gatekeeper_pb2.GetChampionRequest(game=MODEL),
        f"{gate}WatchChampion": gatekeeper_pb2.WatchChampionRequest(game=MODEL),
        f"{gate}ListModels": gatekeeper_pb2.ListModelsRequest(game=MODEL, page_size=3),
        f"{gate}Promote": gatekeeper_pb2.PromoteRequest(game=MODEL, version=2, reason="by hand"),
        f"{gate}Rollback": gatekeeper_pb2.RollbackRequest(game=MODEL, reason="by hand"),
        f"{gate}GetLadder": gatekeeper_pb2.GetLadderRequest(game=MODEL),
        "/grpc.health.v1.Health/Check": health_pb2.HealthCheckRequest(),
        "/grpc.health.v1.Health/Watch": health_pb2.HealthCheckRequest(),
        f"/{REFLECTION}/ServerReflectionInfo": reflection_pb2.ServerReflectionRequest(list_services=""),
    }
    return {name: [message.SerializeToString()] for name, message in found.items()}


def _infer() -> Any:
    states, legal = sample_positions(make(MODEL), games=1, seed=5)
    request = kserve.ModelInferRequest(model_name=MODEL, id="a")
    for name, datatype, rows in (("state__0", "UINT8", states[:2]), ("legal__1", "INT16", legal[:2].astype(np.int16))):
        request.inputs.add(name=name, datatype=datatype, shape=rows.shape)
        request.raw_input_contents.append(rows.tobytes())
    request.parameters["priority"].int64_param = 1
    return request


# -- connections

_LOST = "Internal error from Core"
"""Details by which grpc's client replaces the status of a call that the server ends before its last request is written
(github.com/grpc/grpc/issues/36066). The same request has its status in the process."""


def _over(channel: grpc.aio.Channel, method: Method) -> Callable[[bytes], Any]:
    """Return the call of a method over a connection."""
    handler = method.server.handlers[method.name]
    kinds = {(False, False): "unary_unary", (False, True): "unary_stream", (True, True): "stream_stream"}
    start = getattr(channel, kinds[handler.request_streaming, handler.response_streaming])(method.name)

    async def call(data: bytes) -> Outcome:
        calling = start(iter([data]) if handler.request_streaming else data)
        try:
            if handler.response_streaming:
                await calling.read()
            else:
                await calling
        except grpc.aio.AioRpcError as error:
            if handler.request_streaming and error.details() == _LOST:
                return Outcome.refused("status lost by the client", _LOST)
            return _status(error.code(), error.details() or "")
        finally:
            calling.cancel()
        return Outcome(ACCEPTED)

    return call


_PROBES = [b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer t\r\n\r\n"]


def _http_seeds() -> list[bytes]:
    infer = _infer()
    shapes = [f'"name":"{tensor.name}","datatype":"{tensor.datatype}","shape":{list(tensor.shape)}' for tensor in infer.inputs]
    sizes = [len(content) for content in infer.raw_input_contents]
    inputs = ",".join(
        f'{{{shape},"parameters":{{"binary_data_size":{size}}}}}' for shape, size in zip(shapes, sizes, strict=True)
    )
    head = f'{{"inputs":[{inputs}]}}'.encode()
    body = head + b"".join(infer.raw_input_contents)
    paths = ("", "/health/live", "/health/ready", "/models/stats", f"/models/{MODEL}", f"/models/{MODEL}/versions/1/ready",
             f"/models/{MODEL}/config", f"/models/{MODEL}/stats")  # fmt: skip
    lengths = f"{HEADER_LENGTH}: {len(head)}\r\nContent-Length: {len(body)}"
    infer_head = f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nHost: a\r\n{lengths}\r\n\r\n"
    return [*(f"GET /v2{path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for path in paths), infer_head.encode() + body]


async def _route(routes: Routes, data: bytes) -> Outcome:
    """Pass a request by the routes, as a connection does, with what h11 would take as its head and body."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, *_ = [*first.split(" "), "", ""]
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    request = Request(method, path.partition("?")[0], headers, PEER, len(body))
    try:
        with routes.admitted(request) as call:
            answer = await call(body)
    except Exception as error:
        answer = routes.failed(error)
    return _http(answer.status.value)


def _http(status: int) -> Outcome:
    if status == 500:
        raise Fault("HTTP 500")
    return Outcome(ACCEPTED) if status < 300 else Outcome(f"HTTP {status}")


async def _exchange(address: str, data: bytes) -> Outcome:
    """Send bytes over a connection of their own, end it, and take the status of the first answer."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        with suppress(OSError, ConnectionError):
            writer.write_eof()
        async with asyncio.timeout(SILENT_S):
            answer = await reader.read(64)
    except (ConnectionError, OSError):
        return Outcome("closed")
    finally:
        writer.close()
    if not answer:
        return Outcome("closed")
    return _http(int(answer.split(b" ", 2)[1]))
