"""Registry of served versions: load, check, warm up, route, retire.

A change takes effect in one step once all its versions are ready, so a request finds either the old versions or the new
ones. A broken version changes nothing. A retired version still evaluates the requests queued for it: they hold a reference
to it, and its memory is freed with the last of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import structlog

from games import core
from games.core import Game
from inference_server.message_sizes import require_fitting
from inference_server.network import Backend
from inference_server.served_version import ServedVersion
from inference_server.tensors import Contract
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.model_checks import MODEL_FILE
from zerofleet.contracts.naming import MAX_MESSAGE_BYTES, require_model_name
from zerofleet.contracts.pacing import paced
from zerofleet.contracts.promotions import recent_versions
from zerofleet.errors import DeviceLost, InvalidRequest, ModelNotFound, Unavailable, VersionSkew, ZerofleetError
from zerofleet.storage.model_store import ModelStore
from zerofleet.telemetry import metrics, tracing

__all__ = ["Registry"]

log = structlog.get_logger()

CHAMPION_EVERY_S = 1.0
"""Time between two looks at the champion pointers: the longest for which the predecessor answers requests without a version
once the champion is loaded."""
MODELS_EVERY_S = 30.0
"""Time between two looks at which models the store has, while one is served: a bucket charges for each list."""
LOAD_AGAIN_S = 60.0
"""Time after which a champion that could not be loaded is tried again."""


class Registry:
    """Served versions by model. Used on the event loop; a dedicated thread loads."""

    def __init__(
        self,
        store: ModelStore,
        backend: Backend,
        *,
        max_batch: int,
        max_versions: int,
        message_bytes: int = MAX_MESSAGE_BYTES,
        on_lost: Callable[[DeviceLost], None] = lambda error: None,
        starting: bool = False,
    ) -> None:
        """Create it, without models; `message_bytes` is the largest message that the server accepts.

        `on_lost` is called when a load finds that the device is lost. `starting`: `serve_champions` follows, and until it has
        ended a model that is not served is `Unavailable`, so that clients wait for the restart of a server.
        """
        self.store = store
        self._message_bytes = message_bytes
        self._backend = backend
        self._max_batch = max_batch
        self._max_versions = max_versions
        self._on_lost = on_lost
        self._starting = starting
        self._served: dict[str, dict[int, ServedVersion]] = {}  # versions ascending
        self._champions: dict[str, int] = {}  # of the served models, as the store named them last
        self._unseen: set[str] = set()  # models whose pointer could not be read at the last look
        self._is_store_away = False  # at the last look at its models
        self._chosen: set[str] = set()  # models whose versions, or none, a caller has chosen: promotions load nothing there
        self._refused: dict[str, tuple[int, float]] = {}  # champions that could not be loaded, and when they are tried again
        self._loads: dict[str, asyncio.Task[None]] = {}  # of new champions, by model
        self._change = asyncio.Lock()
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader")
        self.on_change: Callable[[str, bool], Awaitable[None]] = _ignore
        """Awaited after each change with the model's name and whether it is served."""

    def close(self) -> None:
        """Stop the loading thread; a load under way is finished and discarded."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def models(self) -> list[str]:
        """Return the names of the served models."""
        return sorted(self._served)

    def versions(self, model: str) -> list[ServedVersion]:
        """Return the served versions of a model, ascending."""
        return list(self._served.get(model, {}).values())

    def resolve(self, model: str, version: int | None) -> ServedVersion:
        """Return a served version, for None the champion; raises `ModelNotFound`, which lists the served ones.

        Without a champion in the store, None is the newest served version: no gatekeeper decides there. Until a new champion is
        loaded, None is the one before. Raises `Unavailable` for a model that is not served while the champions of the store are
        being loaded.
        """
        served = self._served.get(model)
        if not served:
            if self._starting:
                raise Unavailable(f"model {model} is not served yet: the server is loading the champions; try again shortly")
            known = ", ".join(self.models()) or "none yet"
            raise ModelNotFound(f"model {model} is not served; served models: {known}")
        champion = self._champions.get(model, max(served))
        if champion not in served and model not in self._chosen:
            champion = max(served)
        wanted = champion if version is None else version
        if wanted not in served:
            known = ", ".join(map(str, served))
            if version is None:
                raise ModelNotFound(
                    f"the champion, version {wanted}, of {model} is not served; served versions: {known}; name one of them, or"
                    " load the model without versions, so that the server follows the champion"
                )
            raise ModelNotFound(f"version {wanted} of {model} is not served; served versions: {known}")
        return served[wanted]

    async def serve(self, model: str, versions: Sequence[int]) -> None:
        """Serve exactly these versions of a model, until the next call: no promotion changes them.

        Raises `CorruptModel`, `ModelNotFound` or `InvalidRequest`, and leaves the served versions unchanged.
        Cancellation: the change is either complete or has no effect.
        """
        self._require_few(model, versions)
        async with self._change:
            await self._serve(model, versions, chosen=True)

    async def serve_default(self, model: str) -> None:
        """Serve the champion, else the newest stored version, and from then on each new champion.

        Raises and cancels as `serve`; `ModelNotFound` also when no version is stored.
        """
        versions = await self._default_versions(require_model_name(model))
        async with self._change:
            await self._serve(model, versions, chosen=False)

    def _require_few(self, model: str, versions: Sequence[int]) -> None:
        """Raise `InvalidRequest` for an invalid name, no version, or more than may be in memory."""
        require_model_name(model)
        if not 1 <= (count := len(set(versions))) <= self._max_versions:
            raise InvalidRequest(f"got {count} versions of {model} to serve, want 1 to {self._max_versions}")

    async def _serve(self, model: str, versions: Sequence[int], *, chosen: bool, again: bool = False) -> None:
        """Load those versions that are not in service, and route to them; the caller holds the lock.

        `again`: a refusal is the repetition of one that was logged as an error.
        """
        held = self._served.get(model, {})
        fresh = {}
        for version in sorted(set(versions)):
            fresh[version] = held.get(version) or await self._load(model, version, again=again)
        if self._champions.get(model) not in fresh:  # else no change waits for a store that is away
            champion = await self._look_for_champion(model)
            if champion is not None and (chosen or champion in fresh):
                self._champions[model] = champion
        if chosen:
            self._chosen.add(model)
        else:
            self._chosen.discard(model)
        await self._route(model, fresh)

    async def unload(self, model: str) -> None:
        """Take all versions of a model out of service; raises `ModelNotFound`. Cancellation: as `serve`."""
        require_model_name(model)
        async with self._change:
            if model not in self._served:
                self.resolve(model, None)
            self._chosen.add(model)
            await self._route(model, {})

    async def serve_champions(self) -> None:
        """Serve the champion of every stored model and its predecessor; log those that cannot be served.

        A model for which a client has already requested versions is left alone. Cancellation: as `serve`.
        """
        try:
            await self._serve_champions()
        finally:
            self._starting = False

    async def _serve_champions(self) -> None:
        for model in await asyncio.to_thread(self.store.models):
            try:
                versions = recent_versions(await asyncio.to_thread(self.store.history, model))
            except ZerofleetError as error:
                log.error("model.champion_refused", model=model, error=str(error))
                continue
            await self._serve_at_start(model, versions)

    async def _serve_at_start(self, model: str, versions: Sequence[int]) -> None:
        """Serve a champion and its predecessor, or the one of them that can be loaded, until a caller asks for the model."""
        held: list[int] = []
        for version in versions:
            if len(held) == self._max_versions:
                return
            try:
                async with self._change:
                    if model in self._chosen or list(self._served.get(model, {})) != sorted(held):
                        return
                    await self._serve(model, [version, *held], chosen=False)
                held.append(version)
            except ZerofleetError as error:
                log.error("model.champion_refused", model=model, versions=[version], error=str(error))
                if version == versions[0]:
                    self._refused[model] = version, asyncio.get_running_loop().time() + LOAD_AGAIN_S

    async def follow_champions(self) -> None:
        """Look for a new champion of every served model, every `CHAMPION_EVERY_S`, until cancelled.

        Of every other stored model too: as often while none is served, since a server may start before the first champion of
        its store, and else every `MODELS_EVERY_S`. One that is not in service is loaded, unless a caller has chosen the
        versions of the model: a gatekeeper loads on the servers of its fleet, and on no other server over the same store. A
        failure leaves the known champions; it is logged once. Cancellation: the champions stay those that were found last.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_at_others(group))
            while True:
                await asyncio.sleep(CHAMPION_EVERY_S)
                for model in self.models():
                    await self._look_at(model, group)

    async def _look_at_others(self, group: asyncio.TaskGroup) -> None:
        """Look for the first champions of models that are not served."""
        clock = asyncio.get_running_loop().time
        looked_s = clock()
        while True:
            await asyncio.sleep(CHAMPION_EVERY_S)
            if self._served and clock() - looked_s < MODELS_EVERY_S:
                continue
            looked_s = clock()
            for model in await self._stored_models():
                if model not in self._served:
                    await self._look_at(model, group)

    async def _look_at(self, model: str, group: asyncio.TaskGroup) -> None:
        """Note a new champion, or begin to load it; the others are looked at meanwhile."""
        champion = await self._look_for_champion(model)
        if champion is None:
            return
        if model in self._chosen or champion in self._served.get(model, {}):
            self._champions[model] = champion
        elif model not in self._loads or self._loads[model].done():
            self._loads[model] = group.create_task(self._follow(model, champion))

    async def _follow(self, model: str, champion: int) -> None:
        """Serve a new champion beside its predecessor, with which games have begun; log a failure, after which both stay."""
        now_s = asyncio.get_running_loop().time()
        refused, again_s = self._refused.get(model, (0, 0.0))
        if champion == refused and now_s < again_s:
            return
        try:
            async with self._change:
                if model in self._chosen:  # since the look
                    return
                held = [self.resolve(model, None).version] if model in self._served else []
                again = champion == refused  # no further error in the log
                await self._serve(model, [champion, *held][: self._max_versions], chosen=False, again=again)
                self._champions[model] = champion
                self._refused.pop(model, None)
        except Exception as error:  # whatever it is, the known champion goes on answering
            self._refused[model] = champion, now_s + LOAD_AGAIN_S
            tell = log.info if champion == refused else log.error
            tell(
                "model.champion_refused",
                model=model,
                versions=[champion],
                answered_by=self.resolve(model, None).version if model in self._served else None,
                error=str(error),
                exc_info=None if isinstance(error, ZerofleetError | OSError) else error,
            )

    async def _stored_models(self) -> list[str]:
        """Return the stored models; none before the start has served their champions, and while the store cannot be read."""
        if self._starting:
            return []
        try:
            stored = await asyncio.to_thread(self.store.models)
        except Exception as error:  # whatever it is, the next look may succeed
            if not self._is_store_away:
                foreseen = isinstance(error, ZerofleetError | OSError)
                log.warning("models.unknown", error=str(error), exc_info=None if foreseen else error)
            self._is_store_away = True
            return []
        self._is_store_away = False
        return stored

    async def _look_for_champion(self, model: str) -> int | None:
        """Return the champion that the store names now, the known one when the store cannot be read; None without one."""
        try:
            champion = await asyncio.to_thread(self.store.champion, model)
        except Exception as error:  # whatever it is, the known champion goes on answering, and the next look may succeed
            if model not in self._unseen:
                self._unseen.add(model)
                known, foreseen = self._champions.get(model), isinstance(error, ZerofleetError | OSError)
                log.warning(
                    "model.champion_unknown", model=model, known=known, error=str(error), exc_info=None if foreseen else error
                )
            return self._champions.get(model)
        if model in self._unseen:
            self._unseen.discard(model)
            log.info("model.champion_known", model=model, version=None if champion is None else champion.version)
        return None if champion is None else champion.version

    async def _default_versions(self, model: str) -> list[int]:
        """Return the champion, else the newest stored version; raises `ModelNotFound` when none is stored."""
        champion = await asyncio.to_thread(self.store.champion, model)
        if champion is not None:
            return [champion.version]
        if stored := await asyncio.to_thread(self.store.versions, model):
            return [stored[-1]]
        known = ", ".join(await asyncio.to_thread(self.store.models)) or "none"
        raise ModelNotFound(f"model {model} is not in the store; stored models: {known}")

    async def stored(self) -> dict[str, list[int]]:
        """Return every stored version by model, served or not. Cancellation: no effect."""
        return await asyncio.to_thread(self._stored)

    def _stored(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for model in self.store.models():
            try:
                found[model] = self.store.versions(model)
            except Unavailable as error:  # the others can be listed
                log.warning("model.unlisted", model=model, error=str(error))
        return found

    async def _load(self, model: str, version: int, *, again: bool) -> ServedVersion:
        try:
            with tracing.child("model.load", model=model, version=version):
                served = await asyncio.get_running_loop().run_in_executor(self._executor, self._load_now, model, version)
        except (ZerofleetError, MemoryError) as error:
            metrics.MODEL_LOADS.labels(model=model, outcome="refused").inc()
            tell = log.info if again else log.error
            tell("model.refused", model=model, version=version, error=str(error))
            if isinstance(error, DeviceLost):
                self._on_lost(error)
            if isinstance(error, MemoryError):
                raise Unavailable(f"no memory is left to verify {model} version {version}; free some") from error
            raise
        metrics.MODEL_LOADS.labels(model=model, outcome="loaded").inc()
        network = served.network
        log.info("model.loaded", model=model, version=version, backend=network.backend, precision=network.precision)
        return served

    def _load_now(self, model: str, version: int) -> ServedVersion:
        """Verify the files, then load them, which executes code; runs on the loading thread, which gives way to calls."""
        with paced() if self._served else nullcontext():  # with no version in service there are no calls to give way to
            return self._verified_and_loaded(model, version)

    def _verified_and_loaded(self, model: str, version: int) -> ServedVersion:
        manifest = self.store.manifest(model, version)
        require_fitting(manifest, self._message_bytes)
        manifest = self.store.verify(model, version, game=_known_game(manifest))
        path = self.store.directory(model, version) / MODEL_FILE
        network = self._backend.load(path, manifest, max_batch=self._max_batch)
        return ServedVersion(manifest, Contract.of(manifest), network)

    async def _route(self, model: str, versions: dict[int, ServedVersion]) -> None:
        """Route new requests to these versions."""
        held = self._served.get(model, {})
        retired = set(held) - set(versions)
        if versions:
            self._served[model] = versions
        else:
            self._served.pop(model, None)
        for version, served in versions.items():
            metrics.INFERENCE_LOADED.labels(model=model, version=str(version)).set(1)
            metrics.INFERENCE_BACKEND.labels(*_backend_labels(model, served)).set(1)
        for version in retired:
            metrics.INFERENCE_LOADED.remove(model, str(version))
            metrics.INFERENCE_BACKEND.remove(*_backend_labels(model, held[version]))
        log.info("model.routed", model=model, versions=sorted(versions), retired=sorted(retired))
        await self.on_change(model, bool(versions))


def _backend_labels(model: str, served: ServedVersion) -> tuple[str, str, str, str]:
    return model, str(served.version), served.network.backend, served.network.precision


async def _ignore(model: str, ready: bool) -> None:
    """Do nothing: the default without a listener."""


def _known_game(manifest: Manifest) -> Game | None:
    """Return the game of a manifest, None when it is not installed, which does not prevent serving."""
    if not core.is_available(manifest.game):
        return None
    try:
        return core.make(manifest.game, **manifest.parameters)
    except ValueError as error:
        raise VersionSkew(f"model {manifest.model} version {manifest.version}: {error}") from error
