"""English of docstrings, comments, messages and pages: see `patterns.toml`, and CONTRIBUTING.md for the rules behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
from prose import ROOT, Prose, files, findings, patterns, prose


@pytest.mark.parametrize("path", list(files()), ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_uses_plain_technical_english(path: Path) -> None:
    refused = patterns()
    found = [line for piece in prose(path) for line in findings(piece, refused)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "opens", "refused"),
    [
        ("What a worker does.", True, True),
        ("Return what reads a message.", True, True),
        ("Number of games that were finished.", True, False),
        ("Closed by whoever dawdles.", False, True),
        ("The header says which schema it has.", False, True),
        ("The oldest connection is closed; see `says`.", False, False),
        ("Seconds of wall-clock time.", True, False),
    ],
)
def test_the_patterns_refuse_what_they_are_meant_to_refuse(text: str, opens: bool, refused: bool) -> None:
    assert bool(list(findings(Prose(ROOT / "x.py", 1, text, opens), patterns()))) is refused
