"""Endpoints of studies: a search as it grows, and the nodes of its tree with N, Q, P and U.

With hidden information an answer is a function of what the seat to move sees and of numbers over the sampled worlds: it holds
neither a hand of another seat, nor one that the search invented, nor a choice of the round in progress, nor the seed.
"""

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
from games.kit.cells import Cell
from games.positions import changed_parameters, drawing, read_moves
from ui.catalogue import Catalogue, OpenRun
from ui.endpoints import MOST_TEXT, Endpoint, Parameter, StrictValue, read_body
from ui.event_stream import Events, streamed
from ui.studies import NO_MODEL, Information, Studies, Study, Wish
from ui.tables import Tables
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import InvalidRequest
from zerofleet.library.seated_game import SeatedGame
from zerofleet.search import RootAnalysis
from zerofleet.search.block import LAST_SEED
from zerofleet.search.hidden.world_view import WorldStatistics
from zerofleet.search.tree_view import TreeNode

__all__ = ["StudyEndpoints", "stored_position"]

MOST_SIMULATIONS = 20_000  # a tree of Abalone then has about 100 MB
MOST_CHILDREN = 24
MOST_OUTCOMES = 12
MOST_UID = 64

ROOT_ALONE = (
    "The root alone can be opened: the tree below it holds hands and choices of others that the search invents. "
    "The figures are over all of these, and the triangle of a move opens its public outcomes."
)


class NewStudy(StrictValue):
    """Position to search."""

    game: str = ""
    """Name of the game; not needed with a run or a table."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Parameters that differ from the game's defaults; those of the run, if one is given."""
    run: str | None = None
    """Run of the model."""
    model: str = NO_MODEL
    """champion or model:N of the run, or none: uniform priors."""
    moves: str = Field(default="", max_length=MOST_TEXT)
    """Moves to the position, separated by spaces or commas; only with perfect information, whose moves alone restore it."""
    table: str | None = None
    """Id of a game in progress: its present position, in the view of the person's seat."""
    uid: str | None = Field(default=None, max_length=MOST_UID)
    """Uid of a stored game of the run: its position before move `ply`, in the view of the seat to move."""
    ply: int = Field(default=0, ge=0)
    """Number of moves before the position of the stored game."""
    simulations: int = Field(default=800, ge=1, le=MOST_SIMULATIONS)
    information: Information = "determinise"
    """Search with hidden information: a deal for each simulation, or a forecast by the model's head `opponents`."""


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
    is_drawn: bool
    """Whether the position was drawn, or reached from one that was: the moves do not begin at the start of the game."""
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
    """Most visited line; one move with hidden information."""
    root_alone: str
    """Reason for which the root alone can be opened; empty with perfect information."""
    is_done: bool
    fault: str
    """Error that ended the search; empty for none."""


class OutcomeView(StrictValue):
    """Public outcome of a move, in some of the sampled worlds."""

    name: str
    visits: int
    value: float
    """Mean value of these simulations for the player to move."""


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
    share: float | None
    """Share of the sampled worlds in which the search tried the move; None with perfect information or a forecast."""
    spread: float | None
    """Standard deviation of the value over those worlds; None for fewer than two."""
    outcomes: tuple[OutcomeView, ...]
    """Most frequent outcomes; empty with perfect information, or where the game does not name them."""


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
    worlds: int
    """Worlds that the search sampled, 1 with a forecast; 0 with perfect information."""
    children: tuple[ChildView, ...]
    """Most visited moves."""
    cells: tuple[PlaceView, ...]
    """Cells of the picture; empty where the game has none."""
    text: str
    """Position as text, in the view of the player to move."""


class StudyEndpoints:
    """Handlers over the studies."""

    def __init__(self, catalogue: Catalogue, studies: Studies, tables: Tables) -> None:
        self._catalogue = catalogue
        self._studies = studies
        self._tables = tables

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
        table = None if new.table is None else self._tables.get(new.table).snapshot().played
        played = await asyncio.to_thread(_position, new, run, table)
        study = await self._studies.open(Wish(played, run, new.model, new.simulations, new.information))
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
            node, worlds = await study.search.root() if not path else (await study.search.node(path), None)
        except ValueError as error:
            raise InvalidRequest(f"{error}; search with more simulations to open it") from error
        return await asyncio.to_thread(_node_view, study, path, (node, worlds), int(limit))

    async def study_board(self, request: Request) -> Response:
        """Draw a position of the tree."""
        study = self._study(request)
        path = await asyncio.to_thread(_path, study, request)
        picture = await asyncio.to_thread(_picture, study, path)
        return Response(picture, media_type="image/svg+xml", headers={"Cache-Control": "no-store"})

    def _study(self, request: Request) -> Study:
        return self._studies.get(request.path_params["study"])


