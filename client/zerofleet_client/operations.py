"""Operations of the clients: each as the calls that it takes, independent of how calls are made.

An operation is a generator. It yields a `Call`, receives its reply or its error, and returns the result. The synchronous and
the asynchronous client differ only in how they make a call and how they pause.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias, TypeVar

from zerofleet_client.contracts.champions import Champion
from zerofleet_client.contracts.messages import build_request, texts_of
from zerofleet_client.contracts.opinions import Opinion, opinion_from_wire
from zerofleet_client.contracts.promotions import Candidate, Rung, champion_from_wire
from zerofleet_client.contracts.wire import evaluation_pb2, gatekeeper_pb2
from zerofleet_client.errors import ModelNotFound
from zerofleet_client.rpc.channel_options import PAGE_SIZE

__all__ = [
    "Call",
    "Operation",
    "Service",
    "champion",
    "evaluate",
    "ladder",
    "promote",
    "rollback",
    "versions",
    "watch_call",
]

Result = TypeVar("Result")


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


Operation: TypeAlias = Generator[Call, Any, Result]


def evaluate(
    game: str,
    moves: Sequence[str],
    *,
    parameters: Mapping[str, str | float] | None,
    model_version: int | Literal["champion"],
    simulations: int,
    seed: int,
) -> Operation[Opinion]:
    """Evaluate the position after `moves` by a model."""
    request = build_request(
        evaluation_pb2.EvaluateRequest,
        game=game,
        parameters=texts_of(parameters),
        moves=moves,
        model_version=0 if model_version == "champion" else model_version,
        simulations=simulations,
        seed=seed,
    )
    return opinion_from_wire((yield Call(Service.EVALUATION, "Evaluate", request)))


def champion(model: str) -> Operation[Champion | None]:
    """Return the champion, None before the first promotion."""
    request = build_request(gatekeeper_pb2.GetChampionRequest, game=model)
    try:
        return champion_from_wire((yield Call(Service.GATEKEEPER, "GetChampion", request)))
    except ModelNotFound:
        return None


def versions(model: str) -> Operation[tuple[Candidate, ...]]:
    """Return every submitted version, from pages; of a version that is sent twice the later form counts."""
    known: dict[int, Candidate] = {}
    cursor, has_more = "", True
    while has_more:
        request = build_request(gatekeeper_pb2.ListModelsRequest, game=model, page_size=PAGE_SIZE, cursor=cursor)
        reply = yield Call(Service.GATEKEEPER, "ListModels", request)
        known |= {message.version: Candidate.from_wire(message) for message in reply.models}
        cursor, has_more = reply.cursor, reply.has_more
    return tuple(known[version] for version in sorted(known))


def promote(model: str, version: int, *, reason: str, without_self_test: bool) -> Operation[Champion]:
    """Promote a version and return the new champion."""
    request = build_request(
        gatekeeper_pb2.PromoteRequest, game=model, version=version, reason=reason, without_self_test=without_self_test
    )
    return champion_from_wire((yield Call(Service.GATEKEEPER, "Promote", request)))


def rollback(model: str, *, reason: str) -> Operation[Champion]:
    """Restore the previous champion and return it."""
    request = build_request(gatekeeper_pb2.RollbackRequest, game=model, reason=reason)
    return champion_from_wire((yield Call(Service.GATEKEEPER, "Rollback", request)))


def ladder(model: str) -> Operation[tuple[Rung, ...]]:
    """Return the ratings, strongest first."""
    request = build_request(gatekeeper_pb2.GetLadderRequest, game=model)
    reply = yield Call(Service.GATEKEEPER, "GetLadder", request)
    return tuple(Rung.from_wire(message) for message in reply.rungs)


def watch_call(model: str) -> Call:
    """Return the endless call that sends the champion and its successors."""
    return Call(Service.GATEKEEPER, "WatchChampion", build_request(gatekeeper_pb2.WatchChampionRequest, game=model))
