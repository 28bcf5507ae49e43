"""KServe v2 over gRPC: each call converts, calls the data plane, converts.

The messages are tritonclient's: protobuf allows one copy of the package `inference` in a process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib import metadata
from typing import Any, Protocol

import grpc
from pydantic_core import from_json
from tritonclient.grpc import model_config_pb2
from tritonclient.grpc import service_pb2 as messages

from inference_server.data_plane import DataPlane, Inference
from inference_server.methods import unary_method
from inference_server.served_version import ServedVersion
from inference_server.statistics import Duration
from inference_server.tensors import MOST_LISTED, Tensor, content_of, require_plain
from zerofleet.contracts.naming import MAX_REQUEST_ROWS, parse_version, require_model_name
from zerofleet.contracts.priorities import PRIORITY_PARAMETER, Priority, level_of
from zerofleet.errors import InvalidRequest

__all__ = ["METHODS", "SERVICE", "Infers", "KServeServicer", "handler", "infer_handler", "model_infer"]

SERVICE = "inference.GRPCInferenceService"
PLATFORM = "zerofleet_torchscript"
_EXTENSIONS = ("model_repository", "model_configuration", "statistics")
_FILE_PARAMETER = "file:"  # how Triton's clients send files to run
_CONFIG_TYPES = {"UINT8": "TYPE_UINT8", "INT16": "TYPE_INT16", "FP16": "TYPE_FP16", "FP32": "TYPE_FP32"}
_INT64_MAX = 2**63 - 1


class Infers(Protocol):
    """Evaluation of positions by the data plane, of this process or of another."""

    async def infer(
        self,
        names: tuple[str, str],
        tensors: Sequence[Tensor],
        *,
        outputs: Sequence[str],
        patience_s: float | None,
        priority: Priority,
    ) -> Inference:
        """See `DataPlane.infer`."""
        ...


async def model_infer(plane: Infers, request: Any, context: Any) -> Any:
    """Evaluate the positions of a ModelInferRequest. Raises and cancels as `DataPlane.infer`."""
    _require_few(request)
    inference = await plane.infer(
        (request.model_name, request.model_version),
        _tensors(request),
        outputs=_outputs(request),
        patience_s=context.time_remaining(),
        priority=_priority(request.parameters),
    )
    reply = messages.ModelInferResponse(model_name=inference.model, model_version=str(inference.version), id=request.id)
    for name, datatype, rows in inference.outputs:
        reply.outputs.add(name=name, datatype=datatype, shape=rows.shape)
        reply.raw_output_contents.append(rows.tobytes())
    return reply


class KServeServicer:
    """KServe v2 calls that this server implements; others return UNIMPLEMENTED."""

    def __init__(self, plane: DataPlane, *, max_delay_us: int) -> None:
        self._plane = plane
        self._max_delay_us = max_delay_us

    async def ServerLive(self, request: Any, context: Any) -> Any:
        """Return true: a reply proves that the event loop runs."""
        return messages.ServerLiveResponse(live=True)

    async def ServerReady(self, request: Any, context: Any) -> Any:
        """Return whether some model is served and the server is not draining."""
        return messages.ServerReadyResponse(ready=self._plane.ready())

    async def ModelReady(self, request: Any, context: Any) -> Any:
        """Return whether a version is served; the champion when none is named."""
        return messages.ModelReadyResponse(ready=self._plane.model_ready(request.name, request.version))

    async def ServerMetadata(self, request: Any, context: Any) -> Any:
        """Return name, version and extensions."""
        return messages.ServerMetadataResponse(name="zerofleet", version=metadata.version("zerofleet"), extensions=_EXTENSIONS)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:
        """Return served versions and tensors."""
        served = self._plane.find(request.name, request.version)
        reply = messages.ModelMetadataResponse(name=request.name, platform=PLATFORM)
        reply.versions.extend(str(other.version) for other in self._plane.registry.versions(request.name))
        for tensors, listed in ((reply.inputs, served.contract.inputs), (reply.outputs, served.contract.outputs)):
            for name, datatype, length in listed:
                tensors.add(name=name, datatype=datatype, shape=[-1, length])
        return reply

    async def ModelConfig(self, request: Any, context: Any) -> Any:
        """Return the configuration in Triton's form."""
        served = self._plane.find(request.name, request.version)
        versions = [other.version for other in self._plane.registry.versions(request.name)]
        return messages.ModelConfigResponse(config=_config(served, versions, self._max_delay_us))

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        """Evaluate positions."""
        return await model_infer(self._plane, request, context)

    async def ModelStatistics(self, request: Any, context: Any) -> Any:
        """Return counts by version: for one version, one model, or all models."""
        if request.version or (request.name and not self._plane.registry.versions(request.name)):
            found = [self._plane.find(request.name, request.version)]
        else:
            names = [request.name] if request.name else self._plane.registry.models()
            found = [served for name in names for served in self._plane.registry.versions(name)]
        return messages.ModelStatisticsResponse(model_stats=[_statistics(served) for served in found])

    async def RepositoryIndex(self, request: Any, context: Any) -> Any:
        """Return stored versions and whether they are served."""
        registry = self._plane.registry
        served = {(model, version.version) for model in registry.models() for version in registry.versions(model)}
        stored = {} if request.ready else await registry.stored()
        known = served | {(model, version) for model, versions in stored.items() for version in versions}
        reply = messages.RepositoryIndexResponse()
        for model, version in sorted(known):
            state, reason = ("READY", "") if (model, version) in served else ("UNAVAILABLE", "not loaded")
            reply.models.add(name=model, version=str(version), state=state, reason=reason)
        return reply

    async def RepositoryModelLoad(self, request: Any, context: Any) -> Any:
        """Serve the versions named in parameter `config`; without it the champion, else the newest stored version."""
        registry = self._plane.registry
        name = require_model_name(request.model_name)
        versions = _versions_wanted(request.parameters)
        if versions:
            await registry.serve(name, versions)
        else:
            await registry.serve_default(name)
        return messages.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(self, request: Any, context: Any) -> Any:
        """Take a model out of service."""
        await self._plane.registry.unload(request.model_name)
        return messages.RepositoryModelUnloadResponse()


