"""Opening books: what the builder writes is what a search finds, and nothing else is loaded."""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

import games
from games import core
from games.connect_four import ConnectFour
from zerofleet.agents.exact.solver import Book, Solver, build_book, load_book, save_book, shipped_book
from zerofleet.agents.exact.solver.building import journal_of, openings
from zerofleet.errors import InvalidRequest

GAME = cast("ConnectFour", games.make("connect_four"))
SMALL = cast("ConnectFour", games.make("connect_four", rows=4, columns=5))
TINY = cast("ConnectFour", games.make("connect_four", rows=2, columns=2, connect=2))


def test_the_shipped_book_has_the_scores_of_the_first_moves() -> None:
    book = shipped_book(GAME)
    found = Solver(GAME, book=book).scores(games.new_state(GAME))
    assert found.scores.tolist() == [-2, -1, 0, 1, 0, -1, -2]
    assert found.nodes == 0
    assert shipped_book(SMALL) is None


def test_the_shipped_book_is_consistent() -> None:
    book = shipped_book(GAME)
    assert book is not None
    solver = Solver(GAME, book=book, max_nodes=0)
    levels = openings(GAME, book.plies)
    assert sum(map(len, levels)) == len(book.scores)
    for level in levels[:-1]:
        for code, state in itertools.islice(level.items(), 100):
            assert solver.scores(state).scores.max() == book.scores[code], GAME.draw(state)


def test_mirror_images_of_openings_are_merged() -> None:
    assert [len(level) for level in openings(GAME, 4)] == [1, 4, 25, 121, 568]


@pytest.mark.slow
def test_scores_of_a_book_equal_those_of_a_search(tmp_path: Path) -> None:
    path = tmp_path / "small.book"
    done: list[tuple[int, int]] = []
    built = build_book(SMALL, path, plies=4, threads=2, table_bits=22, progress=lambda *step: done.append(step))
    book = load_book(path)
    assert (book.game, book.plies, len(book.scores)) == (SMALL, 4, built.positions)
    assert built.searched == len(done) == done[-1][0] == done[-1][1]
    assert built.nodes > 0
    assert not journal_of(path).exists()
    solver = Solver(SMALL)
    for ply, level in enumerate(openings(SMALL, 4)):
        for code, state in level.items():
            assert book.find(code, ply) == solver.score(state)[0], SMALL.draw(state)
    assert book.find(next(iter(book.scores)), 5) is None


DYING_BUILDER = """
import os, pathlib, signal, sys
import games
from zerofleet.agents.exact.solver import build_book

def progress(done, total):
    if done == 60:
        os.kill(os.getpid(), signal.SIGKILL)

build_book(games.make("connect_four", rows=4, columns=5), pathlib.Path(sys.argv[1]), plies=4, table_bits=22, progress=progress)
"""


