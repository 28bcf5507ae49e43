"""Construction of an opening book: the deepest positions by search, all others by minimax over their successors.

Each result is appended at once to a journal next to the book, so a killed builder resumes from there. Threads share one
transposition table.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from games import core
from games.connect_four import ConnectFour
from games.core import State
from games.positions import legal, new_state, parameters_text
from zerofleet.agents.exact.solver.book import Book, save_book
from zerofleet.agents.exact.solver.connect_four import Solver, board_of
from zerofleet.agents.exact.solver.search import outlook
from zerofleet.agents.exact.solver.table import empty_table
from zerofleet.errors import InvalidRequest
from zerofleet.storage.files import try_lock

__all__ = ["Built", "build_book", "journal_of", "openings"]

BUILD_NODES = 1 << 40  # effectively no limit per position


@dataclass(frozen=True, slots=True)
class Built:
    """Result of a build."""

    positions: int
    """Number of positions in the book."""
    searched: int
    """Number of positions searched by this process."""
    resumed: int
    """Number of positions read from the journal."""
    nodes: int
    """Number of nodes visited by this process."""


def openings(game: ConnectFour, plies: int) -> list[dict[int, State]]:
    """Return the positions after 0 .. `plies` plies by code: not over, without a winning move, mirror images merged.

    The order is that of a depth-first traversal, so that consecutive positions share much of their subtrees.
    """
    found: list[dict[int, State]] = [{} for _ in range(plies + 1)]
    board = board_of(game)

    def visit(state: State, ply: int) -> None:
        seen = outlook(board, *_words(game, state))
        if core.is_over(game, state) or seen.wins or int(seen.code) in found[ply]:
            return
        found[ply][int(seen.code)] = state
        if ply < plies:
            for action in sorted(legal(game, state), key=lambda column: abs(2 * column - game.columns + 1)):
                visit(_after(game, state, action), ply + 1)

    visit(new_state(game), 0)
    return found


def journal_of(path: Path) -> Path:
    """Return the path of the journal of a book."""
    return path.with_name(f"{path.name}.journal")


def build_book(
    game: ConnectFour,
    path: Path,
    *,
    plies: int,
    threads: int = 1,
    table_bits: int = 24,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Built:
    """Build the book of all positions of at most `plies` plies and write it to `path`.

    Args:
        game: A game that fits the solver.
        path: File of the book; its journal is kept next to it until completion.
        plies: Depth of the book.
        threads: Number of search threads.
        table_bits: Binary logarithm of the size of the shared table, in words of 8 bytes.
        progress: Called after each position with the numbers of solved positions and of all positions to solve.

    Raises:
        InvalidRequest: The game does not fit, the depth exceeds its length, or the journal belongs to another book.
    """
    if not 0 <= plies < game.rows * game.columns:
        raise InvalidRequest(f"a book of {plies} plies; want 0 to {game.rows * game.columns - 1}")
    first = Solver(game, table=empty_table(table_bits), max_nodes=BUILD_NODES)
    game = first.game
    levels = openings(game, plies)
    with _Journal(journal_of(path), game, plies) as journal:
        resumed = len(journal.scores)
        waiting = [(code, state) for code, state in levels[plies].items() if code not in journal.scores]
        searchers = _Searchers(first, journal, lambda: progress(len(journal.scores), len(levels[plies])))
        searchers.search(waiting, threads)
        scores = _filled(game, levels, journal.scores)
    save_book(Book(game, plies, scores), path)
    journal_of(path).unlink()
    return Built(len(scores), len(waiting), resumed, searchers.nodes)


class _Journal:
    """Append-only file of scores by code: a header line, then `code score` lines. A truncated last line is dropped."""

    def __init__(self, path: Path, game: ConnectFour, plies: int) -> None:
        about = {"game": game.spec().name, "parameters": parameters_text(game), "plies": plies}
        self._head = json.dumps({**about, "rules_version": game.spec().rules_version}) + "\n"
        self.scores: dict[int, int] = {}
        self._file: IO[str] = path.open("a+", errors="replace")
        try:
            self._read(path)
        except BaseException:
            self._file.close()
            raise

    def _read(self, path: Path) -> None:
        if not try_lock(self._file):
            raise InvalidRequest(f"{path} is being written by another builder; let it finish, or stop it")
        self._file.seek(0)
        text = self._file.read()
        whole = text[: text.rfind("\n") + 1]
        if whole and not whole.startswith(self._head):
            raise InvalidRequest(f"{path} belongs to another book; remove it, or build to another file")
        for number, line in enumerate(whole.splitlines()[1:], 2):
            try:
                code, score = map(int, line.split())
            except ValueError:
                raise InvalidRequest(
                    f"{path} is damaged: line {number} is {line!r}, want a code and a score; remove the line, or the file"
                ) from None
            self.scores[code] = score
        self._file.truncate(len(whole))
        if not whole:
            self._file.write(self._head)
        self._file.flush()

    def __enter__(self) -> _Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, code: int, score: int) -> None:
        """Append a score."""
        self.scores[code] = score
        self._file.write(f"{code} {score}\n")
        self._file.flush()


class _Searchers:
    """Search threads that share one queue of positions."""

    def __init__(self, first: Solver, journal: _Journal, report: Callable[[], None]) -> None:
        self.nodes = 0
        self._first = first
        self._journal = journal
        self._report = report
        self._guard = threading.Lock()
        self._ended = threading.Event()

    def search(self, positions: list[tuple[int, State]], threads: int) -> None:
        """Search all positions; raises the first exception of any thread."""
        supply = iter(positions)
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(threads))
            stack.callback(self._ended.set)  # an interrupted builder finishes only the positions in progress
            tasks = [pool.submit(self._work, supply) for _ in range(threads)]
            for task in tasks:
                task.result()

    def _work(self, supply: Iterator[tuple[int, State]]) -> None:
        try:
            self._take_all(supply)
        finally:
            self._ended.set()  # queue empty or thread failed: no thread starts another position

    def _take_all(self, supply: Iterator[tuple[int, State]]) -> None:
        solver = self._first.companion()
        while not self._ended.is_set():
            with self._guard:
                code, state = next(supply, (0, None))
            if state is None:
                return
            score, nodes = solver.score(state)
            with self._guard:
                self.nodes += nodes
                self._journal.add(code, score)
                self._report()


def _filled(game: ConnectFour, levels: list[dict[int, State]], leaves: dict[int, int]) -> dict[int, int]:
    """Return the scores of all positions, given those of the deepest level."""
    board, size = board_of(game), game.rows * game.columns
    scores = {code: leaves[code] for code in levels[-1]}
    for ply in reversed(range(len(levels) - 1)):
        for code, state in levels[ply].items():
            best = -size
            for action in legal(game, state):
                after = _after(game, state, action)
                seen = outlook(board, *_words(game, after))
                if core.is_over(game, after):
                    best = max(best, 0)  # no winning move exists here, so the board is full
                elif seen.wins:
                    best = max(best, -((size - ply) // 2))
                else:
                    best = max(best, -scores[int(seen.code)])
            scores[code] = best
    return scores


def _after(game: ConnectFour, state: State, action: int) -> State:
    after = state.copy()
    core.play(game, after, action)
    return after


def _words(game: ConnectFour, state: State) -> tuple[np.uint64, np.uint64]:
    """Return the stones of the player to move and all stones."""
    return state[1 + core.to_move(game, state)], state[1] | state[2]
