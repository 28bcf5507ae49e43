"""Evaluators of positions: the protocol, its fakes, and the client of an inference server."""

from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion

__all__ = ["Evaluation", "Evaluator", "LeafBatch", "ModelVersion"]
