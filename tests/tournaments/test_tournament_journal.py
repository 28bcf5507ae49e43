import pytest

from zerofleet.errors import RunDirectoryError
from zerofleet.strength.matches import Effort, GameResult
from zerofleet.strength.tournaments import ResultJournal

TERMS = {"game": "tic_tac_toe", "games": 8, "players": ["a", "b"]}
RESULTS = [
    GameResult("a / b", group, (0, 1), ("a", "b"), (4, 0, 1), (1.0, -1.0), (Effort(2, 9, 0.5), Effort(1, 0, 0.25)))
    for group in range(3)
]


@pytest.fixture
def directory(tmp_path):
    with ResultJournal(tmp_path / "cup", TERMS) as journal:
        journal.append(RESULTS[:2])
        journal.append(RESULTS[2:])
    return tmp_path / "cup"


def known(directory, terms=TERMS):
    with ResultJournal(directory, terms) as journal:
        return list(journal.results)


def test_journalled_results_are_restored_with_their_cost(directory):
    assert known(directory) == RESULTS
    assert [result.efforts for result in known(directory)] == [result.efforts for result in RESULTS]


def test_a_line_truncated_by_a_kill_is_dropped_and_overwritten(directory):
    path = directory / "results.jsonl"
    content = path.read_bytes()
    last = content.splitlines(keepends=True)[-1]
    for cut in range(1, len(last) + 1, 7):
        path.write_bytes(content[:-cut])
        with ResultJournal(directory, TERMS) as journal:
            assert journal.results == RESULTS[:2]
            journal.append(RESULTS[2:])
        assert known(directory) == RESULTS


def test_a_journal_with_a_truncated_header_is_replaced(directory):
    (directory / "results.jsonl").write_bytes(b'{"journal": 1, "ter')
    assert known(directory) == []
    assert known(directory) == []


def test_a_journal_of_other_terms_is_rejected_with_the_difference(directory):
    with pytest.raises(RunDirectoryError, match="holds a tournament with games=8, want 10"):
        known(directory, TERMS | {"games": 10})
    with pytest.raises(RunDirectoryError, match=r'players=\["a", "b"\], want \["a"\]'):
        known(directory, TERMS | {"players": ["a"]})


def test_a_journal_of_other_models_under_equal_names_is_rejected_unless_an_earlier_build_wrote_it(tmp_path):
    of_one_run, of_another = TERMS | {"models": ["1:aa"]}, TERMS | {"models": ["1:bb"]}
    with ResultJournal(tmp_path / "cup", of_one_run) as journal:
        journal.append(RESULTS)
    assert known(tmp_path / "cup", of_one_run) == RESULTS
    for other in (of_another, TERMS):
        with pytest.raises(RunDirectoryError, match="holds a tournament with models="):
            known(tmp_path / "cup", other)
    with ResultJournal(tmp_path / "old", TERMS) as journal:
        journal.append(RESULTS)
    assert known(tmp_path / "old", of_another) == RESULTS


def test_a_journal_of_another_search_is_rejected_also_where_one_of_them_names_none(tmp_path):
    with ResultJournal(tmp_path / "cup", TERMS | {"search": "root=gumbel"}):
        pass
    for other in ({}, {"search": "root=gumbel,considered=4"}):
        with pytest.raises(RunDirectoryError, match='search="root=gumbel", want'):
            known(tmp_path / "cup", TERMS | other)


def test_a_journal_in_use_is_rejected(directory):
    with ResultJournal(directory, TERMS), pytest.raises(RunDirectoryError, match="in use by another tournament"):
        known(directory)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello\n", "is not a tournament journal"),
        (b"{}\n", "is not a tournament journal"),
        (b'{"journal": 2, "terms": {}}\n', "schema 2"),
    ],
)
def test_a_file_that_is_not_a_journal_is_rejected(directory, content, said):
    (directory / "results.jsonl").write_bytes(content)
    with pytest.raises(RunDirectoryError, match=said):
        known(directory)
    assert (directory / "results.jsonl").read_bytes() == content


def test_the_error_for_a_damaged_journal_has_the_line_number(directory):
    path = directory / "results.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"{}\n", *lines[2:]]))
    with pytest.raises(RunDirectoryError, match="line 3 cannot be read"):
        known(directory)


def test_nothing_is_appended_to_a_closed_journal(directory):
    journal = ResultJournal(directory, TERMS)
    journal.close()
    journal.close()
    journal.append(RESULTS)
    assert known(directory) == RESULTS