def handler(servicer: KServeServicer) -> grpc.GenericRpcHandler:
    """Return the service's handler for a grpc server. (The generated base class raises an exception on unknown calls.)"""
    methods = {name: _method(name, getattr(servicer, name)) for name in METHODS}
    return grpc.method_handlers_generic_handler(SERVICE, methods)


def infer_handler(behaviour: Callable[[Any, Any], Awaitable[Any]]) -> Any:
    """Return the handler of ModelInfer alone."""
    return _method("ModelInfer", behaviour)


def _method(name: str, behaviour: Callable[[Any, Any], Awaitable[Any]]) -> Any:
    return unary_method(behaviour, getattr(messages, f"{name}Request"), getattr(messages, f"{name}Response"))


METHODS = tuple(name for name in vars(KServeServicer) if not name.startswith("_"))
"""Names of the calls that the server implements."""


def _require_few(request: Any) -> None:
    """Raise `InvalidRequest` for lists that take far more memory than bytes on the wire, and are held while it waits."""
    listed = {"parameters": request.parameters, "outputs": request.outputs, "inputs": request.inputs}
    listed |= {f"parameters of output {output.name[:40]!r}": output.parameters for output in request.outputs[:MOST_LISTED]}
    for name, found in listed.items():
        if len(found) > MOST_LISTED:
            raise InvalidRequest(f"the request has {len(found)} {name}, want at most {MOST_LISTED}")


def _priority(parameters: Any) -> Priority:
    """Return the level of a request; raises `InvalidRequest` for a parameter `priority` that is not a number from 0 up."""
    if PRIORITY_PARAMETER not in parameters:
        return level_of(Priority.DEFAULT)
    sent = parameters[PRIORITY_PARAMETER]
    kind = sent.WhichOneof("parameter_choice")
    if kind not in ("int64_param", "uint64_param"):
        raise InvalidRequest(f"parameter {PRIORITY_PARAMETER} is sent as {kind or 'nothing'}, want int64_param or uint64_param")
    return level_of(getattr(sent, kind))


def _outputs(request: Any) -> list[str]:
    """Return the names of the wanted outputs. Raises `InvalidRequest` for parameters that would change their form."""
    for output in request.outputs:
        require_plain(output.name, output.parameters)
    return [output.name for output in request.outputs]


