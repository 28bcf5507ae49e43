"""Book of a ladder: every game played by `zerofleet ladder` for a run, so that none is repeated.

A journal below the run directory. Its header names the model; a match is written before its first game, and a game when it
ends. One process writes at a time; the run itself never reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from games.core import Game, parameters_of
from zerofleet.errors import RunDirectoryError
from zerofleet.storage.journal import Journal
from zerofleet.strength.ladders.evidence import evidence
from zerofleet.strength.ladders.plan import Match
from zerofleet.strength.ladders.rungs import ANCHOR
from zerofleet.strength.matches import GameResult, Scoreboard
from zerofleet.strength.ratings import Placement, Rating, Tally, rate

__all__ = ["FILE", "LadderBook"]

FILE = "ladder/games{view}.jsonl"
"""Path below the run directory. `view`: parameters that change the scores alone and differ from their defaults, such as
`-scoremargin`: the models are the same, their results are not."""

SCHEMA = 1
MOST_MISSING = 10_000
"""Groups of a match that a file may lack before a later one: those in progress when it was last closed."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Begun(_Line):
    line: Literal["ladder"] = "ladder"
    schema_version: int = SCHEMA
    model: str


class _Arranged(_Line):
    line: Literal["match"] = "match"
    first: str
    second: str
    simulations: int = Field(ge=0)
    opening_plies: int = Field(ge=0)
    seed: int = Field(ge=0)
    search: str = ""


class _Ended(_Line):
    line: Literal["game"] = "game"
    match_id: str
    group: int = Field(ge=0)
    seating: tuple[int, ...]
    players: tuple[str, ...]
    moves: tuple[int, ...]
    scores: tuple[float, ...]


_LINES: TypeAdapter[_Begun | _Arranged | _Ended] = TypeAdapter(
    Annotated[_Begun | _Arranged | _Ended, Field(discriminator="line")]
)


class LadderBook:
    """Open book of a run's ladder; a context manager."""

    def __init__(self, root: Path, game: Game, *, model: str, is_writer: bool = True) -> None:
        """Open or create the book of the run at `root`; a reader (`is_writer=False`) has the games written so far.

        Raises `RunDirectoryError` if another process has it open, or it is damaged or for another model; `OSError` on an
        I/O error.
        """
        self.path = root / FILE.format(view=_view(game))
        self._game = game
        self._model = model
        self._known: dict[Match, list[GameResult]] = {}
        self._by_id: dict[str, Match] = {}
        self._boards: dict[Match, Scoreboard] = {}
        self._journal = Journal(
            self.path,
            _LINES,
            header=_LINES.dump_json(_Begun(model=model)),
            check_header=self._require_own,
            remedy="restore the file, or move it away to start again",
            sync=False,
        )
        in_use = f"{self.path} is in use by another `zerofleet ladder`; wait until that one ends"
        for line in self._journal.open(in_use=in_use) if is_writer else self._journal.read():
            self._restore(line)

    def board(self, match: Match, groups: int) -> Scoreboard:
        """Return the board of a match with its known results, for at least `groups` groups.

        Raises `RunDirectoryError` for a result of a group far beyond those played.
        """
        known = self._known.get(match, ())
        self._require_drawable(known)
        wanted = max([groups, *(result.group + 1 for result in known)])
        board = self._boards.get(match)
        if board is None or board.terms.max_groups < wanted:
            board = Scoreboard(match.terms(self._game, wanted))
            for result in known:
                board.record(result)
            self._boards[match] = board
        return board

    def record(self, match: Match, result: GameResult) -> None:
        """Add a game to the book and to its board; for the writer. Raises `RecordRejected`, `OSError`."""
        if not self._boards[match].is_new(result):
            return
        if match not in self._known:
            self._arrange(match)
            self._journal.append(_Arranged(**asdict(match)))
        ended = {name: value for name, value in asdict(result).items() if name in _Ended.model_fields}
        self._journal.append(_Ended(**ended))
        self._known[match].append(result)
        self._boards[match].record(result)

    def matches(self, *, seed: int, simulations: int, opening_plies: int, search: str = "") -> list[Match]:
        """Return the matches that can be rated together: those with equal search of the models, opening length and seed.

        Another seed draws some of the same openings, from which models repeat their games: these would count twice.
        """

        def belongs(match: Match) -> bool:
            searched = (simulations, search) if match.has_model else (0, "")
            opened = (match.seed, match.opening_plies) == (seed, opening_plies)
            return opened and (match.simulations, match.search) == searched

        return [match for match in self._known if belongs(match)]

    def ratings(self, matches: Iterable[Match]) -> list[Rating]:
        """Return the ratings from all games of the matches, strongest first, the anchor at 0."""
        results: list[Tally | Placement] = []
        for match in matches:
            results += evidence(self.board(match, 1))
        return rate(results, anchor=ANCHOR)

    def close(self) -> None:
        """Sync the book to disk and release it for other processes. Idempotent."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _restore(self, line: _Begun | _Arranged | _Ended) -> None:
        if isinstance(line, _Arranged):
            self._arrange(Match(**line.model_dump(exclude={"line"})))
        elif isinstance(line, _Ended) and line.match_id in self._by_id:
            self._known[self._by_id[line.match_id]].append(GameResult(**line.model_dump(exclude={"line"})))

    def _require_drawable(self, known: Sequence[GameResult]) -> None:
        """Raise `RunDirectoryError` for a group of which the file lacks the earlier ones; each opening takes time to draw."""
        for result in known:
            if result.group > len(known) + MOST_MISSING:
                raise RunDirectoryError(
                    f"{self.path} has group {result.group} of {result.match_id}, of which it holds {len(known)} games;"
                    " remove that line, or restore the file"
                )

    def _require_own(self, text: bytes) -> None:
        first = self._journal.parse(text)
        if not isinstance(first, _Begun) or first.schema_version != SCHEMA:
            raise RunDirectoryError(f"{self.path} was written by another version of Zerofleet; move it away to start again")
        if first.model != self._model:
            raise RunDirectoryError(f"{self.path} is the ladder of {first.model}, not of {self._model}; move it away")

    def _arrange(self, match: Match) -> None:
        self._known.setdefault(match, [])
        self._by_id[match.match_id] = match


def _view(game: Game) -> str:
    spec = game.spec()
    defaults, chosen = parameters_of(spec.name), game._asdict()
    return "".join(f"-{name}{chosen[name]}" for name in spec.score_parameters if chosen[name] != defaults[name])
