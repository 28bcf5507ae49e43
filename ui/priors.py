"""Endpoint of the priors of a model at a position of a stored game: records hold visits and targets, and no priors.

The model evaluates in an inference server, in the view of the seat to move: the run's own if it serves the version, since there
is one request, else one as for a study. The few searches of one simulation that are kept take no place of a tree that a person
has open.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from pydantic import BaseModel
from starlette.requests import Request

from ui.catalogue import Catalogue
from ui.endpoints import Endpoint, StrictValue, read_body
from ui.numbers import position_of
from ui.studies import Studies, Study, Wish
from ui.studying import stored_position
from zerofleet.errors import Unavailable

__all__ = ["PriorEndpoints"]


class PriorsWish(StrictValue):
    """Model to ask."""

    model: str = "champion"
    """champion or model:N of the run."""


class PriorOfMove(StrictValue):
    """Legal move."""

    move: str
    prior: float
    """Probability from the model; they sum to 1 over the legal moves."""


class PriorsView(StrictValue):
    """Priors of a model at a position."""

    source: str
    """Model with its version, such as `champion 7`."""
    player: int
    """Player to move, counted from 1, in whose view the model sees the position."""
    moves: tuple[PriorOfMove, ...]
    """Every legal move, the most probable first."""


class PriorEndpoints:
    """Handler over searches of one simulation."""

    def __init__(self, catalogue: Catalogue, asked: Studies) -> None:
        """Create it; `asked` are studies of its own."""
        self._catalogue = catalogue
        self._asked = asked

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoint."""
        place = "/runs/{run}/games/{uid}/priors/{ply}"
        return (
            Endpoint(place, self.priors, "Priors of a model before a move of a stored game", PriorsView, "POST", PriorsWish),
        )

    async def priors(self, request: Request) -> BaseModel:
        """Return the priors of a model at a position of a stored game."""
        run, uid = await asyncio.to_thread(self._catalogue.get, request.path_params["run"]), request.path_params["uid"]
        wish = await read_body(request, PriorsWish)
        _, stored = await asyncio.to_thread(run.stored, uid)
        played = await asyncio.to_thread(stored_position, stored, position_of(request, len(stored.states)))
        study = await self._asked.open(Wish(played, run, wish.model, simulations=1))
        return await asyncio.to_thread(_view, study, await _priors(study))


async def _priors(study: Study) -> dict[int, float]:
    """Return the priors by action, when the root is evaluated. Raises `Unavailable`."""
    async with contextlib.aclosing(study.follow()) as roots:
        root = [one async for one in roots][-1]
    if root is None:
        raise Unavailable(study.fault or "the search made room for newer ones; ask again")
    return dict(zip(root.actions.tolist(), root.priors.tolist(), strict=True))


def _view(study: Study, priors: dict[int, float]) -> PriorsView:
    game, state = study.game, study.state_after()
    ranked = sorted(priors.items(), key=lambda one: -one[1])
    moves = tuple(PriorOfMove(move=game.action_name(state, action), prior=prior) for action, prior in ranked)
    return PriorsView(source=study.title, player=study.played.seat + 1, moves=moves)
