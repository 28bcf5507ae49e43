"""UCT, Monte-Carlo tree search with rollouts at its leaves: the compiled search of the agent `uct`.

    search = UctSearch(game, state, plan_for(game), seed=1)
    search.run(1000)                      1,000 simulations in total; compiled, without the GIL
    search.root().visits

A separate package, so that its compiled code stays cached when another agent changes.
"""

from __future__ import annotations

from zerofleet.agents.uct.afterstates import afterstates_of, mover_values, values_of
from zerofleet.agents.uct.search import MoverValues, UctRoot, UctSearch
from zerofleet.agents.uct.tree import UctPlan, plan_for

__all__ = ["MoverValues", "UctPlan", "UctRoot", "UctSearch", "afterstates_of", "mover_values", "plan_for", "values_of"]
