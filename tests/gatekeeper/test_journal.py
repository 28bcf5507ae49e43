import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from games.core import make
from gatekeeper.disk import Disk
from gatekeeper.ledger import Ledger
from zerofleet.contracts.gate_events import (
    MOST_GROUPS,
    Dropped,
    GameEnded,
    MatchClosed,
    MatchOpened,
    StatusChanged,
    Submitted,
    Tallied,
)
from zerofleet.contracts.promotions import CandidateStatus, MatchReport
from zerofleet.errors import RunDirectoryError, StaleEpoch, Unavailable
from zerofleet.presets import GateSettings
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.strength.gate_record import read_record
from zerofleet.strength.matches import Scoreboard
from zerofleet.strength.matches.scoreboard import MOST_MISSING

OLD = Path(__file__).parents[1] / "golden" / "old_formats" / "run" / "gatekeeper"
EVENTS = [
    Submitted(version=1, manifest_sha256="ab"),
    StatusChanged(
        version=1,
        status=CandidateStatus.REJECTED,
        reason="weak: ünïcode\nand a new line",
        report=MatchReport(3, 1, 2, 3, (0, 1, 1, 1, 0), 0.5, 0.25, 0.75, -3.0),
    ),
    MatchClosed(match_id="gate/1/3/2", rated_groups=0),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "journal.jsonl"


@pytest.fixture
def journal(path):
    journal = EventJournal(path, model="tic_tac_toe")
    journal.rewrite([])
    return journal


def read(path, model="tic_tac_toe"):
    return EventJournal(path, model=model).read()


def test_appended_events_are_read_again(journal, path):
    for event in EVENTS:
        journal.append(event)
    assert read(path) == EVENTS


def test_a_missing_journal_has_no_events(path):
    assert EventJournal(path, model="tic_tac_toe").read() == []


def test_a_line_truncated_by_a_kill_is_dropped_and_overwritten(journal, path):
    for event in EVENTS:
        journal.append(event)
    content = path.read_bytes()
    last = content.splitlines(keepends=True)[-1]
    for cut in range(1, len(last) + 1):
        path.write_bytes(content[:-cut])
        again = EventJournal(path, model="tic_tac_toe")
        assert again.read() == EVENTS[:2]
        again.append(EVENTS[0])
        assert read(path) == [*EVENTS[:2], EVENTS[0]]


def test_a_rewritten_journal_holds_only_the_given_events(journal, path):
    journal.append(EVENTS[0])
    journal.rewrite([EVENTS[2]])
    journal.append(EVENTS[1])
    assert read(path) == [EVENTS[2], EVENTS[1]]


def test_a_former_holder_that_was_suspended_before_it_replaced_the_journal_removes_no_event(journal, path):
    def suspended():
        """The lease is held still when it is asked for; then another gatekeeper takes it, loads and appends."""
        following = EventJournal(path, model="tic_tac_toe")
        following.take_over()
        assert following.read() == [EVENTS[0]]
        following.rewrite([EVENTS[0]])
        following.append(EVENTS[1])

    journal.append(EVENTS[0])
    former = EventJournal(path, model="tic_tac_toe", require_held=suspended)
    with pytest.raises(Unavailable, match="nothing was changed"):
        former.rewrite([])
    assert read(path) == EVENTS[:2]


def test_a_former_holder_neither_replaces_the_journal_nor_takes_it_over(journal, path):
    def lost():
        raise StaleEpoch("another gatekeeper has it")

    journal.append(EVENTS[0])
    unfinished = path.with_name(f"{path.name}.1-ab.tmp")
    unfinished.touch()
    former = EventJournal(path, model="tic_tac_toe", require_held=lost)
    for attempt in (former.take_over, lambda: former.rewrite([])):
        with pytest.raises(StaleEpoch, match="another gatekeeper"):
            attempt()
    assert read(path) == EVENTS[:1]
    assert [one.name for one in path.parent.iterdir() if one.suffix == ".tmp"] == [unfinished.name]


@pytest.mark.parametrize("damage", [b"{}\n", b"nonsense\n", b'{"event":"submitted","version":"x","manifest_sha256":""}\n'])
def test_damage_in_the_middle_is_named_with_its_line(journal, path, damage):
    path.write_bytes(path.read_bytes() + damage + b"{}\n")
    with pytest.raises(RunDirectoryError, match="line 2 cannot be read"):
        read(path)


def test_the_journal_of_another_model_or_version_is_refused(journal, path):
    with pytest.raises(RunDirectoryError, match="belongs to model tic_tac_toe, not go"):
        read(path, model="go")
    path.write_bytes(path.read_bytes().replace(b'"schema_version":1', b'"schema_version":2'))
    with pytest.raises(RunDirectoryError, match="another version"):
        read(path)


def test_a_failing_disk_leaves_the_journal_unchanged(journal, path, monkeypatch):
    journal.append(EVENTS[0])
    monkeypatch.setattr("os.fsync", _refuse)
    with pytest.raises(Unavailable, match="not counted"):
        journal.append(EVENTS[1])
    monkeypatch.undo()
    journal.append(EVENTS[2])
    assert read(path) == [EVENTS[0], EVENTS[2]]


def test_a_directory_that_cannot_be_written_is_unavailable(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(Unavailable, match="cannot write"):
        EventJournal(tmp_path / "file" / "journal.jsonl", model="tic_tac_toe").rewrite([])


def _refuse(descriptor):
    raise OSError(28, "No space left on device")


def test_a_match_that_is_closed_twice_hinders_neither_a_start_nor_a_reader(tmp_path):
    about = {"first": "alpha_beta:1", "second": "random"}
    closed = MatchClosed(match_id="ladder/a", rated_groups=0)
    journal = EventJournal(tmp_path / JOURNAL_FILE, model="tic_tac_toe")
    opened = MatchOpened(match_id="ladder/a", purpose="ladder", seed=1, opening_plies=2, max_groups=1, **about)
    journal.rewrite([opened, closed, closed, Tallied(points=3, games=4, **about)])
    game = make("tic_tac_toe")
    assert read_record(tmp_path, "tic_tac_toe", game).games_between("alpha_beta:1", "random") == 4
    with Disk() as disk:
        ledger = Ledger(journal, model="tic_tac_toe", game=game, disk=disk)
        ledger.load()
    assert ledger.games_between("alpha_beta:1", "random") == 4


@pytest.mark.parametrize("field", ["seed", "opening_plies", "max_groups", "group", "rated_groups", "version"])
def test_a_number_out_of_range_is_named_with_its_line(tmp_path, field):
    content = (OLD / JOURNAL_FILE).read_text()
    assert f'"{field}":' in content
    for number in (-1, 1 << 64, "9" * 5_000, *([MOST_GROUPS + 1] if "group" in field else [])):
        (tmp_path / JOURNAL_FILE).write_text(re.sub(rf'"{field}":\d+', f'"{field}":{number}', content, count=1))
        with pytest.raises(RunDirectoryError, match=r"line \d+"):
            read_record(tmp_path, "tic_tac_toe", make("tic_tac_toe"))


def test_the_longest_match_of_the_settings_fits_into_the_journal():
    assert GateSettings(max_pairs=MOST_GROUPS).max_pairs == MOST_GROUPS
    with pytest.raises(ValidationError):
        GateSettings(max_pairs=MOST_GROUPS + 1)
    with pytest.raises(ValidationError):
        GateSettings(ladder_games=MOST_GROUPS + 1)


def test_a_start_draws_no_openings_for_a_game_far_beyond_the_known_ones(tmp_path, monkeypatch):
    about = {"first": "alpha_beta:1", "second": "random"}
    game, drawn = make("tic_tac_toe"), []
    opened = MatchOpened(match_id="gate/a", purpose="gate", seed=1, opening_plies=2, max_groups=MOST_GROUPS, **about)
    players, played = ("alpha_beta:1", "random"), {"moves": (0, 3, 1, 4, 2), "scores": (1.0, -1.0)}
    far = GameEnded(match_id="gate/a", group=MOST_GROUPS - 1, seating=(0, 1), players=players, **played)
    journal = EventJournal(tmp_path / JOURNAL_FILE, model="tic_tac_toe")
    journal.rewrite([opened, far])
    opening = Scoreboard.opening
    monkeypatch.setattr(Scoreboard, "opening", lambda self, group: drawn.append(group) or opening(self, group))
    with Disk() as disk:
        ledger = Ledger(journal, model="tic_tac_toe", game=game, disk=disk)
        ledger.load()
    assert [group for group in drawn if group > MOST_MISSING] == []
    assert ledger.gate.board("gate/a").refused == 1


def settled(version):
    yield Submitted(version=version, manifest_sha256=f"{version:064x}")
    yield StatusChanged(version=version, status=CandidateStatus.REJECTED, reason="weaker")


def test_a_dropped_verdict_is_gone_wherever_a_kill_cuts_the_line_that_drops_it(tmp_path):
    path = tmp_path / JOURNAL_FILE
    journal = EventJournal(path, model="tic_tac_toe")
    journal.rewrite([*settled(1), *settled(2), *settled(3)])
    before = path.read_bytes()
    journal.append(Dropped(versions=(1, 2)))
    after = path.read_bytes()
    for size in range(len(before), len(after) + 1):
        path.write_bytes(after[:size])
        for _ in range(2):  # the first start compacts the journal that the second one reads
            record = read_record(tmp_path, "tic_tac_toe", make("tic_tac_toe"))
            is_whole = size == len(after)
            assert sorted(record.candidates) == sorted(record.hashes) == ([3] if is_whole else [1, 2, 3])
            assert record.dropped_through == (2 if is_whole else 0)
            EventJournal(path, model="tic_tac_toe").rewrite(record.present())
