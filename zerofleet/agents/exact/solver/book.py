"""Opening book of the solver: the exact score of every position up to some ply, with mirror images merged.

A file is one line of JSON with the rules and a checksum, then the codes of the positions (uint64, little endian, ascending)
and their scores (int8). Terminal positions and positions with a winning move are omitted, since their scores need no
search.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, cast

import numpy as np

from games.connect_four import ConnectFour
from games.core import make
from games.positions import parameters_text
from zerofleet.errors import InvalidRequest
from zerofleet.storage.files import atomic_publish

__all__ = ["Book", "load_book", "save_book", "shipped_book"]

FORMAT = "zerofleet-book-1"
SHIPPED = "connect_four.book"


@dataclass(frozen=True, slots=True)
class Book:
    """Scores of openings."""

    game: ConnectFour
    plies: int
    """Maximal number of plies of its positions."""
    scores: Mapping[int, int]
    """Scores for the player to move, by the code of `outlook`."""

    def find(self, code: int, plies: int) -> int | None:
        """Return the score of a position after `plies` plies, or None if it is not in the book."""
        return self.scores.get(code) if plies <= self.plies else None


def save_book(book: Book, path: Path) -> None:
    """Write a book; equal books give identical files."""
    codes = np.array(sorted(book.scores), dtype="<u8")
    scores = np.array([book.scores[int(code)] for code in codes], dtype=np.int8)
    body = codes.tobytes() + scores.tobytes()
    about = {
        "format": FORMAT,
        "game": book.game.spec().name,
        "parameters": parameters_text(book.game),
        "rules_version": book.game.spec().rules_version,
        "plies": book.plies,
        "positions": len(codes),
    }
    line = json.dumps({**about, "sha256": _digest(about, body)})
    atomic_publish(path, line.encode() + b"\n" + body)


def load_book(path: Path) -> Book:
    """Read a book; raises `InvalidRequest` if it is damaged, of another format or of other rules."""
    return _parse(path.read_bytes(), str(path))


@functools.cache
def shipped_book(game: ConnectFour) -> Book | None:
    """Return the book shipped with the package, or None if it is for another game."""
    data = resources.files("zerofleet.agents.exact.solver").joinpath(SHIPPED)
    book = _parse(data.read_bytes(), SHIPPED)
    return book if book.game == game._replace(encoding=0) else None


def _parse(data: bytes, name: str) -> Book:
    head, _, body = data.partition(b"\n")
    try:
        about = json.loads(head)
        says = about.pop("sha256")
        game = cast("ConnectFour", make("connect_four", **about["parameters"]))
        plies, positions, rules = int(about["plies"]), int(about["positions"]), int(about["rules_version"])
        form, of_game = about["format"], about["game"]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InvalidRequest(
            f"{name} is not an opening book; build one with `zerofleet solve GAME --build-book FILE`"
        ) from None
    if (form, of_game) != (FORMAT, "connect_four"):
        raise InvalidRequest(f"{name} is a {form!r} of {of_game!r}; want {FORMAT!r} of 'connect_four'")
    if says != _digest(about, body) or len(body) != 9 * positions:
        raise InvalidRequest(f"{name} is damaged: its checksum does not match its content; rebuild it")
    if rules != game.spec().rules_version:
        raise InvalidRequest(f"{name} is for rules version {rules}; the current version is {game.spec().rules_version}")
    codes = np.frombuffer(body, dtype="<u8", count=positions)
    scores = np.frombuffer(body, dtype=np.int8, offset=8 * positions)
    return Book(game, plies, dict(zip(codes.tolist(), scores.tolist(), strict=True)))


def _digest(about: Mapping[str, Any], body: bytes) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode() + b"\n" + body).hexdigest()