def _position(new: NewStudy, run: OpenRun | None, table: SeatedGame | None) -> SeatedGame:
    """Return the game up to the position to search, with the seat to move. Raises `InvalidRequest`, `GameError`."""
    if sum((bool(new.moves), table is not None, new.uid is not None)) > 1:
        raise InvalidRequest("a position has one source: give moves, a table, or the uid of a stored game with its ply")
    if table is not None:
        return table
    if new.uid is not None:
        if run is None:
            raise InvalidRequest("uid names a stored game of a run: give the run")
        return stored_position(run.stored(new.uid)[1], new.ply)
    game = run.game if run is not None else games.make(new.game, **new.parameters)
    if game.spec().information != "perfect":
        raise InvalidRequest(
            f"{game.spec().name} has hidden information, so moves alone name no position: "
            "begin at your turn in a game on the page Play, or at a move of a stored game"
        )
    played = SeatedGame(game, seat=0, seed=0)
    played.moves = read_moves(game, new.moves)
    return played.seen_by_mover()


def stored_position(stored: ValidatedGame, ply: int) -> SeatedGame:
    """Return a stored game before move `ply`, counted from 0, in the view of the seat that then moved.

    Raises `InvalidRequest` for a ply without a move, and for the seed of a deal that no search takes.
    """
    if not 0 <= ply < len(stored.movers):
        raise InvalidRequest(f"ply={ply} is no position with a move; the game has moves 0 to {len(stored.movers) - 1}")
    seed = 0 if stored.game.spec().information == "perfect" else int(stored.record.seed)  # moves alone restore the position
    if seed > LAST_SEED:
        raise InvalidRequest("the seed of this game is 2^63 or more, which no search takes; choose another game")
    played = SeatedGame(stored.game, seat=int(stored.movers[ply]), seed=seed)
    played.moves = [int(action) for action in stored.record.moves[:ply]]
    return played


async def _growth(study: Study) -> Events:
    async with contextlib.aclosing(study.follow()) as roots:
        async for root in roots:
            yield "study", await asyncio.to_thread(_view, study, root)


async def _seen(study: Study) -> StudyView:
    return await asyncio.to_thread(_view, study, await study.search.analysis())


def _view(study: Study, root: RootAnalysis | None) -> StudyView:
    game, played = study.game, study.played
    line = () if root is None else root.principal_variation
    return StudyView(
        id=study.id,
        game=game.spec().name,
        parameters=changed_parameters(game),
        source=study.title,
        moves=tuple(played.seen_moves()),
        is_drawn=played.start is not None,
        player=played.seat + 1,
        simulations=study.search.simulations,
        visits=0 if root is None else int(root.visits.sum()),
        value=None if root is None else float(root.value[root.to_move]),
        is_proven=root is not None and root.proven,
        line=_names(game, study.state_after(), line[: 1 if study.is_hidden else None]),
        root_alone=ROOT_ALONE if study.is_hidden else "",
        is_done=study.is_done,
        fault=study.fault,
    )


def _path(study: Study, request: Request) -> list[int]:
    """Return the actions of the query parameter `path`. Raises `IllegalMove`, `InvalidRequest`."""
    text = request.query_params.get("path", "")
    if len(text) > MOST_TEXT:
        raise InvalidRequest(f"the path has more than {MOST_TEXT} characters")
    if study.is_hidden:
        if text:
            raise InvalidRequest(f"path={text[:40]!r} leads below the root. {ROOT_ALONE}")
        return []
    return read_moves(study.game, text, start=study.state_after())


def _node_view(study: Study, path: Sequence[int], shown: tuple[TreeNode, WorldStatistics | None], limit: int) -> NodeView:
    game, state, (node, worlds) = study.game, study.state_after(path), shown
    cells = study.played.cells() if study.is_hidden else _cells(game, state)
    return NodeView(
        path=_names(game, study.state_after(), path),
        player=node.to_move + 1,
        visits=node.visits,
        legal=len(node.actions),
        worlds=0 if worlds is None else worlds.worlds,
        children=tuple(_child_view(game, state, node, worlds, index) for index in node.ranking()[:limit]),
        cells=tuple(PlaceView(**cell._asdict()) for cell in cells),
        text=study.played.text() if study.is_hidden else drawing(game, state),
    )


def _child_view(game: Game, state: State, node: TreeNode, worlds: WorldStatistics | None, index: int) -> ChildView:
    steps, action, visits = getattr(game, "action_path", None), int(node.actions[index]), int(node.visit_counts[index])
    outcomes = () if worlds is None else worlds.outcomes[index][:MOST_OUTCOMES]
    return ChildView(
        move=game.action_name(state, action),
        prior=float(node.priors[index]),
        visits=visits,
        value=_number(node.values[index]),
        exploration=float(node.exploration[index]),
        is_open=worlds is None and bool(node.is_expanded[index]),
        path=() if steps is None else tuple(steps(state, action)),
        share=None if worlds is None or worlds.worlds < 2 else visits / worlds.worlds,
        spread=None if worlds is None else _number(worlds.spreads[index]),
        outcomes=tuple(OutcomeView(name=one.name, visits=one.visits, value=one.value) for one in outcomes),
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _cells(game: Game, state: State) -> Sequence[Cell]:
    cells = getattr(game, "cells", None)
    return () if cells is None else tuple(cells(state))


def _picture(study: Study, path: Sequence[int]) -> str:
    return study.played.picture() if study.is_hidden else svg.picture(study.game, study.state_after(path))


def _names(game: Game, state: State, actions: Sequence[int]) -> tuple[str, ...]:
    """Return the notation of moves from a position."""
    now, names = state.copy(), []
    for action in actions:
        names.append(game.action_name(now, action))
        play(game, now, action)
    return tuple(names)
