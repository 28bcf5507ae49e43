"""Games: rules, encodings, symmetries, notation and drawings, all pure; see `games.core` for the contract."""

from games import connect_four as _connect_four  # noqa: F401  (registers the game)
from games import tic_tac_toe as _tic_tac_toe  # noqa: F401
