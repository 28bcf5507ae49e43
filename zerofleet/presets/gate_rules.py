"""Rules of a gate, from its settings: how models play, and when a match stops; pages draw the bounds."""

from __future__ import annotations

from zerofleet.contracts.gate_events import ModelPlay
from zerofleet.presets.parts import GateSettings
from zerofleet.strength.matches import FixedGames, SequentialTest, ShareOfPoints, StoppingRule
from zerofleet.strength.ratings import Sprt

__all__ = ["model_play", "stopping_rule", "trial_rule"]


def model_play(gate: GateSettings) -> ModelPlay:
    """Return how models choose their moves in a match that begins now; a match that is resumed keeps what it began with."""
    return ModelPlay(simulations=gate.simulations, leaves_per_game=gate.leaves_per_game, search=gate.search)


def stopping_rule(gate: GateSettings) -> StoppingRule:
    """Return the rule of gate matches. Raises `ConfigurationError` for an impossible test."""
    if gate.mode == "share":
        return ShareOfPoints(gate.share, gate.max_pairs)
    if gate.mode == "sprt":
        return SequentialTest(Sprt(gate.elo0, gate.elo1, gate.alpha, gate.beta))
    if gate.mode == "watch":
        return trial_rule(gate)
    return FixedGames()


def trial_rule(gate: GateSettings) -> SequentialTest:
    """Return the test of versions that were promoted at once. Raises as `stopping_rule`."""
    return SequentialTest(Sprt(gate.watch_elo0, gate.watch_elo1, gate.alpha, gate.beta))
