"""Value targets: mixtures of a game's result and the root values of its searches.

A game's values form a sequence in the order of play, each known at a ply:

    v_0   v_1  ...  v_{K-1}    root values of its K moves searched by a model
                       v_K     result, known at the end

The searched value of move i is v_i (`root`), v_{i+n} (`n_step`) or the lambda-return

    (1 - lambda) (v_i + lambda v_{i+1} + ... + lambda^{K-1-i} v_{K-1}) + lambda^{K-i} v_K

of TD(lambda) (Sutton 1988) with root values as estimates, as in KataGo's short-term value targets. Random openings and moves of
agents have no root value and are skipped. Values are vectors with an entry for each player, so none is negated.

With `quick_win` c, a value v known n plies after a position counts v (1 - c n / max_plies) there: less for a late win, more
for a late loss. The factor is 1 for the position's own root value, which contains the preference of the network that made
it; a search does not reduce values for the plies of its own lines, a difference of at most c depth / max_plies.

Axes: N samples, K moves with a root value, P players.
"""

from __future__ import annotations

import numpy as np

from games.compiled import compiled
from zerofleet.contracts.records import ValidatedGame
from zerofleet.presets import TrainSettings

__all__ = ["value_targets"]


def value_targets(played: ValidatedGame, rows: np.ndarray, settings: TrainSettings) -> np.ndarray:
    """Return float32 [N, P] in [-1, 1]: the value target of each searched move in `rows`, the player to move first.

    Moves without a root value have the result alone as target. A resigned game counts as ended by its resignation.
    """
    search = played.search
    plies = search.ply[rows]
    slope = settings.quick_win / played.game.spec().max_plies
    result = played.scores[None] * _factor(plies, len(played.movers), slope)
    shares = np.where(search.model_version[rows] > 0, settings.search_value_share, 0.0)[:, None]
    mixed = (1.0 - shares) * result + shares * _searched_values(played, rows, settings, slope)
    players = len(played.scores)
    movers = played.movers[plies].astype(np.int64)
    seats = (movers[:, None] + np.arange(players)) % players  # int64 [N, P]
    return np.take_along_axis(mixed, seats, axis=1).astype(np.float32)


def _searched_values(played: ValidatedGame, rows: np.ndarray, settings: TrainSettings, slope: float) -> np.ndarray:
    """Return float64 [N, P], seat order: the searched value of each row; arbitrary for rows without a root value."""
    search = played.search
    known = np.flatnonzero(search.model_version > 0)
    values = np.concatenate([search.root_value[known], played.scores[None]]).astype(np.float64)  # [K + 1, P]
    plies = np.append(search.ply[known], len(played.movers)).astype(np.int64)  # [K + 1]
    places = np.searchsorted(known, rows)
    if settings.search_value == "lambda":
        returns = np.empty_like(values)
        _lambda_returns(values, plies, settings.search_value_lambda, slope, returns)
        return returns[places]
    steps = settings.search_value_steps if settings.search_value == "n_step" else 0
    later = np.minimum(places + steps, len(known))
    found: np.ndarray = values[later] * _factor(search.ply[rows], plies[later], slope)
    return found


def _factor(plies: np.ndarray, known_at: np.ndarray | int, slope: float) -> np.ndarray:
    """Return float64 [N, 1]: the factor at each ply for a value known at a later one."""
    factor: np.ndarray = 1.0 - slope * (known_at - plies.astype(np.float64))[:, None]
    return factor


@compiled
def _lambda_returns(values: np.ndarray, plies: np.ndarray, decay: float, slope: float, out: np.ndarray) -> None:
    """Write the lambda-return of every row of `values`, float64 [K + 1, P], of which the last is the result.

    The mean of v (1 - slope (ply - from)) is (1 + slope from) times the mean of v, less slope times the mean of v ply; both
    means follow a recursion from the end.
    """
    last = len(values) - 1
    for player in range(values.shape[1]):
        mean = values[last, player]
        mean_by_ply = mean * plies[last]
        out[last, player] = mean
        for i in range(last - 1, -1, -1):
            own = values[i, player]
            mean = (1.0 - decay) * own + decay * mean
            mean_by_ply = (1.0 - decay) * own * plies[i] + decay * mean_by_ply
            out[i, player] = mean + slope * (plies[i] * mean - mean_by_ply)
