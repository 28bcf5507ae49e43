"""Promotion of a version by hand, and return to the champion before: for the command line and the pages alike.

Both go through the gatekeeper of the run, which verifies a version and has an inference server load it. For a stopped run a
gatekeeper is started for the purpose, and an inference server beside it; both end with the command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from games.core import Game
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.promotions import Champion
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.security.credentials import client_tls, client_token
from zerofleet.service.settings import open_run_store
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.borrowed import gatekept

__all__ = ["promote_version", "roll_back"]

_CHANGE_TIMEOUT_S = 120.0
"""An inference server that was just started loads the champion and its predecessor as well."""


async def promote_version(
    paths: RunPaths, game: Game, version: int, *, reason: str, without_self_test: bool = False
) -> Champion:
    """Make a version the champion regardless of its match, once its files are verified and a server has loaded it.

    `without_self_test` accepts a version that no inference server can load, and starts none for it.

    Raises `ModelNotFound`, `CorruptModel`, `InvalidRequest`, `PermissionRefused`, `StaleEpoch`, `Unavailable`.
    Cancellation: it may or may not have been promoted; services that were started are stopped.
    """
    await asyncio.to_thread(open_run_store(paths).verify, model_name(game), version, game=game)
    async with _gatekeeper(paths, game, self_tests=not without_self_test) as gatekeeper:
        return await gatekeeper.promote(model_name(game), version, reason=reason, without_self_test=without_self_test)


async def roll_back(paths: RunPaths, game: Game, *, reason: str) -> Champion:
    """Restore the previous champion. Raises as `promote_version`; `ModelNotFound` without one. Cancellation: as there."""
    async with _gatekeeper(paths, game, self_tests=True) as gatekeeper:
        return await gatekeeper.rollback(model_name(game), reason=reason)


@asynccontextmanager
async def _gatekeeper(paths: RunPaths, game: Game, *, self_tests: bool) -> AsyncIterator[GatekeeperClient]:
    async with (
        gatekept(paths, game, self_tests=self_tests) as address,
        GatekeeperClient(address, token=client_token(), tls=client_tls(), timeout_s=_CHANGE_TIMEOUT_S) as gatekeeper,
    ):
        yield gatekeeper
