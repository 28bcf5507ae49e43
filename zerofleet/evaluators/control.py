"""Model control: load, unload and list the versions of an inference server, Zerofleet's or Triton.

Both accept the same request: `RepositoryModelLoad` with the model's configuration, whose version policy lists exactly the
wanted versions. New versions are loaded and checked before old ones are unloaded; a version that fails to load changes
nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Sequence, Set
from typing import Any

import grpc
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2, service_pb2_grpc
from tritonclient.grpc import service_pb2 as kserve

from zerofleet.contracts.naming import MAX_VERSION, require_model_name
from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound, Unavailable, ZerofleetError
from zerofleet.rpc.channel_client import ChannelClient
from zerofleet.rpc.failures import call_error
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.rpc.security.tls import PLAIN, Tls
from zerofleet.storage.model_store import ModelStore

__all__ = ["ModelControl"]

OVERLOADED_S = 5.0  # time for which an overloaded server is called again
_LOADS = 2  # after the answer to the first, another program may have loaded other versions, or the server may be stopping
_TRITON_REFUSALS = ("load failed for model", "failed to load")  # as INVALID_ARGUMENT or INTERNAL


class ModelControl(ChannelClient):
    """Model control of the single server at `target`; see `ReplicaControl` for replicas.

    store     model store; Triton needs each model's `config.pbtxt` from it
    known_as  target with the server's name, when `target` is one address behind that name
    """

    def __init__(
        self,
        target: str,
        *,
        token: str | None = None,
        tls: Tls = PLAIN,
        store: ModelStore | None = None,
        timeout_s: float = 120.0,
        known_as: str | None = None,
    ) -> None:
        super().__init__(target, open_inference_channel(target, tls, known_as=known_as), token, tls, known_as=known_as)
        self._store = store
        self._timeout_s = timeout_s
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    async def serve(self, model: str, versions: Sequence[int], *, held: Collection[int] = ()) -> None:
        """Serve exactly these versions of a model; return when they are ready and others accept no new requests.

        `held`: versions that the server has loaded and keeps without their files, as Zerofleet's does; they need not be stored.

        Raises `CorruptModel` when a version cannot be loaded; the served versions then stay. Also `ModelNotFound`,
        `InvalidRequest`, `PermissionRefused`, `Unavailable`.
        Cancellation: the server may or may not finish the change; call again.
        """
        require_model_name(model)
        wanted = sorted(set(versions))
        if not wanted or wanted[0] < 1 or wanted[-1] > MAX_VERSION:
            raise InvalidRequest(f"cannot serve versions {list(versions)} of {model}; want at least one positive version")
        if self._store is not None:
            await asyncio.to_thread(_require_stored, self._store, model, set(wanted) - set(held))
        config = await self._config(model)
        config["versionPolicy"] = {"specific": {"versions": [str(version) for version in wanted]}}
        request = kserve.RepositoryModelLoadRequest(model_name=model)
        request.parameters["config"].string_param = json.dumps(config)
        for _ in range(_LOADS):
            try:
                await self._call(self._stub.RepositoryModelLoad, request)
            except ZerofleetError as error:
                if any(text in str(error) for text in _TRITON_REFUSALS):
                    raise CorruptModel(f"{self.target} rejects versions {wanted} of {model}: {error}") from error
                raise
            missing = [version for version in wanted if not await self.ready(model, version)]
            if not missing:
                return
        raise CorruptModel(f"{self.target} could not load version {missing[0]} of {model}; see its log")

    async def unload(self, model: str) -> None:
        """Unload all versions of a model. Raises as `serve`. Cancellation: as `serve`."""
        request = kserve.RepositoryModelUnloadRequest(model_name=require_model_name(model))
        await self._call(self._stub.RepositoryModelUnload, request)

    async def ready(self, model: str, version: int) -> bool:
        """Return whether a version is ready. Raises `Unavailable`. Cancellation: no effect."""
        request = kserve.ModelReadyRequest(name=require_model_name(model), version=str(version))
        try:
            return bool((await self._call(self._stub.ModelReady, request)).ready)
        except ModelNotFound:
            return False

    async def live(self, *, timeout_s: float) -> bool:
        """Return whether the server replies within `timeout_s`. Raises `Unavailable` once closed. Cancellation: no effect."""
        try:
            with self.while_open():
                reply = await self._stub.ServerLive(kserve.ServerLiveRequest(), timeout=timeout_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as failure:
            # A server that refuses is live; the actual call reports the refusal.
            return not isinstance(call_error(failure, target=self.target), Unavailable)
        return bool(reply.live)

    async def loaded(self) -> dict[str, list[int]]:
        """Return the ready versions, ascending, by model. Raises as `serve`. Cancellation: no effect."""
        reply = await self._call(self._stub.RepositoryIndex, kserve.RepositoryIndexRequest(ready=True))
        found: dict[str, list[int]] = {}
        for model in reply.models:
            if model.version and model.state == "READY":
                found.setdefault(model.name, []).append(int(model.version))
        return {name: sorted(versions) for name, versions in found.items()}

    async def evaluations(self, model: str) -> dict[int, int]:
        """Return the number of positions evaluated by version, each since it was loaded; none for a model without versions.

        Raises as `serve`. Cancellation: no effect.
        """
        try:
            reply = await self._call(self._stub.ModelStatistics, kserve.ModelStatisticsRequest(name=require_model_name(model)))
        except ModelNotFound:
            return {}
        return {int(found.version): int(found.inference_count) for found in reply.model_stats}

    async def _config(self, model: str) -> dict[str, Any]:
        """Return the model's configuration as JSON: the stored one, else the server's, else only the name."""
        if self._store is not None:
            text = await asyncio.to_thread(self._store.config, model)
            if text is not None:
                return _parse_config(text, model)
        try:
            reply = await self._call(self._stub.ModelConfig, kserve.ModelConfigRequest(name=model))
        except (ModelNotFound, InvalidRequest):
            return {"name": model}
        return dict(json_format.MessageToDict(reply.config))

    async def _call(self, method: Callable[..., Awaitable[Any]], request: Any) -> Any:
        return await self.retried(
            lambda: method(request, timeout=self._timeout_s, metadata=self._metadata),
            lambda failure: call_error(failure, target=self.target),
            patience_s=min(self._timeout_s, OVERLOADED_S),
        )


def _require_stored(store: ModelStore, model: str, versions: Set[int]) -> None:
    """Raise `ModelNotFound` for missing versions: Triton would silently skip them."""
    if missing := sorted(versions - set(store.versions(model))):
        raise ModelNotFound(f"model {model} has no version {missing[0]} in the store {store.location}")


def _parse_config(text: str, model: str) -> dict[str, Any]:
    try:
        config = text_format.Parse(text, model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        raise CorruptModel(f"config.pbtxt of {model} cannot be read: {error}; publish the model again") from error
    config.name = model
    return dict(json_format.MessageToDict(config))
