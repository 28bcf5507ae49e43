"""Rungs: classical players as fixed references of a game's ladder, shared by the gatekeeper and the command line."""

from __future__ import annotations

from collections.abc import Sequence

from games.core import Game
from games.errors import GameError
from zerofleet.agents import AgentMaker
from zerofleet.errors import InvalidRequest, ZerofleetError

__all__ = ["ANCHOR", "DEPTH", "RUNGS", "default_rungs", "parse_rungs", "require_rungs"]

ANCHOR = "random"
"""Rung at 0 on every ladder."""

DEPTH = 5
"""Default depth of the deepest rung."""

ALPHA_BETA = "alpha_beta:{depth}"

RUNGS: dict[str, tuple[str, ...]] = {
    "abalone": ("greedy", "abalone_search:{depth}"),
    "chinese_checkers": ("greedy", ALPHA_BETA),
    "chinese_checkers_rhombus": ("greedy", "rhombus_search:{depth}"),
    "chinese_checkers_star37": ("greedy", "initialize", "max_n:{depth}"),
    "connect_four": (ALPHA_BETA, "uct:200"),
    "othello": ("greedy", ALPHA_BETA),
    "rock_paper_scissors": ("rock_paper_scissors_order:1", "rock_paper_scissors_order:2"),
    "take_six": ("take_six_comparison", "take_six_comparison_plus"),
    "tic_tac_toe": (ALPHA_BETA, "tic_tac_toe_rules", "perfect"),
}
"""Rungs above the anchor by game, weakest first. `{depth}` expands to every depth. A game not listed has `alpha_beta` alone."""

DEEPEST = {"abalone": 3, "chinese_checkers": 2, "chinese_checkers_rhombus": 4, "chinese_checkers_star37": 2, "othello": 4}
"""Maximum depth of a rung where deeper searches are too slow for hundreds of games."""


def default_rungs(game: Game, *, make_agent: AgentMaker, depth: int = DEPTH) -> tuple[str, ...]:
    """Return the rungs of a game, weakest first, with searches up to `depth`; agents that cannot play it are left out."""
    name = game.spec().name
    depths = range(1, min(depth, DEEPEST.get(name, depth)) + 1)
    names = [ANCHOR]
    for form in RUNGS.get(name, (ALPHA_BETA,)):
        names += [form.format(depth=plies) for plies in depths] if "{depth}" in form else [form]
    return tuple(name for name in dict.fromkeys(names) if _refusal(name, game, make_agent) is None)


def require_rungs(names: Sequence[str], game: Game, *, make_agent: AgentMaker) -> tuple[str, ...]:
    """Return the named rungs without duplicates, with the anchor included.

    Propagates `make_agent`'s error for an unknown or unsuitable agent; raises `InvalidRequest` for a model.
    """
    for name in names:
        if name.partition(":")[0] in {"model", "champion"}:
            raise InvalidRequest(f"{name} is not a rung: rungs are classical players of fixed strength; remove it")
        refusal = _refusal(name, game, make_agent)
        if refusal is not None:
            raise refusal
    listed = tuple(dict.fromkeys(names))
    return listed if ANCHOR in listed else (ANCHOR, *listed)


def parse_rungs(text: str) -> list[str]:
    """Return the names in `random,uct:200,final=visits,alpha_beta:5`; `final=visits` is an option of the preceding name.

    Raises `InvalidRequest` for an empty name or a leading option.
    """
    names: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if "=" in part and names:
            names[-1] += f",{part}"
        elif part and "=" not in part:
            names.append(part)
        else:
            raise InvalidRequest(
                f"{text!r} is not a list of rungs; write names separated by commas, such as random,alpha_beta:3"
            )
    return names


def _refusal(name: str, game: Game, make_agent: AgentMaker) -> ZerofleetError | GameError | None:
    try:
        make_agent(name, game)
    except (ZerofleetError, GameError) as error:
        return error
    return None
