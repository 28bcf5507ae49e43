"""Journals of lines: what a full disk, a second writer or a wrong file leave of one."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from zerofleet.errors import RunDirectoryError
from zerofleet.storage.journal import Journal


def require_numbers(header: bytes) -> None:
    if header != b'"numbers"':
        raise RunDirectoryError("not a journal of numbers")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "below" / "numbers.jsonl"


def journal_at(path: Path, *, sync: bool = True) -> Journal[int]:
    return Journal(path, TypeAdapter(int), header=b'"numbers"', check_header=require_numbers, remedy="count again", sync=sync)


@pytest.mark.parametrize("sync", [True, False])
def test_lines_are_read_again_below_the_header(path: Path, sync: bool) -> None:
    journal = journal_at(path, sync=sync)
    assert journal.open(in_use="") == []
    assert path.read_bytes() == b'"numbers"\n'
    journal.append(1, 2)
    journal.append(3)
    journal.close()
    journal.close()
    assert journal_at(path).read() == [1, 2, 3]


def test_a_write_that_fails_leaves_the_lines_before_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    journal = journal_at(path)
    journal.rewrite([1])
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", refuse)
        with pytest.raises(OSError, match="No space left"):
            journal.append(23456)
    assert journal_at(path).read() == [1]
    path.write_bytes(path.read_bytes() + b"23")
    journal.append(7)
    assert journal_at(path).read() == [1, 7]


def test_of_several_lines_a_full_disk_adds_none(path: Path) -> None:
    journal, lines = journal_at(path), list(range(10_000))
    journal.rewrite([1])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            journal.append(*lines)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert journal_at(path).read() == [1]
    journal.append(*lines)
    assert journal_at(path).read() == [1, *lines]


def test_a_journal_that_was_not_read_yet_is_appended_to(path: Path) -> None:
    journal_at(path).rewrite([1])
    journal_at(path).append(2)
    assert journal_at(path).read() == [1, 2]


def test_a_locked_journal_is_refused_until_it_is_closed(path: Path) -> None:
    first = journal_at(path)
    first.open(in_use="")
    with pytest.raises(RunDirectoryError, match="busy"):
        journal_at(path).open(in_use="busy")
    first.close()
    second = journal_at(path)
    assert second.open(in_use="busy") == []
    second.close()


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"something else\nhalf a li", "not a journal of numbers"), (b'"numbers"\n1\nx\n2', "line 3 .* count again")],
)
def test_a_refused_file_is_left_as_it_was(path: Path, content: bytes, said: str) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(RunDirectoryError, match=said):
        journal_at(path).open(in_use="")
    assert path.read_bytes() == content


def test_the_size_of_a_dropped_line_is_reported(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'"numbers"\n1\n23')
    journal = journal_at(path)
    assert (journal.read(), journal.dropped_bytes) == ([1], 2)


def test_lines_are_streamed_one_at_a_time(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'"numbers"\n1\n2\nx\n')
    lines = journal_at(path).stream()
    assert [next(lines), next(lines)] == [1, 2]
    with pytest.raises(RunDirectoryError, match="line 4"):
        next(lines)


def test_a_line_after_a_rewrite_that_failed_at_its_end_follows_those_in_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(directory: Path) -> None:
        raise OSError(5, "Input/output error")

    journal = journal_at(path)
    journal.rewrite([*range(100)])
    with monkeypatch.context() as patch:
        patch.setattr("zerofleet.storage.journal.make_directory", lambda directory: None)
        patch.setattr("zerofleet.storage.files.sync_directory", refuse)
        with pytest.raises(OSError, match="Input/output"):
            journal.rewrite([1])
        patch.setattr("zerofleet.storage.journal.sync_directory", refuse)
        with pytest.raises(OSError, match="Input/output"):
            journal.append(2)  # with the power the file would lose its name to the former one
    journal.append(3)
    assert journal_at(path).read() == [1, 3]


def test_a_reader_reads_on_from_where_it_ended(path: Path) -> None:
    journal_at(path).rewrite([1, 2])
    reader = journal_at(path)
    assert reader.read_more() is None
    assert reader.read() == [1, 2]
    assert reader.read_more() == []
    journal_at(path).append(3, 4)
    with path.open("ab") as file:
        file.write(b"5")
    assert reader.read_more() == [3, 4]
    with path.open("ab") as file:
        file.write(b"6\n")
    assert reader.read_more() == [56]


def test_a_reader_that_begins_again_reads_the_lines_in_parts(path: Path) -> None:
    journal_at(path).rewrite([*range(100)])
    reader = journal_at(path)
    reader.rewind()
    found: list[int] = []
    while part := reader.read_more(40):
        assert len(part) < 40
        found += part
    assert found == [*range(100)]
    path.write_text("strange\n")
    reader.rewind()
    with pytest.raises(RunDirectoryError, match="not a journal of numbers"):
        reader.read_more()
    path.unlink()
    reader.rewind()
    assert reader.read_more() == []


@pytest.mark.parametrize("lines", [[1], [7, 2], [7, 2, 3]], ids=["shorter", "as long", "longer"])
def test_a_reader_of_a_rewritten_journal_begins_again(path: Path, lines: list[int]) -> None:
    journal_at(path).rewrite([1, 2])
    reader = journal_at(path)
    reader.read()
    journal_at(path).rewrite(lines)
    assert reader.read_more() is None
    assert reader.read() == lines


def test_a_damaged_line_among_the_new_ones_is_named_by_its_number(path: Path) -> None:
    journal_at(path).rewrite([1, 2])
    reader = journal_at(path)
    reader.read()
    with path.open("ab") as file:
        file.write(b"3\nx\n")
    with pytest.raises(RunDirectoryError, match="line 5"):
        reader.read_more()


def test_a_line_longer_than_a_part_is_read_whole(path: Path) -> None:
    journal_at(path).rewrite([1, 10**300, 2])
    reader = journal_at(path)
    reader.rewind()
    found: list[int] = []
    while part := reader.read_more(16):
        found += part
    assert found == [1, 10**300, 2]
    with path.open("ab") as file:
        file.write(b"3" * 100)
    assert reader.read_more(16) == []


def test_lines_that_replace_a_torn_one_are_read_on(path: Path) -> None:
    journal_at(path).rewrite([1, 2])
    reader = journal_at(path)
    reader.read()
    with path.open("ab") as file:
        file.write(b"33333")
    assert reader.read_more() == []
    journal_at(path).append(4)
    assert reader.read_more() == [4]
