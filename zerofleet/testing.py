"""Fakes and helpers for tests of this project and of games and agents built on it."""

from zerofleet.evaluators.fakes import FunctionEvaluator, UniformEvaluator, uniform_answer, uniform_policy

__all__ = ["FunctionEvaluator", "UniformEvaluator", "uniform_answer", "uniform_policy"]
