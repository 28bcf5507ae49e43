"""Transcripts of whole games: the output of every rule at every position, as text to store and compare.

A stored transcript is the cheapest guard against silent changes of rules, encodings or notation. Its header holds the
parameters and seed to regenerate it:

    python -m games.tools.playthrough connect_four --seed 1 --set rows=6 --set columns=25     writes one to stdout
    python -m games.tools.playthrough --update tests/golden/playthroughs/*.txt                regenerates stored ones
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from games import core
from games.core import Game, State, make
from games.errors import GameError
from games.kit.bits import unpack
from games.kit.randomness import uniform_int
from games.notation import legal_names
from games.positions import encode_for, final_scores, new_state, parameters_text

__all__ = ["remake", "transcript"]


def transcript(game: Game, seed: int = 0) -> str:
    """Return the transcript of one random game; the seed determines the start and the moves."""
    spec = game.spec()
    state = new_state(game, seed)
    word = np.array([seed], dtype=np.uint64)
    parameters = " ".join(f"{name}={value}" for name, value in parameters_text(game).items())
    head = [
        f"game: {spec.name}",
        f"parameters: {parameters}",
        f"seed: {seed}",
        f"rules_version: {spec.rules_version}",
        f"actions: {spec.num_actions}, at most {spec.max_legal} legal, {spec.max_plies} plies, {spec.num_players} players",
        f"planes: {'x'.join(map(str, spec.planes))}",
        f"symmetries: {', '.join(symmetry.name for symmetry in spec.symmetries)}",
    ]
    sections = ["\n".join(head), _describe(game, state, 0)]
    ply = 0
    while names := legal_names(game, state):
        name = list(names)[uniform_int(word, len(names))]
        core.play(game, state, names[name])
        ply += 1
        sections.append(f"move: {name} = {names[name]}\n\n{_describe(game, state, ply)}")
    return "\n\n".join(sections) + "\n"


def _describe(game: Game, state: State, ply: int) -> str:
    """Return the output of all rules at a position."""
    names = legal_names(game, state)
    lines = [
        f"ply: {ply}",
        game.draw(state),
        f"over: {bool(core.is_over(game, state))}",
        f"to_move: {int(core.to_move(game, state))}",
        f"legal: {' '.join(f'{name}={action}' for name, action in names.items())}".rstrip(),
        f"key: {int(core.key(game, state)):016x}",
    ]
    for viewer in range(game.spec().num_players):
        packed = encode_for(game, state, viewer)
        planes = unpack(packed, game.spec().planes)
        ones = planes.sum(axis=(1, 2)) if planes[0].size > 1 else [planes.sum()]  # a flat vector: number of set bits
        lines.append(f"encode {viewer}: {packed.tobytes().hex()} ones {' '.join(map(str, ones))}")
    if not names:
        lines.append(f"scores: {' '.join(f'{score:+.3f}' for score in final_scores(game, state))}")
    return "\n".join(lines)


def remake(text: str) -> str:
    """Return a new transcript with the game, the parameters and the seed in the header of `text`."""
    head = dict(line.partition(": ")[::2] for line in text.split("\n\n", maxsplit=1)[0].splitlines())
    parameters = dict(pair.split("=", maxsplit=1) for pair in head["parameters"].split())
    return transcript(make(head["game"], **parameters), int(head["seed"]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a transcript, or regenerate stored ones."""
    parser = argparse.ArgumentParser(prog="python -m games.tools.playthrough", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("game", nargs="?", default="tic_tac_toe", help="name of the game")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the game")
    parser.add_argument("--update", nargs="+", type=Path, metavar="FILE", help="stored transcripts to regenerate")
    options = parser.parse_args(arguments)
    if options.update:
        for path in options.update:
            try:
                text = remake(path.read_text())
            except (GameError, OSError) as error:
                parser.error(f"{path}: {error}")
            except (KeyError, ValueError):
                parser.error(f"{path} is no transcript: it has no header with game, parameters and seed")
            path.write_text(text)
        return
    for pair in options.set:
        if "=" not in pair:
            parser.error(f"--set {pair}: want NAME=VALUE, such as rows=6")
    if not 0 <= options.seed < 2**64:
        parser.error(f"--seed {options.seed}: want 0 to {2**64 - 1}")
    parameters = dict(pair.split("=", maxsplit=1) for pair in options.set)
    try:
        game = make(options.game, **parameters)
    except GameError as error:
        parser.error(str(error))
    sys.stdout.write(transcript(game, options.seed))


if __name__ == "__main__":
    main()
