"""The history of a run: files that survive a crash, sinks that may fail, extras by setting."""

from __future__ import annotations

import csv
import errno
import json
import os
import sys
import types

import pytest
import structlog

from trainer import history as history_module
from trainer.history import open_history
from trainer.run_figures import RunFigures
from zerofleet.errors import ConfigurationError


def test_history_continues_after_a_line_cut_short_by_a_crash(tmp_path):
    history = open_history(tmp_path)
    history.write(1, {"losses/total": 1.0})
    for name in ("trainer.jsonl", "trainer.csv"):
        with (tmp_path / name).open("a") as file:
            file.write('{"half')
    again = open_history(tmp_path)
    again.write(2, {"losses/total": 0.5})
    assert [json.loads(line)["step"] for line in (tmp_path / "trainer.jsonl").read_text().splitlines()] == [1, 2]
    with (tmp_path / "trainer.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["1", "2"]


def test_a_pipe_in_the_place_of_a_file_is_left_out_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "trainer.jsonl")
    history = open_history(tmp_path)
    history.write(1, {"losses/total": 1.0})
    with (tmp_path / "trainer.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["1"]
    (tmp_path / "trainer.csv").unlink()
    os.mkfifo(tmp_path / "trainer.csv")  # while it is written
    history.write(2, {"losses/total": 1.0})
    assert not history._sinks


def test_a_full_disk_costs_the_rows_of_its_time_alone(tmp_path, monkeypatch):
    whole = history_module.append_plain
    history = open_history(tmp_path)
    history.write(1, {"losses/total": 1.0})

    def fills_up(path, text):
        whole(path, text[:6])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(history_module, "append_plain", fills_up)
    with structlog.testing.capture_logs() as logged:
        history.write(2, {"losses/total": 1.0})
        history.write(3, {"losses/total": 1.0})
    assert [line["event"] for line in logged] == ["history.disk_full"] * 2, "once for each file"
    monkeypatch.setattr(history_module, "append_plain", whole)
    history.write(4, {"losses/total": 1.0})
    assert [json.loads(line)["step"] for line in (tmp_path / "trainer.jsonl").read_text().splitlines()] == [1, 4]
    with (tmp_path / "trainer.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["1", "4"]


@pytest.mark.parametrize("written", [0, 6])
def test_a_csv_file_begun_on_a_full_disk_has_its_columns_once_there_is_space(tmp_path, monkeypatch, written):
    whole = history_module.append_plain

    def fills_up(path, text):
        whole(path, text[:written])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(history_module, "append_plain", fills_up)
        history = open_history(tmp_path)
    history.write(1, {"losses/total": 0.5})
    open_history(tmp_path).write(2, {"losses/total": 0.25})
    with (tmp_path / "trainer.csv").open() as file:
        assert [(row["step"], row["losses/total"]) for row in csv.DictReader(file)] == [("1", "0.5"), ("2", "0.25")]


def test_a_csv_file_begun_by_another_version_keeps_its_columns(tmp_path):
    (tmp_path / "trainer.csv").write_text("time,step,losses/total\n1,1,0.5\n")
    open_history(tmp_path).write(2, {"losses/total": 0.25, "losses/opponents": 3.0})
    with (tmp_path / "trainer.csv").open() as file:
        assert [(row["step"], row["losses/total"]) for row in csv.DictReader(file)] == [("1", "0.5"), ("2", "0.25")]


def test_a_csv_file_with_damaged_columns_is_moved_aside_and_another_begins(tmp_path):
    damaged = b"time,step,\xfflosses/total\n1,1,0.5\n"
    (tmp_path / "trainer.csv").write_bytes(damaged)
    open_history(tmp_path).write(2, {"losses/total": 0.25})
    with (tmp_path / "trainer.csv").open() as file:
        assert [(row["step"], row["losses/total"]) for row in csv.DictReader(file)] == [("2", "0.25")]
    (aside,) = tmp_path.glob("trainer.csv.*")
    assert aside.read_bytes() == damaged


def test_a_csv_file_with_a_damaged_row_goes_on(tmp_path):
    damaged = b"time,step,losses/total\n1,1,\xff\n"
    (tmp_path / "trainer.csv").write_bytes(damaged)
    open_history(tmp_path).write(2, {"losses/total": 0.25})
    assert (tmp_path / "trainer.csv").read_bytes().startswith(damaged)
    assert (tmp_path / "trainer.csv").read_text(errors="replace").endswith(",2,0.25\n")


def test_a_failing_sink_is_dropped_and_the_others_continue(tmp_path):
    history = open_history(tmp_path)

    class Failing:
        def write(self, step, row):
            raise OSError("quota")

        def close(self):
            """Nothing to close."""

    history._sinks.insert(0, Failing())
    history.write(1, {})
    history.write(2, {})
    assert len((tmp_path / "trainer.jsonl").read_text().splitlines()) == 2
    assert len(history._sinks) == 2


def test_tensorboard_and_wandb_get_the_same_figures(tmp_path, monkeypatch):
    seen = []

    class Writer:
        def __init__(self, directory):
            seen.append(("open", directory))

        def add_scalar(self, name, value, step):
            seen.append((name, value, step))

        def close(self):
            seen.append("closed")

    class Run:
        def log(self, row, step):
            seen.append((row, step))

        def finish(self):
            seen.append("finished")

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", types.SimpleNamespace(SummaryWriter=Writer))
    monkeypatch.setitem(
        sys.modules, "wandb", types.SimpleNamespace(init=lambda **given: seen.append(given["project"]) or Run())
    )
    history = open_history(tmp_path, tensorboard=True, wandb_project="az")
    history.write(7, {"losses/value": 0.5})
    history.close()
    assert seen == [
        ("open", str(tmp_path / "tensorboard")),
        "az",
        ("losses/value", 0.5, 7),
        ({"losses/value": 0.5}, 7),
        "finished",
        "closed",
    ]


def test_the_figures_of_the_whole_run_are_passed_on_and_a_resumed_run_is_the_same_run(tmp_path, monkeypatch):
    begun, logged = [], []

    class Run:
        def log(self, row, step):
            logged.append(row)

        def finish(self):
            pass

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda **given: begun.append(given) or Run()))
    path = tmp_path / "run.jsonl"
    path.write_text('{"games": 1}\n')  # of an earlier session
    for session in range(2):
        history = open_history(tmp_path, wandb_project="az", settings={"game": "tic_tac_toe"})
        history.write(session, {"losses/value": 0.5})
        with path.open("a") as file:
            file.write('{"games": 7, "champion": 3, "champion_elo": null, "match_llr": 1.5, "restarts": 0}\n{"games": 8')
        history.write(session, {"losses/value": 0.5})
        with path.open("a") as file:
            file.write("}\n")
        history.close()
    whole = {"losses/value": 0.5, "selfplay/games": 7.0, "gate/champion": 3.0, "gate/match_llr": 1.5}
    assert logged == [{"losses/value": 0.5}, whole] * 2
    assert begun[0]["id"] == begun[1]["id"] != ""
    assert {one["resume"] for one in begun} == {"allow"}
    assert begun[1]["config"] == {"game": "tic_tac_toe"}


def test_a_damaged_id_of_weights_and_biases_is_drawn_anew(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda **given: begun.append(given["id"])))
    (tmp_path / "wandb_id").write_bytes(b"\xff1234")
    for _ in range(2):
        open_history(tmp_path, wandb_project="az")
    assert begun == [(tmp_path / "wandb_id").read_text()] * 2


@pytest.mark.parametrize(("extra", "module"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_missing_extra_is_reported_with_the_command_that_installs_it(tmp_path, monkeypatch, extra, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'zerofleet\[{extra}\]'"):
        open_history(tmp_path, tensorboard=extra == "tensorboard", wandb_project="az" if extra == "wandb" else "")


@pytest.mark.parametrize(
    "line", ["[]", "7", '{"champion": []}', '{"champion": "first"}', '{"champion": 1' + "0" * 400 + "}", "[" * 100_000]
)
def test_a_line_of_the_run_that_holds_no_figures_is_left_out(tmp_path, line):
    (tmp_path / "run.jsonl").write_text("")
    figures = RunFigures(tmp_path / "run.jsonl")
    (tmp_path / "run.jsonl").write_text(f"{line}\n")
    assert figures.latest() == {}
