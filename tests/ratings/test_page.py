"""The examples of the page on ratings run as they stand there."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "ratings.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_an_example_of_the_ratings_page_runs(block, capsys):
    exec(compile(block, str(PAGE), "exec"), {})
    assert capsys.readouterr().out


def test_the_ratings_page_has_two_examples():
    assert len(BLOCKS) == 2
