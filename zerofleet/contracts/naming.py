"""Names on the wire: models, versions and tensors.

A model is named after its game: `connect_four`, or `connect_four_rows5_columns25` when parameters differ from their
defaults. A name becomes a directory and a Triton model, so every name from outside is validated.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from zerofleet.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from games.core import Game

__all__ = [
    "CHAMPION_ALIAS",
    "LEGAL_TENSOR",
    "MAX_MESSAGE_BYTES",
    "MAX_RECORD_BYTES",
    "MAX_REQUEST_ROWS",
    "MAX_VERSION",
    "POLICY_TENSOR",
    "STATE_TENSOR",
    "VALUE_TENSOR",
    "head_tensor",
    "is_model_name",
    "is_version",
    "model_name",
    "parse_version",
    "require_model_name",
]

STATE_TENSOR = "state__0"  # uint8 [B, packed_bytes]
LEGAL_TENSOR = "legal__1"  # int16 [B, L]
POLICY_TENSOR = "policy__0"  # float16 [B, L]
VALUE_TENSOR = "value__1"  # float32 [B, P]
_FIRST_EXTRA_HEAD = 2

MAX_REQUEST_ROWS = 1024  # maximum positions per request; callers split larger blocks
_MAX_ROW_BYTES = 8192  # more than five times a chess-size position with its legal actions (1.4 KB)
MAX_MESSAGE_BYTES = MAX_REQUEST_ROWS * _MAX_ROW_BYTES
MAX_RECORD_BYTES = 1 << 20
"""Maximum size of a game record, and thus of a stream payload.

A Connect Four game takes about 1.5 kB, a 600-move game of Go with 100 listed actions per move about 300 kB.
"""
CHAMPION_ALIAS: Final = "champion"
"""Version of a request that the champion answers, as it answers one without a version."""
MAX_VERSION = 2**63 - 1  # Triton reads a version directory as a signed 64-bit number

_MODEL_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_VERSION = re.compile(r"[1-9][0-9]{0,18}")
_SHOWN_CHARACTERS = 80
_HASH_DIGITS = 8


def model_name(game: Game) -> str:
    """Return the model name of a game: its name and every non-default parameter, without those that change the scores alone.

    Names are unique per set of parameters: a name that is too long, has characters outside `a-z0-9_`, or could be read as
    other parameters is truncated and ends in a hash of the parameters.
    """
    from games.positions import changed_parameters, model_parameters  # noqa: PLC0415 - with numba: streams do without

    name = game.spec().name
    named = model_parameters(game)
    changed = {key: value for key, value in changed_parameters(game).items() if key in named}
    plain = "_".join([name, *(f"{key}{value}" for key, value in changed.items())])
    full = plain
    if _is_ambiguous(plain, changed, named, begin=len(name) + 1):
        full = repr(changed)
    elif _MODEL_NAME.fullmatch(plain):
        return plain
    digest = hashlib.sha256(full.encode()).hexdigest()[:_HASH_DIGITS]
    cut = re.sub(r"[^a-z0-9_]", "_", plain.lower())[: 63 - _HASH_DIGITS - 1]
    return f"{cut}_{digest}"


def _is_ambiguous(plain: str, changed: Mapping[str, str], parameters: Iterable[str], *, begin: int) -> bool:
    """Return whether another parameter could begin where a changed one does, or within its value.

    With `size` and `size2`, `size23` would be 23 for the one or 3 for the other.
    """
    for key, value in changed.items():
        at = begin + len(key)
        begin = at + len(value) + 1
        for other in parameters:
            if other != key and other.startswith(key) and plain.startswith(other, at - len(key)):
                return True
            if any(plain.startswith(f"_{other}", inside) for inside in range(at, begin - 1)):
                return True
    return False


def head_tensor(index: int) -> str:
    """Return the output tensor name of the extra head with this index, counted from 0: `head__2`, `head__3` ..."""
    return f"head__{_FIRST_EXTRA_HEAD + index}"


def is_model_name(name: str) -> bool:
    """Return whether a text is a valid model name."""
    return _MODEL_NAME.fullmatch(name) is not None


def is_version(text: str) -> bool:
    """Return whether a text is a version: plain `1` .. `2^63 - 1`."""
    return _VERSION.fullmatch(text) is not None and int(text) <= MAX_VERSION


def require_model_name(name: str) -> str:
    """Return `name` if it is a valid model name; raises `InvalidRequest` otherwise, before it reaches a path."""
    if not is_model_name(name):
        shown = repr(name[:_SHOWN_CHARACTERS]) + ("..." if len(name) > _SHOWN_CHARACTERS else "")
        raise InvalidRequest(
            f"model name {shown} is invalid: want a lower-case letter followed by at most 62 of a-z, 0-9 and _"
        )
    return name


def parse_version(text: str) -> int:
    """Parse a version number; raises `InvalidRequest` unless it is plain `1` .. `2^63 - 1`."""
    if is_version(text):
        return int(text)
    raise InvalidRequest(
        f"model version {text[:_SHOWN_CHARACTERS]!r} is not a version: want digits without sign or leading zero"
    )
