"""Endpoints of a comparison: two versions of a run beside each other, and where their policies and values differ most.

One comparison of positions is computed at a time, and ends soon after its client has disconnected; others wait for it. The last
ones are kept by run, versions and sample.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from ui.catalogue import Catalogue, OpenRun
from ui.endpoints import Endpoint, Parameter, moves_in
from ui.model_servers import ModelServers
from ui.numbers import number_of
from zerofleet.contracts.played import LAST_SEED
from zerofleet.errors import InvalidRequest
from zerofleet.library.chosen_positions import (
    DEFAULT_POSITIONS,
    MOST_POSITIONS,
    ChosenPositions,
    Sample,
    drawn_position,
    line_positions,
    sampled_positions,
)
from zerofleet.library.model_comparison import (
    MOST_ROWS,
    SERVER,
    ComparedOpinions,
    Network,
    OpinionComparison,
    Order,
    VersionComparison,
    compare_opinions,
    compare_versions,
    in_this_process,
    version_named,
)
from zerofleet.service.settings import open_run_store

__all__ = ["ComparisonEndpoints", "Comparisons"]

MOST_TEXT = 4000  # characters of a line of moves in a query
MOST_KEPT = 8  # comparisons; one of 2,000 positions of Abalone has about 3 MB
LEFT_EVERY_S = 0.5
ROWS = 12
BOARD_AGE_S = 3600

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Wish:
    """Two versions, and positions: a line of moves, or else a sample of the stored games."""

    run: OpenRun
    versions: tuple[int, int]
    sample: Sample
    moves: str


class Comparisons:
    """Comparisons of positions, one at a time, of which the last ones are kept. Used in one event loop."""

    def __init__(self, servers: ModelServers, *, most_kept: int = MOST_KEPT) -> None:
        self._servers = servers
        self._most_kept = most_kept
        self._turn = asyncio.Lock()
        self._kept: OrderedDict[tuple[object, ...], ComparedOpinions] = OrderedDict()

    async def compared(self, wish: Wish) -> ComparedOpinions:
        """Return the comparison of a wish, computed unless it is kept.

        Raises `InvalidRequest`, `IllegalMove`, `RunDirectoryError`, `ModelNotFound`, `CorruptModel`, `Unavailable`.
        Cancellation: it ends, and nothing is kept.
        """
        weights = await asyncio.to_thread(_weights, wish)
        wish = await asyncio.to_thread(_pinned, wish)
        key = (wish.run.name, *weights, wish.sample, wish.moves)
        async with self._turn:
            if key not in self._kept:
                self._kept[key] = await self._compute(wish)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most_kept:
                self._kept.popitem(last=False)
            return self._kept[key]

    async def _compute(self, wish: Wish) -> ComparedOpinions:
        chosen = await _chosen(wish)
        seed = wish.sample.seed if chosen.source == "stored games" else None
        async with contextlib.AsyncExitStack() as stack:
            local = await in_this_process(wish.run, wish.versions)
            if local is not None:
                return await compare_opinions(chosen, (local, local), wish.versions, seed=seed)
            networks = []
            for version in wish.versions:
                evaluator = await stack.enter_async_context(self._servers.serving(wish.run, version))
                networks.append(Network(evaluator, SERVER))
            return await compare_opinions(chosen, networks, wish.versions, seed=seed)


class ComparisonEndpoints:
    """Handlers of the comparison of versions."""

    def __init__(self, catalogue: Catalogue, comparisons: Comparisons) -> None:
        self._catalogue = catalogue
        self._comparisons = comparisons

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        versions = tuple(
            Parameter(name, "string", f"The {name} version: a number, or champion.", is_required=True)
            for name in ("first", "second")
        )
        moves = Parameter("moves", "string", "Line of moves, separated by commas, in place of stored games.")
        positions = (
            *versions,
            Parameter("positions", "integer", f"Maximum number of positions, 1 to {MOST_POSITIONS}."),
            Parameter("seed", "integer", "Seed of the sample of positions."),
            Parameter("before", "integer", "Number of a game: positions of older ones alone."),
            moves,
            Parameter("order", "string", "Order of the rows: `policy` or `value`."),
            Parameter("limit", "integer", f"Maximum number of rows, 0 to {MOST_ROWS}."),
        )
        board = (
            Parameter("uid", "string", "Uid of a stored game."),
            Parameter("ply", "integer", "Number of moves before the position of the stored game."),
            moves,
        )
        compare, most = "/runs/{run}/compare", "Positions in which two versions differ most"
        return (
            Endpoint(compare, self.compare, "Two versions and their matches", VersionComparison, query=versions),
            Endpoint(f"{compare}/positions", self.compare_positions, most, OpinionComparison, query=positions),
            Endpoint(f"{compare}/board", self.compare_board, "A position as its mover sees it", "image/svg+xml", query=board),
        )

    async def compare(self, request: Request) -> BaseModel:
        """Return two versions beside each other."""
        run = await self._run(request)
        return await asyncio.to_thread(lambda: compare_versions(run, *_versions(run, request)))

    async def compare_positions(self, request: Request) -> BaseModel:
        """Compare two versions in positions; the work ends when the client disconnects."""
        run = await self._run(request)
        order, limit = _order(request), number_of(request, "limit", ROWS, 0, MOST_ROWS)
        wish = await asyncio.to_thread(_wish, run, request)
        compared = await _while_connected(request, self._comparisons.compared(wish))
        return await asyncio.to_thread(lambda: compared.view(order, limit=limit))

    async def compare_board(self, request: Request) -> Response:
        """Draw a position in the view of its player to move."""
        run, moves = await self._run(request), moves_in(request, MOST_TEXT)
        uid, ply = request.query_params.get("uid", ""), number_of(request, "ply", 0, 0, 1 << 31)
        picture = await asyncio.to_thread(lambda: drawn_position(run, uid=uid, ply=ply, moves=moves))
        headers = {"Cache-Control": f"private, max-age={BOARD_AGE_S}"}
        return Response(picture, media_type="image/svg+xml", headers=headers)

    async def _run(self, request: Request) -> OpenRun:
        return await asyncio.to_thread(self._catalogue.get, request.path_params["run"])


async def _while_connected(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Return the result of `work`, which is cancelled when the client has disconnected. Cancellation: so is `work`."""
    task = asyncio.create_task(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=LEFT_EVERY_S)
            if not task.done() and await request.is_disconnected():
                raise InvalidRequest("the client has left, so the comparison was ended")
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _chosen(wish: Wish) -> ChosenPositions:
    """Return the positions of a wish. Cancellation: the thread stops after the game that it reads."""
    if wish.moves:
        return await asyncio.to_thread(line_positions, wish.run.game, wish.moves)
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(lambda: sampled_positions(wish.run, wish.sample, is_stopped=stopped.is_set))
    finally:
        stopped.set()


