"""Tests of the laptop's gate, and the bound on their errors."""

import math

from games.core import make
from zerofleet.presets import preset
from zerofleet.presets.gate_rules import stopping_rule

GATE = preset(make("connect_four"), "laptop").gate
LAPTOP = {mode: stopping_rule(GATE.model_copy(update={"mode": mode})).sprt for mode in ("watch", "sprt")}
"""Tests of the preset: of the mode that it selects, and of the other one with a test."""


def allowed(rate, runs):
    """Return the bound on errors in so many tests: 3 standard deviations of the binomial distribution above its mean.

    False alarms have a probability of 0.14 %, whatever `runs`.
    """
    return runs * rate + 3.0 * math.sqrt(runs * rate * (1.0 - rate))
