"""Conformance test of games against the laws of `games.core`, on random games.

    from games import check_game, make
    print(check_game(make("my_game", size=5)))

The quick form ends after `QUICK_POSITIONS` positions, the thorough one after `THOROUGH_GAMES` games. Both check the laws in
every position of complete games, pictures in some, and the same seed plays the same games: those of the quick form are the
first of the thorough one. Laws restrict a game and do not describe it: docs/own_game.md lists what no check can know.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from games import core
from games.conformance_record import Checked, Progress, Record
from games.conformance_walk import SEEDS, Walk
from games.core import Game, GameSpec
from games.errors import GameError
from games.laws import LAWS, OPTIONAL_RULES, broken, checked_spec

__all__ = ["LAWS", "QUICK_GAMES", "QUICK_POSITIONS", "THOROUGH_GAMES", "Checked", "Progress", "check_game"]

QUICK_POSITIONS = 2_000
"""Number of positions after which the quick form plays no further game. With it every built-in game ends within 30 s of
processor time, compilation included (docs/results/games.md)."""
QUICK_GAMES = 5
"""Minimum number of complete games of the quick form."""
THOROUGH_GAMES = 100
"""Number of games of the thorough form, and the maximum of the quick one."""
_ROUNDS = "secret moves of a round"


def check_game(
    game: Game,
    *,
    games: int | None = None,
    seed: int = 0,
    thorough: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Checked:
    """Play random games and check the laws of `games.core` in every position, those of pictures in some.

    The quick form plays at least `QUICK_GAMES` games, further ones up to `QUICK_POSITIONS` positions, and more, at most
    `THOROUGH_GAMES`, until every rule and check has had an occasion. Messages number players as the rules do, from 0;
    drawings in them may count from 1.

    Args:
        game: The rules to check, with the parameters to check them for.
        games: Exact number of random games, in place of the number of either form.
        seed: Seed of the games.
        thorough: Whether to play `THOROUGH_GAMES` games of any length.
        progress: Called before the first call of each rule, which compiles it, and about once a second; `print` will do.

    Returns:
        The number of games, positions and calls of each rule.

    Raises:
        GameContractError: A law is broken; the message states the law, the preceding moves and the position.
    """
    spec = checked_spec(game)
    rng = np.random.default_rng(seed)
    limit = THOROUGH_GAMES if games is None else games
    if limit < 1:
        raise GameError(f"games={games}: a check needs at least one game; give 1 or more")
    is_quick = games is None and not thorough
    record = Record(limit, progress)
    while record.games < limit and not (is_quick and _is_enough(game, spec, record)):
        Walk(game, spec, int(rng.integers(SEEDS)), record).play_out(rng)
        record.games += 1
    if spec.information == "hidden" and limit > 0 and not record.deals_differ:
        broken(game, 9, "determinise returned the same position for every seed")
    return Checked(
        game=str(game),
        seed=seed,
        games=record.games,
        positions=record.positions,
        rules=dict(sorted(record.calls.items())),
        symmetries_followed=len(record.symmetries_followed),
        symmetries=len(spec.symmetries),
        symmetries_unfollowed=tuple(one.name for one in spec.symmetries if one.name not in record.symmetries_followed),
        secret_pairs=record.secret_pairs,
        unchecked=tuple(_unchecked(game, spec, record)),
        processor_s=round(record.processor_s, 3),
        first_calls_s=round(record.first_calls_s, 3),
    )


def _is_enough(game: Game, spec: GameSpec, record: Record) -> bool:
    if record.games < QUICK_GAMES or record.positions < QUICK_POSITIONS:
        return False
    return not _unchecked(game, spec, record) and (spec.information != "hidden" or record.deals_differ)


def _unchecked(game: Game, spec: GameSpec, record: Record) -> list[str]:
    """Return the optional rules of the game that were not called, and the checks without an occasion, so far."""
    names = [name for name in OPTIONAL_RULES if core.has_rule(type(game), name) and not record.calls[name]]
    if spec.information != "perfect" and core.has_rule(type(game), "round_of") and not record.secret_pairs:
        names.append(_ROUNDS)
    return names