def _wish(run: OpenRun, request: Request) -> Wish:
    """Return the wish of a request. Raises `InvalidRequest`, `ModelNotFound`."""
    before = number_of(request, "before", 0, 0, 1 << 62) if "before" in request.query_params else None
    positions = number_of(request, "positions", DEFAULT_POSITIONS, 1, MOST_POSITIONS)
    sample = Sample(positions, number_of(request, "seed", 0, 0, LAST_SEED), before)
    first, second = _versions(run, request)
    if first == second:
        raise InvalidRequest(f"version {first} cannot be compared with itself; choose another version")
    return Wish(run, (first, second), sample, moves_in(request, MOST_TEXT))


def _pinned(wish: Wish) -> Wish:
    """Return a wish that names the games of its sample: the newest ones are others when the run has stored more.

    Raises `RunDirectoryError`.
    """
    if wish.moves:
        return wish
    before, _ = wish.run.newest_logged(0, before=wish.sample.before)
    return replace(wish, sample=replace(wish.sample, before=before))


def _weights(wish: Wish) -> tuple[str, ...]:
    """Return the hashes of the manifests of a wish, which name the hashes of the weights. Raises `ModelNotFound`."""
    store = open_run_store(wish.run.paths)
    return tuple(store.manifest_sha256(wish.run.model, version) for version in wish.versions)


def _versions(run: OpenRun, request: Request) -> tuple[int, int]:
    asked = request.query_params
    for name in ("first", "second"):
        if not asked.get(name):
            raise InvalidRequest(f"{name} is missing; give two versions, as first=1&second=champion")
    return version_named(run, asked["first"]), version_named(run, asked["second"])


def _order(request: Request) -> Order | None:
    text = request.query_params.get("order")
    if not text:
        return None
    known: Order | None = next((one for one in get_args(Order) if one == text), None)
    if known is None:
        raise InvalidRequest(f"order {text[:40]!r} is unknown; choose policy or value")
    return known
