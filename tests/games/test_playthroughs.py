"""Stored transcripts of games: a change of rules, encodings, keys or notation shows here.

After a change that is meant:  python -m games.tools.playthrough --update tests/golden/playthroughs/*.txt
"""

from __future__ import annotations

from pathlib import Path

import pytest

from games.tools.playthrough import main, remake

FOLDER = Path(__file__).parents[1] / "golden" / "playthroughs"
STORED = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_replayed_game_matches_its_stored_transcript(path: Path) -> None:
    text = path.read_text()
    assert remake(text) == text


def test_every_built_in_game_has_a_transcript() -> None:
    assert {"connect_four", "tic_tac_toe"} <= {path.stem for path in STORED}


def test_the_command_writes_and_updates_transcripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["connect_four", "--seed", "4", "--set", "rows=4", "--set", "columns=4"])
    written = capsys.readouterr().out
    assert "parameters: rows=4 columns=4 connect=4\nseed: 4\n" in written
    path = tmp_path / "game.txt"
    path.write_text(written.partition("\n\n")[0] + "\n\nlost\n")
    main(["--update", str(path)])
    assert path.read_text() == written


def test_an_unknown_game_is_an_error_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["nmi"])
    assert "python -m games.tools.playthrough: error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["connect_four", "--set", "rows"], "--set rows: want NAME=VALUE"),
        (["connect_four", "--seed", "-1"], "--seed -1: want 0 to 18446744073709551615"),
        (["--update", "{path}"], "{path} is no transcript"),
        (["--update", "{path}.txt"], "No such file"),
    ],
)
def test_wrong_arguments_are_errors_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    path = tmp_path / "notes"
    path.write_text("lost\n")
    with pytest.raises(SystemExit, match="2"):
        main([word.format(path=path) for word in words])
    assert said.format(path=path) in capsys.readouterr().err
    assert path.read_text() == "lost\n"
