"""Validation of game records: the header against the registered games, the moves against the rules.

The trainer validates thousands of records per minute while training, so all loops over moves or actions are compiled
(`replay`); Python checks only the header.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

import games
from games import core
from games.core import Game, GameSpec
from games.errors import InvalidParameters, UnknownGame
from zerofleet.contracts.naming import MAX_VERSION
from zerofleet.contracts.played import TARGET_UNIT
from zerofleet.contracts.records import replay as faults
from zerofleet.contracts.records.codec import SCHEMA, UID_PATTERN
from zerofleet.contracts.records.replay import Claims, Replayed, replay
from zerofleet.contracts.wire.records_pb2 import GameRecord
from zerofleet.errors import RecordRejected

__all__ = ["REASONS", "SearchColumns", "ValidatedGame", "validate"]

REASONS = (
    "size",  # exceeds the maximum record size
    "format",  # malformed message
    "version_skew",  # another schema or rules version
    "uid",
    "worker",
    "game",  # unknown game or parameters
    "seats",  # wrong number of seats or agents, or versions out of range
    "moves",  # illegal, after the end, too many, or the game is not over
    "result",  # scores contradict the board
    "resignation",
    "search",  # a searched move contradicts its position or itself
)
"""Every `reason` of a `RecordRejected` from decoding and validation; also the metric labels."""

_AGENT_PATTERN = re.compile(r"[A-Za-z0-9_:.,=+-]{1,200}")
_WORKER_PATTERN = re.compile(r"[A-Za-z0-9._:/@-]{1,128}")
_MAX_PARAMETERS = 32
_SCORE_SLACK = 1e-6  # scores travel as float32


@dataclass(frozen=True, slots=True)
class SearchColumns:
    """Searched moves of a game as columns: M moves, N listed actions in total, K pooled ones, P players.

    Row m lists entries `start[m] : start[m + 1]` of `actions`, `visits` and `policy`.
    """

    ply: np.ndarray  # int32 [M], ascending index into the moves
    model_version: np.ndarray  # int64 [M]; 0 for the move of an agent
    flags: np.ndarray  # uint8 [M], bitwise or of MoveFlag values
    root_value: np.ndarray  # float32 [M, P], in [-1, 1], seat order; zeros for the move of an agent
    start: np.ndarray  # int32 [M + 1]
    actions: np.ndarray  # int32 [N], legal and ascending within a row
    visits: np.ndarray  # int32 [N]
    policy: np.ndarray  # float32 [N], the policy target; sums to 1 over a row
    behaviour: np.ndarray  # float32 [M], probability with which the move played was chosen, in [0, 1]; 0: not recorded
    pool_start: np.ndarray  # int32 [M + 1]; row m lists entries pool_start[m] : pool_start[m + 1] of the two below
    pool: np.ndarray  # int32 [K], distinct legal actions, best first within a row, the move played among them
    pool_scores: np.ndarray  # float32 [K], value for the mover, in [-1, 1], not ascending within a row


@dataclass(frozen=True, slots=True)
class ValidatedGame:
    """Record whose checkable claims all hold. Arrays are read-only; n moves, S state entries."""

    record: GameRecord
    game: Game
    states: np.ndarray  # spec.state_dtype [n + 1, S]; row i is the position before move i, the last row the final position
    movers: np.ndarray  # int8 [n]; player of move i
    scores: np.ndarray  # float32 [P], seat order
    search: SearchColumns


def validate(record: GameRecord) -> ValidatedGame:
    """Check every claim of a record that needs no model; raises `RecordRejected` (see `REASONS`).

    The caller decides which model versions are acceptable and whether the uid is a duplicate. The timestamp of the record
    is unverifiable and unused.
    """
    reject = functools.partial(_reject, record)
    _check_header(record, reject)
    game, spec = _find_game(record, reject)
    _check_seats(record, spec, reject)
    _check_counts(record, spec, reject)
    claims = _claims(record, spec, reject)
    out = _workspace(len(claims.moves), len(claims.actions), spec)
    fault, where = replay(game, claims, out)
    if fault:
        _explain(fault, where, claims, game, out, reject)
    _check_result(record, out, reject)
    scores = np.array(record.scores[:], dtype=np.float32)
    states, movers, policy = out.states, out.movers[:-1], out.policy
    columns = SearchColumns(
        ply=claims.ply.astype(np.int32),
        model_version=claims.model_version,
        flags=claims.flags.astype(np.uint8),
        root_value=np.clip(claims.root_value, -1.0, 1.0),
        start=claims.start.astype(np.int32),
        actions=claims.actions.astype(np.int32),
        visits=claims.visits.astype(np.int32),
        policy=policy,
        behaviour=claims.behaviour,
        pool_start=claims.pool_start.astype(np.int32),
        pool=claims.pool.astype(np.int32),
        pool_scores=np.clip(claims.pool_scores, -1.0, 1.0),
    )
    for array in (states, movers, scores, *(getattr(columns, name) for name in SearchColumns.__slots__)):
        array.setflags(write=False)
    return ValidatedGame(record, game, states, movers, scores, columns)


def _reject(record: GameRecord, reason: str, text: str) -> NoReturn:
    raise RecordRejected(reason, f"game {record.uid[:32]!r} of worker {record.worker_id[:128]!r}: {text}")


_Reject = Callable[[str, str], NoReturn]


def _check_header(record: GameRecord, reject: _Reject) -> None:
    if record.schema != SCHEMA:
        reject("version_skew", f"record schema {record.schema}, this trainer reads {SCHEMA}; upgrade the older side")
    if not UID_PATTERN.fullmatch(record.uid):
        reject("uid", f"uid has {len(record.uid)} characters, want 32 lower-case hex digits")
    if not _WORKER_PATTERN.fullmatch(record.worker_id):
        reject("worker", f"worker id must match {_WORKER_PATTERN.pattern}")


def _find_game(record: GameRecord, reject: _Reject) -> tuple[Game, GameSpec]:
    if len(record.parameters) > _MAX_PARAMETERS:
        reject("game", f"{len(record.parameters)} parameters, at most {_MAX_PARAMETERS} are accepted")
    try:
        game, spec, canonical = _make(record.game, tuple(sorted(record.parameters.items())))
    except (UnknownGame, InvalidParameters) as error:
        reject("game", str(error)[:500])
    for name, value in record.parameters.items():
        if canonical[name] != value:
            reject("game", f"parameter {name} is written {value[:64]!r}, want {canonical[name]!r}")
    if record.rules_version != spec.rules_version:
        reject(
            "version_skew",
            f"{record.game} rules version {record.rules_version}, here {spec.rules_version}; upgrade the older side",
        )
    return game, spec


@functools.lru_cache(maxsize=64)
def _make(name: str, parameters: tuple[tuple[str, str], ...]) -> tuple[Game, GameSpec, dict[str, str]]:
    """Return a game, its spec and its parameters as an encoder writes them; cached."""
    game = games.make(name, **dict(parameters))
    return game, game.spec(), {key: str(value) for key, value in core.parameters_in(game).items()}


def _check_seats(record: GameRecord, spec: GameSpec, reject: _Reject) -> None:
    if len(record.seat_versions) != spec.num_players or len(record.scores) != spec.num_players:
        reject(
            "seats",
            f"{len(record.seat_versions)} seats and {len(record.scores)} scores, {record.game} has {spec.num_players} players",
        )
    if max(record.seat_versions) > MAX_VERSION:
        reject("seats", f"seat versions {list(record.seat_versions)}: a version is below 2^63")
    _check_agents(record, spec, reject)
    if record.learner_seat > spec.num_players:
        reject("seats", f"seat {record.learner_seat} learns, there are {spec.num_players} seats (counted from 1)")
    if record.resigned_seat > spec.num_players:
        reject("resignation", f"seat {record.resigned_seat} resigned, there are {spec.num_players} seats (counted from 1)")
    if record.resigned_seat and record.resignation_control:
        reject("resignation", "resigned in a control game, which forbids resignation")


def _check_agents(record: GameRecord, spec: GameSpec, reject: _Reject) -> None:
    """Check that agents are named for every seat or for none, and only on seats without a model."""
    agents = record.seat_agents
    if not agents:
        return
    if len(agents) != spec.num_players:
        reject("seats", f"{len(agents)} agent names, {record.game} has {spec.num_players} players (empty for a model's seat)")
    for seat, (agent, version) in enumerate(zip(agents, record.seat_versions, strict=True), start=1):
        if agent and version:
            reject("seats", f"seat {seat} names the agent {agent[:64]!r} and model version {version}; want one of them")
        if agent and not _AGENT_PATTERN.fullmatch(agent):
            reject("seats", f"the agent of seat {seat} must match {_AGENT_PATTERN.pattern}")


def _check_counts(record: GameRecord, spec: GameSpec, reject: _Reject) -> None:
    if len(record.moves) > spec.max_plies:
        reject("moves", f"{len(record.moves)} moves, {record.game} has at most {spec.max_plies}")
    if len(record.searched) > len(record.moves):
        reject("search", f"{len(record.searched)} searched moves in a game of {len(record.moves)} moves")


def _claims(record: GameRecord, spec: GameSpec, reject: _Reject) -> Claims:
    """Flatten the repeated fields of a record into arrays, checking the lengths that relate them."""
    rows: list[tuple[int, int, int, int, bool]] = []
    actions: list[int] = []
    visits: list[int] = []
    target: list[int] = []
    values: list[float] = []
    behaviour: list[float] = []
    pool: list[int] = []
    pool_scores: list[float] = []
    pool_start = [0]
    for move in record.searched:
        # Slicing a protobuf field copies at C speed; iterating does not.
        actions += move.actions[:]
        visits += move.visits[:]
        weights = move.target[:]
        target += weights or [0] * (len(actions) - len(target))
        version = move.model_version
        values += move.root_value[:] or [0.0] * (0 if version else spec.num_players)
        behaviour.append(move.behaviour)
        pool += move.pool[:]
        pool_scores += move.pool_scores[:]
        pool_start.append(len(pool))
        if len(pool) != len(pool_scores):
            reject("search", f"searched move {len(rows)}: pool of {len(move.pool)} with {len(move.pool_scores)} scores")
        rows.append((move.ply, version if version <= MAX_VERSION else -1, move.flags, len(actions), bool(weights)))
        if not len(actions) == len(visits) == len(target) or len(values) != len(rows) * spec.num_players:
            reject(
                "search",
                f"searched move {len(rows) - 1}: {len(move.actions)} actions, {len(move.visits)} visits, {len(weights)} target "
                f"weights, {len(move.root_value)} values; want equal numbers (no target: 0) and {spec.num_players} values",
            )
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 5).T
    return Claims(
        seed=np.uint64(record.seed).astype(np.int64),  # as all others call the rules; another type compiles other arithmetic
        moves=np.array(record.moves[:], dtype=np.int64),
        resigned=record.resigned_seat > 0,
        seat_versions=np.array(record.seat_versions[:], dtype=np.int64),
        seat_has_agent=np.array([bool(name) for name in record.seat_agents] or [False] * spec.num_players),
        ply=columns[0].copy(),
        model_version=columns[1].copy(),
        flags=columns[2].copy(),
        start=np.concatenate(([0], columns[3])),
        has_target=columns[4] != 0,
        actions=np.array(actions, dtype=np.int64),
        visits=np.array(visits, dtype=np.int64),
        target=np.array(target, dtype=np.int64),
        root_value=np.array(values, dtype=np.float32).reshape(len(rows), spec.num_players),
        behaviour=np.array(behaviour, dtype=np.float32),
        pool_start=np.array(pool_start, dtype=np.int64),
        pool=np.array(pool, dtype=np.int64),
        pool_scores=np.array(pool_scores, dtype=np.float32),
    )


def _workspace(plies: int, entries: int, spec: GameSpec) -> Replayed:
    return Replayed(
        states=np.zeros((plies + 1, spec.state_size), dtype=spec.state_dtype),
        movers=np.empty(plies + 1, dtype=np.int8),
        scores=np.zeros(spec.num_players, dtype=np.float32),
        policy=np.empty(entries, dtype=np.float32),
        legal=np.empty(spec.max_legal, dtype=np.int16),
    )


def _check_result(record: GameRecord, out: Replayed, reject: _Reject) -> None:
    claimed = record.scores[:]
    if not all(abs(score) <= 1.0 + _SCORE_SLACK for score in claimed):  # NaN fails
        reject("result", f"scores {claimed} are not all in [-1, 1]")
    if not record.resigned_seat:
        actual = out.scores.tolist()
        if any(abs(said - is_) > _SCORE_SLACK for said, is_ in zip(claimed, actual, strict=True)):
            reject("result", f"claimed scores {claimed}, the rules give {actual}")
        return
    seat = record.resigned_seat - 1
    if seat != out.movers[-1]:
        reject("resignation", f"seat {seat + 1} resigned when seat {out.movers[-1] + 1} was to move")
    sole_opponent = claimed[1 - seat] if len(claimed) == 2 else 1.0
    if claimed[seat] != -1.0 or sole_opponent != 1.0:
        reject(
            "resignation", f"seat {seat + 1} resigned, yet the scores are {claimed}; want -1 for it and 1 for a sole opponent"
        )


def _explain(fault: int, where: int, claims: Claims, game: Game, out: Replayed, reject: _Reject) -> NoReturn:
    """Reject a record with a message for the fault of the compiled replay."""
    if fault == faults.AFTER_END:
        reject("moves", f"move {where} (action {claims.moves[where]}) comes after the end of the game")
    if fault == faults.ILLEGAL_MOVE:
        reject("moves", f"move {where} is action {claims.moves[where]}, which is illegal; {_legal(game, out, where)}")
    if fault == faults.UNFINISHED:
        reject("moves", f"the game is not over after {where} moves, and no player resigned")
    if fault == faults.OVER_WHEN_RESIGNED:
        reject("resignation", f"a resignation after move {where}, when the game was over")
    ply = int(claims.ply[where])
    entries = slice(claims.start[where], claims.start[where + 1])
    pooled = slice(claims.pool_start[where], claims.pool_start[where + 1])
    text = {
        faults.ROW_ORDER: f"ply {ply} is out of range or does not ascend",
        faults.ROW_ACTIONS: f"actions {claims.actions[entries].tolist()} do not ascend or are not all legal at ply {ply}",
        faults.ROW_VISITS: f"more than {faults.MAX_VISITS} visits",
        faults.ROW_NO_VISITS: "no visits and no target",
        faults.ROW_TARGET: f"target sums to {claims.target[entries].sum()}, want {TARGET_UNIT} up to rounding",
        faults.ROW_VERSION: "model version is 0 or above 2^63 - 1, want a positive number, or 0 on the seat of a named agent",
        faults.ROW_SEAT: f"ply {ply} was searched on a seat without a model (version 0) or a named agent",
        faults.ROW_FLAGS: f"flags {claims.flags[where]}, want a subset of bits {faults.KNOWN_FLAGS}",
        faults.ROW_BEHAVIOUR: f"probability {claims.behaviour[where]} of the move played is not within [0, 1]",
        faults.ROW_POOL: (
            f"pool {claims.pool[pooled].tolist()} with scores {claims.pool_scores[pooled].tolist()}: want distinct legal "
            "actions, the move played among them, with scores in [-1, 1], best first"
        ),
        faults.ROW_VALUE: f"root value {claims.root_value[where].tolist()} is not within [-1, 1]",
    }[fault]
    reject("search", f"searched move {where}: {text[:500]}")


def _legal(game: Game, out: Replayed, ply: int) -> str:
    count = core.legal_actions(game, out.states[ply], out.legal)
    return f"legal: {' '.join(map(str, out.legal[:count].tolist()[:64]))}"
