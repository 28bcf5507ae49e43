"""The comparison of programs: who takes part, what is missing, and the arithmetic of the table."""

from __future__ import annotations

import re

import pytest

from benchmarks.peers.power import Watts
from benchmarks.peers.throughput import ENVIRONMENTS, Contestant, Measured, contestants, main, missing, table
from benchmarks.peers.turns import Counts, Turn

NO_WATTS = Watts()


def measured(program, games, turns, watts=NO_WATTS):
    """Return a contestant's turns from (evaluations, processor seconds, wall-clock seconds)."""
    taken = tuple(Turn(Counts(n, 2 * n, n // 10, n // 100), cpu_s, wall_s, program) for n, cpu_s, wall_s in turns)
    return Measured(Contestant(program, games), taken, (watts,) * len(taken))


def cells(found, device, row):
    """Return the cells of a row of the table, by heading."""
    heading, _, *rows = table(found, device)
    headings, values = ([cell.strip() for cell in line.strip("|").split("|")] for line in (heading, rows[row]))
    return dict(zip(headings, values, strict=True))


def test_each_program_has_each_number_of_games_and_programs_of_one_game_have_one():
    found = contestants(list(ENVIRONMENTS), [64, 256])
    assert [(one.program, one.games) for one in found] == [
        ("zerofleet", 1),
        ("zerofleet", 64),
        ("pgx_mctx", 64),
        ("zerofleet", 256),
        ("pgx_mctx", 256),
        ("open_spiel", 1),
    ]


def test_zerofleet_plays_one_game_only_beside_a_program_that_does():
    assert Contestant("zerofleet", 1) not in contestants(["zerofleet", "pgx_mctx"], [64])


def test_an_absent_environment_is_named_with_the_commands_that_make_it(tmp_path):
    absent = missing(list(ENVIRONMENTS), tmp_path, "cpu")
    assert set(absent) == {"pgx_mctx", "open_spiel"}
    assert absent["pgx_mctx"].startswith(f"python3.11 -m venv {tmp_path}/pgx && {tmp_path}/pgx/bin/pip install jax==")
    assert "open_spiel==" in absent["open_spiel"]


def test_on_a_gpu_the_command_installs_jax_for_it(tmp_path):
    assert "'jax[cuda12]==" in missing(["pgx_mctx"], tmp_path, "cuda")["pgx_mctx"]


def test_an_environment_that_exists_is_not_missing(tmp_path):
    python = tmp_path / "pgx" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert missing(["pgx_mctx"], tmp_path, "cpu") == {}


def test_rates_on_a_processor_are_those_of_its_seconds():
    row = cells([measured("zerofleet", 8, [(1000, 1.0, 4.0), (3000, 1.0, 4.0)])], "cpu", 0)
    assert row["evaluations a processor second"] == "2,000"
    assert row["simulations a processor second"] == "4,000"
    assert row["plies a processor second"] == "200"
    assert row["games an hour"] == "72,000"
    assert row["cores"] == "0.25"


def test_games_an_hour_need_as_many_finished_games_as_are_played_at_once():
    turns = [(6300, 1.0, 1.0)]  # 63 games
    assert cells([measured("zerofleet", 63, turns)], "cpu", 0)["games an hour"] == "226,800"
    assert cells([measured("zerofleet", 64, turns)], "cpu", 0)["games an hour"] == "too few"


def test_rates_on_a_gpu_are_those_of_the_wall_clock():
    row = cells([measured("zerofleet", 64, [(1000, 1.0, 4.0), (3000, 1.0, 4.0)])], "cuda", 0)
    assert row["evaluations a second"] == "500"


def test_zerofleet_is_compared_at_the_same_number_of_games_round_by_round():
    found = [
        measured("zerofleet", 64, [(1000, 1.0, 1.0), (2000, 1.0, 1.0), (900, 1.0, 1.0)]),
        measured("pgx_mctx", 64, [(500, 1.0, 1.0), (500, 1.0, 1.0), (300, 1.0, 1.0)]),
        measured("pgx_mctx", 256, [(500, 1.0, 1.0)] * 3),
    ]
    assert cells(found, "cpu", 0)["Zerofleet to it"] == ""
    assert cells(found, "cpu", 1)["Zerofleet to it"] == "3.00 (2.00 to 4.00)"
    assert cells(found, "cpu", 2)["Zerofleet to it"] == ""


@pytest.mark.parametrize(
    ("watts", "shown"),
    [
        (Watts(), "not readable / not readable"),
        (Watts(cpu=41.6), "42 / not readable"),
        (Watts(cpu=80.0, gpu=312.4), "80 / 312"),
    ],
)
def test_power_is_shown_where_it_can_be_read(watts, shown):
    assert cells([measured("zerofleet", 64, [(1000, 1.0, 1.0)], watts)], "cpu", 0)["watts CPU / GPU"] == shown


def test_the_command_without_any_environment_names_what_to_install_and_fails(tmp_path, capsys):
    assert main(["--peers", str(tmp_path), "--programs", "pgx_mctx", "open_spiel"]) == 1
    printed = capsys.readouterr().out
    assert re.search("pgx_mctx is not measured.*pip install jax==.*\nopen_spiel is not measured.*pip install jax==", printed)


@pytest.mark.slow
def test_the_command_measures_the_product_where_no_other_program_is_installed(tmp_path, capsys):
    size = ["--blocks", "1", "--channels", "8", "--simulations", "2", "--games", "2"]
    assert main(["--peers", str(tmp_path), *size, "--seconds", "0", "--rounds", "2"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^\| zerofleet \| 2 \| [1-9][\d,]* ", printed, flags=re.MULTILINE)
    assert "- zerofleet " in printed