@pytest.mark.slow
def test_a_killed_builder_resumes(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed.book", tmp_path / "whole.book"
    ended = subprocess.run([sys.executable, "-c", DYING_BUILDER, str(killed)], check=False)
    assert ended.returncode == -9
    assert not killed.exists()
    journal = journal_of(killed)
    assert len(journal.read_text().splitlines()) == 61
    with journal.open("a") as file:
        file.write("12345")  # what a machine that lost power might leave
    resumed = build_book(SMALL, killed, plies=4, table_bits=22)
    straight = build_book(SMALL, whole, plies=4, table_bits=22)
    assert resumed.resumed == 60
    assert resumed.searched == straight.searched - 60
    assert killed.read_bytes() == whole.read_bytes()
    assert not journal.exists()


@pytest.mark.slow
def test_a_failed_builder_raises_and_keeps_its_results(tmp_path: Path) -> None:
    path = tmp_path / "small.book"

    def progress(done: int, total: int) -> None:
        if done == 5:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        build_book(SMALL, path, plies=3, table_bits=22, progress=progress)
    assert build_book(SMALL, path, plies=3, table_bits=22).resumed == 5


def test_the_journal_of_another_book_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "x.book"
    journal_of(path).write_text("whatever\n1 2\n")
    with pytest.raises(InvalidRequest, match=r"x\.book\.journal belongs to another book; remove it"):
        build_book(TINY, path, plies=1, table_bits=22)
    assert journal_of(path).read_text() == "whatever\n1 2\n"


def test_a_damaged_line_of_a_journal_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "x.book"

    def progress(done: int, total: int) -> None:
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        build_book(SMALL, path, plies=3, table_bits=22, progress=progress)
    damaged = journal_of(path).read_text() + "12 \n"
    journal_of(path).write_text(damaged)
    with pytest.raises(InvalidRequest, match=r"x\.book\.journal is damaged: line 3 is '12 ', want a code and a score"):
        build_book(SMALL, path, plies=3, table_bits=22)
    assert journal_of(path).read_text() == damaged


def test_two_builders_cannot_write_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "x.book"

    def progress(done: int, total: int) -> None:
        build_book(TINY, path, plies=1, table_bits=22)

    with pytest.raises(InvalidRequest, match="is being written by another builder"):
        build_book(SMALL, path, plies=1, table_bits=22, progress=progress)


def test_a_book_deeper_than_the_game_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="a book of 4 plies; want 0 to 3"):
        build_book(TINY, tmp_path / "x.book", plies=4)


def test_a_saved_book_round_trips(tmp_path: Path) -> None:
    book = Book(SMALL, 1, {2**63 + 5: -3, 17: 4})
    save_book(book, tmp_path / "a")
    save_book(book, tmp_path / "b")
    assert load_book(tmp_path / "a") == book
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_book_with_a_changed_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save_book(Book(SMALL, 1, {17: 4, 19: 0}), path)
    sound = path.read_bytes()
    for place in (sound.index(b"\n") + 1, len(sound) - 1):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        with pytest.raises(InvalidRequest, match="is damaged: its checksum"):
            load_book(path)
    path.write_bytes(sound[:-1])
    with pytest.raises(InvalidRequest, match="is damaged"):
        load_book(path)
    path.write_bytes(sound.replace(b'"rows": "4"', b'"rows": "5"'))
    with pytest.raises(InvalidRequest, match="is damaged"):
        load_book(path)


NAMELESS = b'{"sha256": "", "parameters": {}, "plies": 1, "positions": 0, "rules_version": 1, "format": "another"}\n'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}\n",
        b"[]\n",
        b"PK\x03\x04",
        b'{"sha256": ""}\n',
        b'{"sha256": "", "parameters": {}, "plies": 1e999}\n',
        NAMELESS,
        b"[" * 100_000,
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InvalidRequest, match="a is not an opening book; build one"):
        load_book(tmp_path / "a")


def test_a_book_of_other_rules_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    save_book(Book(SMALL, 0, {}), path)
    spec = SMALL.spec()
    monkeypatch.setattr(ConnectFour, "spec", lambda self: dataclasses.replace(spec, rules_version=2))
    with pytest.raises(InvalidRequest, match="is for rules version 1; the current version is 2"):
        load_book(path)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save_book(Book(SMALL, 0, {}), path)
    about = json.loads(path.read_bytes()) | {"format": "zerofleet-book-9"}
    path.write_text(json.dumps(about) + "\n")
    with pytest.raises(InvalidRequest, match="is a 'zerofleet-book-9' of 'connect_four'; want 'zerofleet-book-1'"):
        load_book(path)


def test_a_solver_refuses_the_book_of_another_game() -> None:
    with pytest.raises(InvalidRequest, match=r"the book is for connect_four rows=4 .*, not for connect_four$"):
        Solver(GAME, book=Book(SMALL, 0, {}))


@pytest.mark.slow
def test_openings_omit_finished_games() -> None:
    for level in openings(SMALL, 6):
        for state in level.values():
            assert not core.is_over(SMALL, state)
