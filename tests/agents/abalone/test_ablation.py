"""The table of what each part of the Abalone search is worth."""

from __future__ import annotations

import pytest

from benchmarks.abalone_ablation import cost, main, middle_games, variants
from games.abalone import Abalone
from zerofleet.agents.by_game.abalone import SearchOptions


def test_every_component_is_switched_off_once_and_all_together_once() -> None:
    named = dict(variants("strong"))
    assert named["all"] == SearchOptions(evaluation="strong")
    switches = {name for name, field in SearchOptions.model_fields.items() if field.annotation is bool} - {"quiescence"}
    assert {name.removeprefix("all but ") for name in named if name.startswith("all but ")} == switches
    for switch in switches:
        assert named[f"all but {switch}"] == SearchOptions.model_validate({"evaluation": "strong", switch: False})
        assert not getattr(named["alpha-beta alone"], switch)


def test_positions_and_node_counts_follow_from_the_seed() -> None:
    game = Abalone()
    first, second = (middle_games(game, 4, seed=3) for _ in range(2))
    assert [state.tolist() for state in first] == [state.tolist() for state in second]
    spent = cost(game, first, 2, SearchOptions())
    assert spent.nodes == cost(game, second, 2, SearchOptions()).nodes > spent.evaluated / 2


def test_the_table_has_a_row_for_each_search(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--depth", "1", "2", "--positions", "2"])
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.count("|") == 2 + 2 * 3
    assert [row.split("|")[1].strip() for row in rows] == [name for name, _ in variants("simple")]
