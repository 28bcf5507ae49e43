"""Endpoints of studies: a search as it grows, and the nodes of its tree with N, Q, P and U."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

import games
from games.core import Game, State, play
from games.kit import svg
from games.positions import changed_parameters, drawing, move_names, read_moves
from ui.catalogue import Catalogue
from ui.endpoints import MOST_TEXT, Endpoint, Parameter, StrictValue, read_body
from ui.event_stream import Events, streamed
from ui.studies import NO_MODEL, Studies, Study, Wish
from zerofleet.errors import InvalidRequest
from zerofleet.search import RootAnalysis
from zerofleet.search.tree_view import TreeNode

__all__ = ["StudyEndpoints"]

MOST_SIMULATIONS = 20_000  # a tree of Abalone then has about 100 MB
MOST_CHILDREN = 24


class NewStudy(StrictValue):
    """Position to search."""

    game: str
    """Name of the game; that of the run, if one is given."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Parameters that differ from the game's defaults; those of the run, if one is given."""
    run: str | None = None
    """Run of the model."""
    model: str = NO_MODEL
    """champion or model:N of the run, or none: uniform priors."""
    moves: str = Field(default="", max_length=MOST_TEXT)
    """Moves to the position, separated by spaces or commas."""
    simulations: int = Field(default=800, ge=1, le=MOST_SIMULATIONS)


class StopStudy(StrictValue):
    """Empty object."""


class StudyView(StrictValue):
    """Searched position."""

    id: str
    game: str
    parameters: dict[str, str]
    source: str
    """Source of priors and values."""
    moves: tuple[str, ...]
    """Moves to the position."""
    player: int
    """Player to move, counted from 1."""
    simulations: int
    """Simulations of the complete search."""
    visits: int
    """Simulations so far."""
    value: float | None
    """Expected score of the player to move in [-1, 1]; None before the first evaluation."""
    is_proven: bool
    """Whether the value is certain."""
    line: tuple[str, ...]
    """Most visited line."""
    is_done: bool
    fault: str
    """Error that ended the search; empty for none."""


class ChildView(StrictValue):
    """Move of a node; values are for the player to move at the node."""

    move: str
    prior: float
    """P: probability from the model."""
    visits: int
    """N: simulations through the move."""
    value: float | None
    """Q: mean value in [-1, 1]; None without visits."""
    exploration: float
    """U: what PUCT adds to Q when it selects a move."""
    is_open: bool
    """Whether the position after the move is a node with moves of its own."""
    path: tuple[str, ...]
    """Cells of the move; empty where the game has none."""


class PlaceView(StrictValue):
    """Cell of the picture."""

    id: str
    x: float
    y: float
    radius: float


class NodeView(StrictValue):
    """Node of the tree, the most visited moves first."""

    path: tuple[str, ...]
    """Moves from the searched position."""
    player: int
    """Player to move, counted from 1."""
    visits: int
    legal: int
    """Number of legal moves."""
    children: tuple[ChildView, ...]
    """Most visited moves."""
    cells: tuple[PlaceView, ...]
    """Cells of the picture; empty where the game has none."""
    text: str
    """Position as text."""


