"""Mutations of bytes, lines and trees of values, drawn from a seeded generator.

A mutation keeps most of a valid input, so that it passes the first checks and reaches the later ones.
"""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["BOUNDARIES", "TEXTS", "mutate_bytes", "mutate_json", "mutate_json_lines", "mutate_lines", "mutate_toml"]

_POWERS = (7, 8, 15, 16, 31, 32, 53, 63)
BOUNDARIES = (0, 1, -1, 2, 7, *(number for power in _POWERS for number in (2**power - 1, 2**power, -(2**power))))
"""Numbers at the edges of integer types, and some that are small."""
_ODD = ("", " ", "0", "-1", "\x00", "\ud800", "é\u202e\u0000", "\n\r\t", "😀" * 40, "a" * 300, "0" * 31 + "1")
TEXTS = (*_ODD, "tic_tac_toe", "no_game", "../..", "/etc/passwd", "1e999", "NaN", "%s%n", "{}", "[]")
"""Texts that have broken parsers: empty, long, control characters, a lone surrogate, paths, numbers that are none."""
_FLOATS = (float("nan"), float("inf"), -float("inf"), 1e308, 5e-324, -0.0, 0.5)
MAX_BYTES = 1 << 16
_TOML_VALUE = re.compile(rb"(?<== )[^\n#]+")

Mutation = Callable[[random.Random, bytes], bytes]


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Return `data` after one to four changes of bytes: flips, cuts, copies, boundary numbers, noise."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        span = min(len(changed) - at, rng.choice((1, 2, 4, 8, 64)))
        match rng.randrange(8):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at : at + span]
            case 2:
                changed[at:at] = rng.randbytes(rng.choice((1, 2, 4, 16)))
            case 3:
                changed[at:at] = changed[at : at + span] * rng.randint(1, 8)
            case 4:
                size = rng.choice((1, 2, 4, 8))
                number = rng.choice(BOUNDARIES) & (2 ** (8 * size) - 1)
                changed[at : at + size] = number.to_bytes(size, rng.choice(("little", "big")))
            case 5:
                del changed[at:]
            case 6 if at < len(changed):
                changed[at] = rng.choice(b"\x00\xff\x7f\x80\n\r\"'{}[]:,0-9")
            case _:
                other = rng.randrange(len(changed) + 1)
                changed[at : at + span] = changed[other : other + span]
    return bytes(changed[:MAX_BYTES])


def mutate_lines(rng: random.Random, data: bytes) -> bytes:
    """Return lines removed, repeated, exchanged or changed in a word."""
    lines = data.split(b"\n")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        match rng.randrange(5):
            case 0 if len(lines) > 1:
                del lines[at]
            case 1:
                lines.insert(at, lines[rng.randrange(len(lines))])
            case 2:
                other = rng.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                words = lines[at].split(b" ")
                words[rng.randrange(len(words))] = _text(rng).encode("utf-8", "surrogatepass")
                lines[at] = b" ".join(words)
            case _:
                lines[at] = mutate_bytes(rng, lines[at])
    return b"\n".join(lines)[:MAX_BYTES]


def mutate_json(rng: random.Random, data: bytes) -> bytes:
    """Return a JSON document whose tree was changed in one to three places; bytes of another kind have bytes changed."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(rng, data)
    for _ in range(rng.randint(1, 3)):
        tree = _changed(rng, tree, depth=0)
    text = json.dumps(tree)
    if rng.random() < 0.02:
        text = "[" * rng.choice((200, 5_000)) + text
    return text.encode()[:MAX_BYTES]


def mutate_json_lines(rng: random.Random, data: bytes) -> bytes:
    """Return JSON lines of which one was changed as a tree, or the lines themselves."""
    if rng.random() < 0.3:
        return mutate_lines(rng, data)
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = mutate_json(rng, lines[at])
    return b"\n".join(lines)[:MAX_BYTES]


def mutate_toml(rng: random.Random, data: bytes) -> bytes:
    """Return a TOML document with another value of a key, or changed lines."""
    if rng.random() < 0.4:
        return mutate_lines(rng, data)
    places = list(_TOML_VALUE.finditer(data))
    if not places:
        return mutate_bytes(rng, data)
    place = rng.choice(places)
    try:
        value = tomllib.loads("v = " + place.group().decode())["v"]
    except (ValueError, RecursionError):
        value = ""
    written = json.dumps(_value(rng, value)).replace("NaN", "nan").replace("Infinity", "inf").replace("null", '""')
    return (data[: place.start()] + written.encode() + data[place.end() :])[:MAX_BYTES]


def _changed(rng: random.Random, tree: Any, *, depth: int) -> Any:
    if depth < 8 and rng.random() < 0.85:
        if isinstance(tree, dict) and tree:
            key = rng.choice(list(tree))
            match rng.randrange(10):
                case 0:
                    return {name: value for name, value in tree.items() if name != key}
                case 1:
                    return {**tree, _text(rng): _value(rng, tree[key])}
                case _:
                    return {**tree, key: _changed(rng, tree[key], depth=depth + 1)}
        if isinstance(tree, list) and tree:
            at = rng.randrange(len(tree))
            match rng.randrange(8):
                case 0:
                    return tree[:at] + tree[at + 1 :]
                case 1:
                    return tree[:at] + [tree[at]] * rng.randint(1, 4) + tree[at:]
                case _:
                    return [*tree[:at], _changed(rng, tree[at], depth=depth + 1), *tree[at + 1 :]]
    return _value(rng, tree)


def _value(rng: random.Random, present: Any) -> Any:
    """Return a value in place of another: mostly of its type."""
    if isinstance(present, str) and present and rng.random() < 0.5:
        at = rng.randrange(len(present))
        return present[:at] + rng.choice(("", "\x00", "é", "0", "-", ":", present)) + present[at + 1 :]
    if isinstance(present, int) and rng.random() < 0.7:
        return rng.choice((*BOUNDARIES, present + 1, present - 1, 2**64, 10**40))
    return rng.choice(
        (None, True, False, [], {}, [[]], {"": None}, rng.choice(BOUNDARIES), rng.choice(_FLOATS), _text(rng), 10**400)
    )


def _text(rng: random.Random) -> str:
    return rng.choice(TEXTS)


def spliced(rng: random.Random, inputs: Sequence[bytes]) -> bytes:
    """Return the beginning of one input with the end of another."""
    first, second = rng.choice(inputs), rng.choice(inputs)
    return first[: rng.randrange(len(first) + 1)] + second[rng.randrange(len(second) + 1) :]
