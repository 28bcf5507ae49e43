"""What the clients ask for: each question as the calls that it takes, independent of how they are made.

A question is a generator. It yields a `Call`, receives the reply or the error of that call, and returns its answer. The
synchronous and the asynchronous client differ only in how they make a call and how they pause.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias, TypeVar

from zerofleet_client.contracts.champions import Champion
from zerofleet_client.contracts.messages import build_request
from zerofleet_client.contracts.opinions import Opinion, opinion_from_wire
from zerofleet_client.contracts.promotions import Candidate, Rung, champion_from_wire
from zerofleet_client.contracts.wire import evaluation_pb2, gatekeeper_pb2
from zerofleet_client.errors import ModelNotFound
from zerofleet_client.rpc.channel_options import PAGE_SIZE

__all__ = [
    "Call",
    "Question",
    "Service",
    "ask_champion",
    "ask_evaluation",
    "ask_ladder",
    "ask_promotion",
    "ask_rollback",
    "ask_versions",
    "watch_call",
]

Answer = TypeVar("Answer")


class Service(Enum):
    """Service that offers a call; the value is its name in messages to a user."""

    EVALUATION = "inference server"
    GATEKEEPER = "gatekeeper"


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the method of a service and its request."""

    service: Service
    method: str
    request: Any


Question: TypeAlias = Generator[Call, Any, Answer]


def ask_evaluation(
    game: str,
    moves: Sequence[str],
    *,
    parameters: Mapping[str, str] | None,
    model_version: int | Literal["champion"],
    simulations: int,
    seed: int,
) -> Question[Opinion]:
    """Ask for the opinion of a model on the position after `moves`."""
    request = build_request(
        evaluation_pb2.EvaluateRequest,
        game=game,
        parameters=parameters or {},
        moves=moves,
        model_version=0 if model_version == "champion" else model_version,
        simulations=simulations,
        seed=seed,
    )
    return opinion_from_wire((yield Call(Service.EVALUATION, "Evaluate", request)))


def ask_champion(model: str) -> Question[Champion | None]:
    """Ask for the champion; None before the first promotion."""
    request = build_request(gatekeeper_pb2.GetChampionRequest, game=model)
    try:
        return champion_from_wire((yield Call(Service.GATEKEEPER, "GetChampion", request)))
    except ModelNotFound:
        return None


def ask_versions(model: str) -> Question[tuple[Candidate, ...]]:
    """Ask for every submitted version, in pages; a version that changed meanwhile counts as sent last."""
    known: dict[int, Candidate] = {}
    cursor, has_more = "", True
    while has_more:
        request = build_request(gatekeeper_pb2.ListModelsRequest, game=model, page_size=PAGE_SIZE, cursor=cursor)
        reply = yield Call(Service.GATEKEEPER, "ListModels", request)
        known |= {message.version: Candidate.from_wire(message) for message in reply.models}
        cursor, has_more = reply.cursor, reply.has_more
    return tuple(known[version] for version in sorted(known))


def ask_promotion(model: str, version: int, *, reason: str, without_self_test: bool) -> Question[Champion]:
    """Ask the gatekeeper to promote a version."""
    request = build_request(
        gatekeeper_pb2.PromoteRequest, game=model, version=version, reason=reason, without_self_test=without_self_test
    )
    return champion_from_wire((yield Call(Service.GATEKEEPER, "Promote", request)))


def ask_rollback(model: str, *, reason: str) -> Question[Champion]:
    """Ask the gatekeeper to restore the previous champion."""
    request = build_request(gatekeeper_pb2.RollbackRequest, game=model, reason=reason)
    return champion_from_wire((yield Call(Service.GATEKEEPER, "Rollback", request)))


def ask_ladder(model: str) -> Question[tuple[Rung, ...]]:
    """Ask for the ratings, strongest first."""
    request = build_request(gatekeeper_pb2.GetLadderRequest, game=model)
    reply = yield Call(Service.GATEKEEPER, "GetLadder", request)
    return tuple(Rung.from_wire(message) for message in reply.rungs)


def watch_call(model: str) -> Call:
    """Return the endless call that sends the champion and its successors."""
    return Call(Service.GATEKEEPER, "WatchChampion", build_request(gatekeeper_pb2.WatchChampionRequest, game=model))
