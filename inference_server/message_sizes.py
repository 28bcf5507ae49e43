"""Size of the largest request, which bounds the memory of a call: derived from the models that the server may serve."""

from __future__ import annotations

import structlog

from games.core import Game
from inference_server.tensors import Contract
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.naming import MAX_MESSAGE_BYTES
from zerofleet.errors import ZerofleetError
from zerofleet.storage.model_store import ModelStore

__all__ = ["LEAST_BYTES", "largest_request_bytes", "require_fitting"]

LEAST_BYTES = 256 << 10
"""Smallest limit: other calls name games, moves and versions, and a model loaded later may be larger than those stored."""

log = structlog.get_logger()


def largest_request_bytes(game: Game, store: ModelStore) -> int:
    """Return the size of the largest valid request for the game, and for the newest version of each stored model.

    At most `MAX_MESSAGE_BYTES`; exactly that while the store cannot be read.
    """
    sizes = [LEAST_BYTES, Contract.request_bytes_of(game.spec().planes, game.spec().max_legal)]
    try:
        for model in store.models():
            sizes += _sizes(store, model)
    except ZerofleetError as error:
        log.warning("messages.unlimited", error=str(error), largest_bytes=MAX_MESSAGE_BYTES)
        return MAX_MESSAGE_BYTES
    return min(MAX_MESSAGE_BYTES, max(sizes))


def require_fitting(manifest: Manifest, message_bytes: int) -> None:
    """Raise `ZerofleetError` if requests for a version can be larger than the messages that the server accepts."""
    needed = min(MAX_MESSAGE_BYTES, Contract.request_bytes_of(manifest.planes, manifest.max_legal))
    if needed > message_bytes:
        raise ZerofleetError(
            f"requests for {manifest.model} version {manifest.version} have up to {needed} bytes, and this server accepts"
            f" {message_bytes}; restart it, or set max_message_bytes to {needed}"
        )


def _sizes(store: ModelStore, model: str) -> list[int]:
    """Return the size for the newest version; none without one, or where it cannot be read."""
    try:
        if not (versions := store.versions(model)):
            return []
        manifest = store.manifest(model, versions[-1])
    except ZerofleetError as error:  # it is refused when it is to be served
        log.warning("messages.unknown_size", model=model, error=str(error))
        return []
    return [Contract.request_bytes_of(manifest.planes, manifest.max_legal)]
