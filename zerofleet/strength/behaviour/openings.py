"""Openings by version: priors of a model's first moves, and how often they were played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from games.core import Game
from games.positions import encode_for, legal, new_state
from zerofleet.evaluators.base import Evaluator, LeafBatch, ModelVersion
from zerofleet.strength.behaviour.finished import FinishedGame
from zerofleet.strength.behaviour.tables import BehaviourTable, Cell, Column, count_of

__all__ = ["FirstPosition", "ask", "openings_table", "played_first"]


@dataclass(frozen=True, slots=True)
class FirstPosition:
    """Outputs of one version in the initial position."""

    priors: Mapping[int, float]
    """Probability of each legal action."""
    value: tuple[float, ...]
    """Expected score of each player, in seat order, in [-1, 1]."""


async def ask(game: Game, evaluator: Evaluator, versions: Iterable[int]) -> dict[int, FirstPosition]:
    """Return the outputs of each version in the initial position. Propagates the errors of the evaluator.

    Cancellation: nothing is kept.
    """
    spec = game.spec()
    state = new_state(game)
    actions = legal(game, state)
    listed = np.full((1, spec.max_legal), -1, dtype=np.int16)
    listed[0, : len(actions)] = actions
    batch = LeafBatch(encode_for(game, state, 0)[None, :], listed)
    found = {}
    for version in versions:
        answer = await evaluator.evaluate(batch, version=ModelVersion(version))
        priors = dict(zip(actions, answer.policy[0, : len(actions)].astype(float).tolist(), strict=True))
        found[version] = FirstPosition(priors, tuple(answer.value[0].astype(float).tolist()))
    return found


def played_first(games: Iterable[FinishedGame]) -> dict[int, Counter[int]]:
    """Return the number of games in which each action was chosen first, by version; games with a random opening have none."""
    found: dict[int, Counter[int]] = {}
    for finished in games:
        chosen = found.setdefault(finished.version, Counter())
        if finished.moves and not finished.random_plies:
            chosen[finished.moves[0]] += 1
    return found


def openings_table(
    game: Game, played: Mapping[int, Counter[int]], asked: Mapping[int, FirstPosition], *, top: int
) -> BehaviourTable:
    """Return the first moves of each version, likeliest first and at most `top`.

    Args:
        game: The game; its deal must not decide the legal first moves.
        played: Games by version and first action.
        asked: Outputs of the versions that are stored; others have no priors.
        top: Most moves of a version.
    """
    state = new_state(game)
    rows: list[tuple[Cell, ...]] = []
    notes = []
    for version in sorted(played.keys() | asked.keys()):
        counts = played.get(version, Counter())
        first = asked.get(version)
        priors = {} if first is None else first.priors
        total = counts.total()
        ranked = sorted(priors.keys() | counts.keys(), key=lambda action: (-priors.get(action, 0.0), -counts[action], action))
        for action in ranked[:top]:
            prior = None if first is None else 100.0 * priors.get(action, 0.0)
            share = count_of(counts[action], total) if total else None
            rows.append((version, game.action_name(state, action), prior, counts[action], share))
        if first is not None:
            said = ", ".join(f"{value:+.3f}" for value in first.value)
            notes.append(f"version {version}: values of the initial position by seat {said}")
    return BehaviourTable(
        name="openings",
        title="Openings by version",
        columns=(
            Column("version", "version"),
            Column("move", "first move"),
            Column("prior", "prior", "%", digits=2),
            Column("games", "games"),
            Column("played", "played", "% of games"),
        ),
        rows=tuple(rows),
        games=sum(counts.total() for counts in played.values()),
        notes=tuple(notes),
    )