def _tensors(request: Any) -> list[Tensor]:
    """Return the inputs of a request with their bytes, raw or typed, but not both."""
    raw = request.raw_input_contents
    for tensor in request.inputs:  # those in shared memory have no bytes, which would be counted as missing
        if tensor.parameters:
            raise InvalidRequest(f"input {tensor.name[:40]!r} has parameters; shared memory is not supported, send the bytes")
    typed = [tensor.name for tensor in request.inputs if tensor.HasField("contents")]
    if raw and typed:
        raise InvalidRequest(f"input {typed[0][:40]!r} has contents beside raw_input_contents; send one of the two")
    if raw and len(raw) != len(request.inputs):
        raise InvalidRequest(f"{len(request.inputs)} inputs but {len(raw)} raw_input_contents; want one for each input")
    return [
        Tensor(tensor.name, tensor.datatype, tuple(tensor.shape), raw[index] if raw else _typed_content(tensor))
        for index, tensor in enumerate(request.inputs)
    ]


def _typed_content(tensor: Any) -> bytes:
    """Return the bytes of a tensor sent as numbers. Raises `InvalidRequest` for numbers in the field of another type."""
    fields = {"UINT8": "uint_contents", "INT16": "int_contents"}
    if tensor.datatype not in fields:
        return b""  # rejected for its type later
    wanted, filled = fields[tensor.datatype], [field.name for field, _ in tensor.contents.ListFields()]
    if filled and wanted not in filled:
        raise InvalidRequest(f"input {tensor.name[:40]!r} has numbers in {filled[0]}, want {wanted} for {tensor.datatype}")
    return content_of(tensor.name, tensor.datatype, getattr(tensor.contents, wanted))


def _versions_wanted(parameters: Any) -> Sequence[int]:
    """Return the versions named in a load request, none when the server is to choose."""
    if sent := [key for key in parameters if key.startswith(_FILE_PARAMETER)]:
        raise InvalidRequest(f"parameter {sent[0][:40]!r}: files are not accepted over gRPC; publish them in the model store")
    if unknown := [key for key in parameters if key != "config"]:
        raise InvalidRequest(f"unknown load parameter {unknown[0][:40]!r}; want config")
    if "config" not in parameters:
        return ()
    try:
        config = from_json(parameters["config"].string_param)
        policy = config.get("versionPolicy", config.get("version_policy")) or {}
        if others := sorted(set(policy) - {"specific"}):
            raise ValueError(f"version policy {others[0][:40]!r} is not supported")
        versions = policy.get("specific", {}).get("versions", [])
        if policy and not versions:
            raise ValueError("version policy specific names no versions")
        if not isinstance(versions, list):  # a text would be read digit by digit
            raise ValueError(f"its versions are {str(versions)[:40]!r}, want a list")
        return [parse_version(str(version)) for version in versions]
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidRequest(
            f"parameter config is not a model configuration ({str(error)[:200]});"
            ' want JSON such as {"versionPolicy": {"specific": {"versions": [7]}}}'
        ) from error


def _config(served: ServedVersion, versions: Sequence[int], max_delay_us: int) -> Any:
    config = model_config_pb2.ModelConfig(
        name=served.manifest.model, platform=PLATFORM, backend="zerofleet", max_batch_size=MAX_REQUEST_ROWS
    )
    config.version_policy.specific.versions.extend(versions)
    config.dynamic_batching.max_queue_delay_microseconds = max_delay_us
    config.dynamic_batching.priority_levels = config.dynamic_batching.default_priority_level = Priority.LOW
    for tensors, listed in ((config.input, served.contract.inputs), (config.output, served.contract.outputs)):
        for name, datatype, length in listed:
            tensors.add(name=name, data_type=_CONFIG_TYPES[datatype], dims=[length])
    return config


def _statistics(served: ServedVersion) -> Any:
    counts = served.statistics
    message = messages.ModelStatistics(
        name=served.manifest.model,
        version=str(served.version),
        last_inference=counts.last_at_ms,
        inference_count=counts.positions,
        execution_count=counts.batches,
    )
    for duration, into in (
        (counts.success, message.inference_stats.success),
        (counts.failure, message.inference_stats.fail),
        (counts.queue, message.inference_stats.queue),
    ):
        _fill(duration, into)
    _fill_compute(counts.compute, message.inference_stats)
    for rows, duration in sorted(counts.by_rows.items()):
        _fill_compute(duration, message.batch_stats.add(batch_size=rows))
    return message


def _fill_compute(duration: Duration, message: Any) -> None:
    """Fill the three stages of a computation: clients such as perf_analyzer require equal counts.

    Inputs and outputs are copied within `compute_infer`, so the other two have no time of their own.
    """
    _fill(duration, message.compute_infer)
    message.compute_input.count = message.compute_output.count = duration.count


def _fill(duration: Duration, message: Any) -> None:
    message.count = duration.count
    message.ns = min(int(duration.seconds * 1e9), _INT64_MAX)
