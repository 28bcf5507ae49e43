"""`zerofleet.v1.Evaluation` over gRPC: convert, call the analyst, convert."""

from __future__ import annotations

from typing import Any

import grpc

from inference_server.analysis import Analyst, Question
from inference_server.methods import unary_method
from zerofleet.contracts.wire import evaluation_pb2 as wire
from zerofleet.rpc.evaluation_client import Opinion

__all__ = ["SERVICE", "handler"]

SERVICE = "zerofleet.v1.Evaluation"


def handler(analyst: Analyst) -> grpc.GenericRpcHandler:
    """Return the service's handler for a grpc server."""

    async def evaluate(request: Any, context: Any) -> Any:
        question = Question(
            game=request.game,
            parameters=dict(request.parameters),
            moves=list(request.moves),
            version=request.model_version,
            simulations=request.simulations,
            seed=request.seed,
        )
        opinion = await analyst.opinion(question, patience_s=context.time_remaining())
        return _reply(request.game, opinion)

    methods = {"Evaluate": unary_method(evaluate, wire.EvaluateRequest, wire.EvaluateReply)}
    return grpc.method_handlers_generic_handler(SERVICE, methods)


def _reply(game: str, opinion: Opinion) -> wire.EvaluateReply:
    moves = [
        wire.EvaluatedMove(move=each.move, action=each.action, prior=each.prior, visits=each.visits, value=each.value)
        for each in opinion.moves
    ]
    return wire.EvaluateReply(
        game=game,
        model_version=opinion.model_version,
        to_move=opinion.to_move,
        value=opinion.value,
        moves=moves,
        principal_variation=opinion.principal_variation,
        is_over=opinion.is_over,
    )
