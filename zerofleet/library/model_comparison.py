"""Two versions of a run beside each other: manifests, their own match, and where their policies and values differ most.

    versions = compare_versions(run, 3, 7)
    async with models_of(run, (3, 7)) as network:
        compared = await compare_opinions(sampled_positions(run, Sample()), (network, network), (3, 7), seed=0)
    compared.view("policy", limit=20)

The networks evaluate alone, without a search. `zerofleet models compare --json` prints these values, and the pages of
`zerofleet ui` receive the same ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from zerofleet.contracts.naming import is_version
from zerofleet.errors import CorruptModel, InvalidRequest
from zerofleet.evaluators.base import Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator
from zerofleet.evaluators.opening import evaluating
from zerofleet.library.chosen_positions import ChosenPositions
from zerofleet.library.match_list import MatchRow
from zerofleet.library.model_list import ModelDetail
from zerofleet.library.opinion_figures import MeanFigure, divergence, mean_figure, normalised, total_variation
from zerofleet.library.run_files import OpenRun
from zerofleet.library.times import time_text
from zerofleet.library.values import Value
from zerofleet.service.settings import open_run_store
from zerofleet.supervisor.borrowed import champion_version, served

__all__ = [
    "MOST_ROWS",
    "SERVER",
    "ComparedOpinions",
    "ComparedSetting",
    "ModelComparison",
    "MovePriors",
    "Network",
    "OpinionComparison",
    "Order",
    "PositionDifference",
    "VersionComparison",
    "compare_opinions",
    "compare_versions",
    "in_this_process",
    "models_of",
    "version_named",
]

Order = Literal["policy", "value"]

MOST_ROWS = 100
MOVES_SHOWN = 3  # of each version
ROWS_AT_ONCE = 64  # of a request, between which a comparison can be cancelled
UNIFORM_WITHIN = 1e-3  # of a float16 probability
_BOUNDS = {"total_variation": (0.0, 1.0), "same_best": (0.0, 1.0), "value_gap": (0.0, 2.0), "value_shift": (-2.0, 2.0)}
HERE, SERVER = "this process", "an inference server"


class ComparedSetting(Value):
    """Entry of the manifests, such as `network: blocks`; None where a version lacks it."""

    name: str
    first: str | None
    second: str | None
    differs: bool


class VersionComparison(Value):
    """Two versions with their manifests and the matches between them."""

    model: str
    first: ModelDetail
    second: ModelDetail
    settings: tuple[ComparedSetting, ...]
    matches: tuple[MatchRow, ...]
    """Matches of the gate between the two, newest first, each from the point of view of its `version`; most pairs have none."""


class MovePriors(Value):
    """Move with its probability by both policies."""

    move: str
    first: float
    second: float


class PositionDifference(Value):
    """Position with the outputs of both versions; values in [-1, 1] are for the player to move."""

    uid: str
    """Uid of its stored game; empty in a line of moves."""
    ply: int
    """Number of moves before the position."""
    moves: tuple[str, ...]
    """Moves to the position, in a line of moves alone."""
    player: int
    """Player to move, counted from 1."""
    legal: int
    """Number of legal moves."""
    total_variation: float
    """Half the sum of the differences of all probabilities, in [0, 1]."""
    divergence: float
    """Kullback-Leibler divergence of the first policy from the second, in nats."""
    reverse_divergence: float
    """Divergence of the second policy from the first, in nats."""
    first_value: float
    second_value: float
    first_best: str
    """Move with the highest prior of the first version."""
    second_best: str
    priors: tuple[MovePriors, ...]
    """Moves with the highest priors of either version, by the higher of both."""


class OpinionComparison(Value):
    """Difference of two versions over positions, the most different ones first."""

    first: int
    second: int
    source: Literal["stored games", "moves"]
    seed: int | None
    """Seed of the sample; None for a line of moves."""
    games: int
    """Games from which positions were taken; 1 for a line of moves."""
    before: int | None
    """Number of a game: all games of the sample are older. With the seed it determines the sample; None for a line of moves."""
    positions: int
    """Number of different positions."""
    evaluated_in: str
    """Place of the evaluation: this process, or an inference server."""
    has_policies: bool
    """False if both policies are uniform in every position, as those of networks without a policy head."""
    total_variation: MeanFigure
    divergence: MeanFigure
    """Divergence of the first policy from the second, in nats."""
    reverse_divergence: MeanFigure
    same_best: MeanFigure
    """Share of positions in which both prefer the same move."""
    value_gap: MeanFigure
    """Absolute difference of the values."""
    value_shift: MeanFigure
    """Second value minus first value: above 0 the second version is the more hopeful one."""
    order: Order
    """Measure of the rows: total variation of the policies, or the gap of the values."""
    rows: tuple[PositionDifference, ...]


class ModelComparison(Value):
    """Two versions, and their difference over positions."""

    versions: VersionComparison
    opinions: OpinionComparison


class Network(NamedTuple):
    """Evaluator of a version."""

    evaluator: Evaluator
    place: str
    """Place of its evaluation, in words."""


@dataclass(frozen=True, slots=True)
class ComparedOpinions:
    """Outputs of two versions in the same positions. Axes: N positions, L maximum legal actions."""

    chosen: ChosenPositions
    versions: tuple[int, int]
    seed: int | None
    place: str
    policies: tuple[np.ndarray, np.ndarray]  # float32 [N, L], sum to 1 over the legal actions
    values: tuple[np.ndarray, np.ndarray]  # float64 [N], for the player to move
    distance: np.ndarray  # float64 [N]: total variation
    divergences: tuple[np.ndarray, np.ndarray]  # float64 [N], in nats: of the first from the second, and reverse

    def view(self, order: Order | None = None, *, limit: int = MOST_ROWS) -> OpinionComparison:
        """Return the figures with at most `limit` rows by `order`; None: by policy, by value without policies.

        Raises `InvalidRequest` for a number of rows out of range.
        """
        if not 0 <= limit <= MOST_ROWS:
            raise InvalidRequest(f"limit={limit} is out of range; give an integer from 0 to {MOST_ROWS}")
        has_policies = not all(map(self._is_uniform, self.policies))
        order = order or ("policy" if has_policies else "value")
        gap, shift = np.abs(self.values[1] - self.values[0]), self.values[1] - self.values[0]
        measure = self.distance if order == "policy" else gap
        best = [np.argmax(policy, axis=1) for policy in self.policies]
        figures = {
            "total_variation": self.distance,
            "divergence": self.divergences[0],
            "reverse_divergence": self.divergences[1],
            "same_best": (best[0] == best[1]).astype(np.float64),
            "value_gap": gap,
            "value_shift": shift,
        }
        is_sample = self.chosen.source == "stored games"
        means = {
            name: mean_figure(of, self.chosen.group, is_sample=is_sample, within=_BOUNDS.get(name, (0.0, np.inf)))
            for name, of in figures.items()
        }
        return OpinionComparison(
            first=self.versions[0],
            second=self.versions[1],
            source=self.chosen.source,
            seed=self.seed,
            games=self.chosen.games,
            before=self.chosen.before,
            positions=len(self.chosen),
            evaluated_in=self.place,
            has_policies=has_policies,
            order=order,
            rows=tuple(self._row(int(index)) for index in np.argsort(-measure, kind="stable")[:limit]),
            **means,
        )

    def _is_uniform(self, policy: np.ndarray) -> bool:
        listed = self.chosen.legal >= 0
        uniform = listed / listed.sum(axis=1, keepdims=True)
        return bool((np.abs(policy - uniform) <= UNIFORM_WITHIN * uniform).all())

    def _row(self, index: int) -> PositionDifference:
        one, game = self.chosen.positions[index], self.chosen.game
        actions = [int(action) for action in self.chosen.legal[index] if action >= 0]
        first, second = (policy[index, : len(actions)] for policy in self.policies)
        names = [game.action_name(one.state, action) for action in actions]
        places = {int(place) for of in (first, second) for place in np.argsort(-of, kind="stable")[:MOVES_SHOWN]}
        shown = sorted(places, key=lambda place: (-max(first[place], second[place]), place))
        return PositionDifference(
            uid=one.uid,
            ply=one.ply,
            moves=one.moves,
            player=one.seat + 1,
            legal=len(actions),
            total_variation=float(self.distance[index]),
            divergence=float(self.divergences[0][index]),
            reverse_divergence=float(self.divergences[1][index]),
            first_value=float(self.values[0][index]),
            second_value=float(self.values[1][index]),
            first_best=names[int(first.argmax())],
            second_best=names[int(second.argmax())],
            priors=tuple(
                MovePriors(move=names[place], first=float(first[place]), second=float(second[place])) for place in shown
            ),
        )


def version_named(run: OpenRun, text: str) -> int:
    """Return the version that `champion`, `7` or `model:7` denotes. Raises `InvalidRequest`, `ModelNotFound`."""
    if text == "champion":
        return champion_version(run.paths, run.game)
    number = text.removeprefix("model:")
    if not is_version(number):
        raise InvalidRequest(f"{text[:40]!r} is not a version; give a positive integer of `zerofleet models list`, or champion")
    return int(number)


def compare_versions(run: OpenRun, first: int, second: int) -> VersionComparison:
    """Return the manifests of two versions side by side, and the matches between them.

    Raises `InvalidRequest` for a version with itself, `ModelNotFound`, `CorruptModel`.
    """
    if first == second:
        raise InvalidRequest(f"version {first} cannot be compared with itself; choose another version")
    about = run.version(first), run.version(second)
    settings = [_settings(run, one) for one in about]
    names = list(dict.fromkeys([*settings[0], *settings[1]]))
    return VersionComparison(
        model=run.model,
        first=about[0],
        second=about[1],
        settings=tuple(_setting(name, settings[0].get(name), settings[1].get(name)) for name in names),
        matches=tuple(row for row in run.gate().matches.matches if {row.version, row.opponent} == {first, second}),
    )


async def compare_opinions(
    chosen: ChosenPositions,
    networks: Sequence[Network],
    versions: tuple[int, int],
    *,
    seed: int | None = None,
    advance: Callable[[int], None] = lambda positions: None,
) -> ComparedOpinions:
    """Evaluate positions with two versions.

    Args:
        chosen: Positions.
        networks: Evaluators of the first version and of the second.
        versions: The two versions.
        seed: Seed of the sample, for the record.
        advance: Called with the number of positions after each evaluated batch, for a display of progress.

    Propagates the errors of the evaluators. Raises `CorruptModel` for outputs that are not finite.
    Cancellation: nothing is kept; a batch in progress is completed unused.
    """
    policies, values = [], []
    for network, version in zip(networks, versions, strict=True):
        policy, value = await _evaluated(chosen, network, ModelVersion(version), advance)
        policies.append(policy)
        values.append(value)
    places = dict.fromkeys(network.place for network in networks)
    return ComparedOpinions(
        chosen=chosen,
        versions=versions,
        seed=seed,
        place=" and ".join(places),
        policies=(policies[0].astype(np.float32), policies[1].astype(np.float32)),
        values=(values[0], values[1]),
        distance=total_variation(*policies),
        divergences=(divergence(policies[0], policies[1]), divergence(policies[1], policies[0])),
    )


async def in_this_process(run: OpenRun, versions: Sequence[int]) -> Network | None:
    """Return an evaluator without a server, None unless every version is a network that this process evaluates.

    Raises `ModelNotFound`, `CorruptModel`. Cancellation: what has begun in a thread completes unused.
    """
    local = InProcessEvaluator(open_run_store(run.paths), run.game)
    try:
        for version in versions:
            await asyncio.to_thread(local.load, ModelVersion(version))
    except InvalidRequest:  # a network of another kind, for which there is the server
        return None
    return Network(local, HERE)


@contextlib.asynccontextmanager
async def models_of(run: OpenRun, versions: Sequence[int]) -> AsyncIterator[Network]:
    """Yield an evaluator of the versions: this process for perceptrons, else an inference server that is started.

    Raises `ModelNotFound`, `CorruptModel`, `Unavailable`. Cancellation: the server is stopped.
    """
    local = await in_this_process(run, versions)
    if local is not None:
        yield local
        return
    async with served(run.paths, run.game, versions=versions) as address, evaluating(address, run.game) as evaluator:
        yield Network(evaluator, SERVER)


async def _evaluated(
    chosen: ChosenPositions, network: Network, version: ModelVersion, advance: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the policy float64 [N, L] and the value of the player to move float64 [N]."""
    policies, values = [], []
    for start in range(0, len(chosen), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        answer = await network.evaluator.evaluate(LeafBatch(chosen.states[rows], chosen.legal[rows]), version=version)
        policies.append(normalised(answer.policy, chosen.legal[rows]))
        values.append(answer.value[:, 0].astype(np.float64))
        advance(len(answer.policy))
        await asyncio.sleep(0)  # an evaluator in this process never waits
    policy, value = np.concatenate(policies), np.concatenate(values)
    if not (np.isfinite(policy).all() and np.isfinite(value).all()):
        raise CorruptModel(f"version {version} answers with numbers that are not finite; export it again")
    return policy, value


def _settings(run: OpenRun, about: ModelDetail) -> dict[str, str]:
    """Return the entries of a manifest by name, as text."""
    manifest = open_run_store(run.paths).manifest(run.model, about.version)
    return {
        "parent version": str(manifest.parent_version or "none"),
        "train steps": f"{manifest.train_steps:,}",
        "games seen": f"{manifest.games_seen:,}",
        "created at": time_text(manifest.created_at_ms) or "",
        "rules version": str(manifest.rules_version),
        "encoding": manifest.encoder,
        "planes": " x ".join(map(str, manifest.planes)),
        "heads": ", ".join(manifest.heads),
        **{f"game: {name}": value for name, value in about.parameters.items()},
        **{f"network: {name}": value for name, value in about.network.items()},
        **{f"file: {one.name}": f"{one.size_bytes:,} bytes, sha256 {one.sha256[:16]}" for one in about.files},
    }


def _setting(name: str, first: str | None, second: str | None) -> ComparedSetting:
    return ComparedSetting(name=name, first=first, second=second, differs=first != second)
