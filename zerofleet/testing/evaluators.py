"""Fake evaluator, and a contract suite for users' own evaluators.

    async def test_my_evaluator_keeps_the_contract():
        await check_evaluator(MyEvaluator(), games.make("tic_tac_toe"), version=ModelVersion(7))

A violation raises an `AssertionError` that names the broken rule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from games.core import Game, GameSpec
from zerofleet.contracts.encodings import sample_positions
from zerofleet.errors import InvalidRequest, ModelNotFound
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion

__all__ = ["FunctionEvaluator", "check_evaluator"]

SUM_TOLERANCE = 0.005
"""Rounding error of a float16 policy's sum."""
BATCH_TOLERANCE = 0.05
"""Maximum effect of the other rows of a batch on a row, from the order of additions in reduced precision."""
_GAMES = 6


class FunctionEvaluator:
    """Evaluator from a function `(batch, version) -> (policy [B, L], value [B, P])`, whose shapes it checks.

    Extra heads, [B, W] each, follow in the same tuple. Like a server, it raises `InvalidRequest` for a batch that requests
    more of them.
    """

    def __init__(self, function: Callable[[LeafBatch, ModelVersion], tuple[np.ndarray, ...]]) -> None:
        self._function = function

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: never suspends."""
        policy, value, *extra_heads = self._function(batch, version)
        if policy.shape != batch.legal.shape or value.ndim != 2 or len(value) != len(batch):
            raise InvalidRequest(
                f"the function returned policy {policy.shape} and value {value.shape};"
                f" want {batch.legal.shape} and ({len(batch)}, players)"
            )
        if len(extra_heads) < batch.extra_heads or any(head.ndim != 2 or len(head) != len(batch) for head in extra_heads):
            raise InvalidRequest(
                f"the function returned extra heads {[head.shape for head in extra_heads]};"
                f" want {batch.extra_heads} of ({len(batch)}, width)"
            )
        asked = tuple(extra_heads[: batch.extra_heads])
        return Evaluation(policy.astype(np.float16, copy=False), value.astype(np.float32, copy=False), version, asked)


async def check_evaluator(
    evaluator: Evaluator,
    game: Game,
    *,
    version: ModelVersion,
    extra_heads: int | None = 0,
    missing: ModelVersion | None = None,
) -> None:
    """Check an evaluator on positions of a game; raises `AssertionError` for a violation of the contract.

    version      an existing version
    extra_heads  number of extra heads of that version; None: as many as requested
    missing      a missing version, None if every version exists

    Cancellation: a request may be in progress.
    """
    spec = game.spec()
    batch = LeafBatch(*sample_positions(game, games=_GAMES, seed=0))
    if extra_heads is None:
        batch = replace(batch, extra_heads=2)
    elif extra_heads:
        batch = replace(batch, extra_heads=extra_heads)
    await _check_rows(evaluator, batch, spec, version)
    await _check_no_extra_heads_unasked(evaluator, batch, version)
    await _check_empty(evaluator, batch, version)
    await _check_cancellation(evaluator, batch, version)
    if extra_heads is not None:
        await _check_refusal(
            evaluator,
            replace(batch, extra_heads=extra_heads + 1),
            version,
            InvalidRequest,
            "more extra heads than the model has",
        )
    if missing is not None:
        await _check_refusal(evaluator, batch, missing, ModelNotFound, "a missing version")


async def _check_rows(evaluator: Evaluator, batch: LeafBatch, spec: GameSpec, version: ModelVersion) -> None:
    """Check the evaluation of a batch, and that each row keeps its place."""
    asked = LeafBatch(batch.states.copy(), batch.legal.copy(), batch.extra_heads)
    found = await evaluator.evaluate(asked, version=version)
    _check_evaluation(found, batch, spec, version)
    before = [array.copy() for array in _arrays(found)]
    asked.states[:], asked.legal[:] = 0, -1
    same = all(np.array_equal(now, then) for now, then in zip(_arrays(found), before, strict=True))
    _require(same, "an evaluation does not change when the next step of the search overwrites the batch")
    turned = await evaluator.evaluate(LeafBatch(batch.states[::-1], batch.legal[::-1], batch.extra_heads), version=version)
    pairs = zip(_arrays(turned), before, strict=True)
    near = all(np.allclose(now[::-1], then, atol=BATCH_TOLERANCE) for now, then in pairs)
    _require(near, "each position is evaluated in its own row, independently of the other rows")


def _check_evaluation(found: Evaluation, batch: LeafBatch, spec: GameSpec, version: ModelVersion) -> None:
    policy, value, listed = found.policy, found.value, batch.legal >= 0
    _require(found.version == version, f"the requested version {version} replies, not {found.version}")
    _require(policy.dtype == np.float16, f"the policy is float16, not {policy.dtype}")
    _require(policy.shape == batch.legal.shape, f"the policy has the shape {batch.legal.shape} of legal, not {policy.shape}")
    _require(bool(np.isfinite(policy).all() and (policy >= 0.0).all()), "probabilities are finite and not negative")
    _require(bool((policy[~listed] == 0.0).all()), "the policy is 0 at padding")
    sums = policy.sum(axis=1, dtype=np.float64)
    _require(bool((np.abs(sums - 1.0) <= SUM_TOLERANCE).all()), f"each row of the policy sums to 1, not {sums.tolist()}")
    wanted = (len(batch), spec.num_players)
    _require(value.dtype == np.float32, f"the value is float32, not {value.dtype}")
    _require(value.shape == wanted, f"the value has the shape {wanted}, not {value.shape}")
    _require(bool((np.abs(value) <= 1.0).all()), "expected scores are in [-1, 1]")
    _check_extra_heads(found, batch)


def _check_extra_heads(found: Evaluation, batch: LeafBatch) -> None:
    count = len(found.extra_heads)
    _require(count == batch.extra_heads, f"{batch.extra_heads} requested extra heads are returned, not {count}")
    for head in found.extra_heads:
        _require(head.ndim == 2 and len(head) == len(batch), f"an extra head has the shape [{len(batch)}, W], not {head.shape}")
        _require(head.dtype in (np.float16, np.float32), f"an extra head is float16 or float32, not {head.dtype}")
        _require(bool(np.isfinite(head).all()), "extra heads are finite")


async def _check_no_extra_heads_unasked(evaluator: Evaluator, batch: LeafBatch, version: ModelVersion) -> None:
    plain = replace(batch, extra_heads=0)
    _check_extra_heads(await evaluator.evaluate(plain, version=version), plain)


async def _check_empty(evaluator: Evaluator, batch: LeafBatch, version: ModelVersion) -> None:
    empty = LeafBatch(batch.states[:0], batch.legal[:0], batch.extra_heads)
    found = await evaluator.evaluate(empty, version=version)
    _require(found.policy.shape == empty.legal.shape, f"no positions have a policy of {empty.legal.shape}")
    _require(len(found.value) == 0, "no positions have no values")
    _check_extra_heads(found, empty)


async def _check_cancellation(evaluator: Evaluator, batch: LeafBatch, version: ModelVersion) -> None:
    """Cancel a started request, and evaluate again."""
    task = asyncio.ensure_future(evaluator.evaluate(batch, version=version))
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    again = await evaluator.evaluate(batch, version=version)
    _require(len(again.policy) == len(batch), "a batch can be evaluated again after its request was cancelled")


async def _check_refusal(
    evaluator: Evaluator, batch: LeafBatch, version: ModelVersion, error: type[Exception], what: str
) -> None:
    try:
        await evaluator.evaluate(batch, version=version)
    except error:
        return
    raise AssertionError(f"{what} is refused with {error.__name__}, but an evaluation was returned")


def _arrays(found: Evaluation) -> tuple[np.ndarray, ...]:
    return (found.policy, found.value, *found.extra_heads)


def _require(kept: bool, promise: str) -> None:
    if not kept:
        raise AssertionError(promise)