class StudyEndpoints:
    """Handlers over the studies."""

    def __init__(self, catalogue: Catalogue, studies: Studies) -> None:
        self._catalogue = catalogue
        self._studies = studies

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        study = "/studies/{study}"
        path = Parameter("path", "string", "Moves from the searched position, separated by commas; empty for the position.")
        limit = Parameter("limit", "integer", f"Maximum number of moves, 1 to {MOST_CHILDREN}.")
        return (
            Endpoint("/studies", self.begin_study, "Search a position and keep its tree", StudyView, "POST", NewStudy),
            Endpoint(study, self.study, "A searched position", StudyView),
            Endpoint(f"{study}/events", self.follow_study, "The search as it grows, as events `study`", "text/event-stream"),
            Endpoint(f"{study}/stop", self.stop_study, "End the search and keep its tree", StudyView, "POST", StopStudy),
            Endpoint(f"{study}/node", self.node, "A node with N, Q, P and U of its moves", NodeView, query=(path, limit)),
            Endpoint(f"{study}/board", self.study_board, "A position of the tree", "image/svg+xml", query=(path,)),
        )

    async def begin_study(self, request: Request) -> BaseModel:
        """Search a position."""
        new = await read_body(request, NewStudy)
        run = None if new.run is None else await asyncio.to_thread(self._catalogue.get, new.run)
        game = run.game if run is not None else await asyncio.to_thread(games.make, new.game, **new.parameters)
        study = await self._studies.open(Wish(game, run, new.model, new.moves, new.simulations))
        return await _seen(study)

    async def study(self, request: Request) -> BaseModel:
        """Return a searched position."""
        return await _seen(self._study(request))

    async def follow_study(self, request: Request) -> Response:
        """Stream a search as it grows."""
        return streamed(_growth(self._study(request)))

    async def stop_study(self, request: Request) -> BaseModel:
        """End a search."""
        study = self._study(request)
        await read_body(request, StopStudy)
        study.search.stop()
        return await _seen(study)

    async def node(self, request: Request) -> BaseModel:
        """Return a node."""
        study, limit = self._study(request), request.query_params.get("limit", str(MOST_CHILDREN))
        if not (limit.isascii() and limit.isdecimal() and len(limit) < 4 and 1 <= int(limit) <= MOST_CHILDREN):
            raise InvalidRequest(f"limit={limit!r} is out of range; give an integer from 1 to {MOST_CHILDREN}")
        path = await asyncio.to_thread(_path, study, request)
        try:
            node = await study.search.node(path)
        except ValueError as error:
            raise InvalidRequest(f"{error}; search with more simulations to open it") from error
        return await asyncio.to_thread(_node_view, study, path, node, int(limit))

    async def study_board(self, request: Request) -> Response:
        """Draw a position of the tree."""
        study = self._study(request)
        path = await asyncio.to_thread(_path, study, request)
        picture = await asyncio.to_thread(lambda: svg.picture(study.game, study.state_after(path)))
        return Response(picture, media_type="image/svg+xml", headers={"Cache-Control": "no-store"})

    def _study(self, request: Request) -> Study:
        return self._studies.get(request.path_params["study"])


async def _growth(study: Study) -> Events:
    async with contextlib.aclosing(study.follow()) as roots:
        async for root in roots:
            yield "study", await asyncio.to_thread(_view, study, root)


async def _seen(study: Study) -> StudyView:
    return await asyncio.to_thread(_view, study, await study.search.analysis())


def _view(study: Study, root: RootAnalysis | None) -> StudyView:
    game, state = study.game, study.state_after()
    return StudyView(
        id=study.id,
        game=game.spec().name,
        parameters=changed_parameters(game),
        source=study.title,
        moves=tuple(move_names(game, study.search.moves)),
        player=int(games.core.to_move(game, state)) + 1,
        simulations=study.search.simulations,
        visits=0 if root is None else int(root.visits.sum()),
        value=None if root is None else float(root.value[root.to_move]),
        is_proven=root is not None and root.proven,
        line=() if root is None else _names(game, state, root.principal_variation),
        is_done=study.is_done,
        fault=study.fault,
    )


def _path(study: Study, request: Request) -> list[int]:
    """Return the actions of the query parameter `path`. Raises `IllegalMove`, `InvalidRequest`."""
    text = request.query_params.get("path", "")
    if len(text) > MOST_TEXT:
        raise InvalidRequest(f"the path has more than {MOST_TEXT} characters")
    before = move_names(study.game, study.search.moves)
    return read_moves(study.game, ",".join([*before, text]))[len(before) :]


def _node_view(study: Study, path: Sequence[int], node: TreeNode, limit: int) -> NodeView:
    game, state = study.game, study.state_after(path)
    steps, cells = getattr(game, "action_path", None), getattr(game, "cells", None)
    children = []
    for index in node.ranking()[:limit]:
        action, value = int(node.actions[index]), float(node.values[index])
        children.append(
            ChildView(
                move=game.action_name(state, action),
                prior=float(node.priors[index]),
                visits=int(node.visit_counts[index]),
                value=None if math.isnan(value) else value,
                exploration=float(node.exploration[index]),
                is_open=bool(node.is_expanded[index]),
                path=() if steps is None else tuple(steps(state, action)),
            )
        )
    return NodeView(
        path=_names(game, study.state_after(), path),
        player=node.to_move + 1,
        visits=node.visits,
        legal=len(node.actions),
        children=tuple(children),
        cells=() if cells is None else tuple(PlaceView(**cell._asdict()) for cell in cells(state)),
        text=drawing(game, state),
    )


def _names(game: Game, state: State, actions: Sequence[int]) -> tuple[str, ...]:
    """Return the notation of moves from a position."""
    now, names = state.copy(), []
    for action in actions:
        names.append(game.action_name(now, action))
        play(game, now, action)
    return tuple(names)
