"""`zerofleet.v1.Evaluation` over gRPC: convert, call the analyst, convert."""

from __future__ import annotations

from typing import Any

import grpc

from inference_server.analysis import Analyst, Question
from inference_server.methods import unary_method
from zerofleet.contracts.opinions import opinion_to_wire
from zerofleet.contracts.wire import evaluation_pb2 as wire

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
        return opinion_to_wire(opinion, game=request.game)

    methods = {"Evaluate": unary_method(evaluate, wire.EvaluateRequest, wire.EvaluateReply)}
    return grpc.method_handlers_generic_handler(SERVICE, methods)
