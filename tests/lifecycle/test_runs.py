"""Run directories: made once, opened again, refused when they belong to somebody or something else."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import grpc
import pytest

from games.errors import InvalidParameters, UnknownGame
from zerofleet.errors import ConfigurationError, RunDirectoryError
from zerofleet.rpc.channels import open_channel
from zerofleet.rpc.security.ports import bind
from zerofleet.storage.run_lookup import named_run
from zerofleet.storage.runs import RunDirectory, RunPaths, read_header, require_run
from zerofleet.storage.streams import open_stream


def make_run(root: Path) -> None:
    RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny", seed=5).close()


def test_a_new_run_has_its_directories_and_its_header(tmp_path: Path) -> None:
    with RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=5) as run:
        assert run.is_new
        assert run.paths.models.is_dir()
        assert json.loads(run.paths.header.read_text())["schema"] == 1
    header = read_header(tmp_path / "run")
    assert (header.game, header.preset, header.seed) == ("tic_tac_toe", "tiny", 5)


def test_a_reopened_run_keeps_its_seed_and_preset(tmp_path: Path) -> None:
    make_run(tmp_path)
    with RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {}, seed=9) as run:
        assert not run.is_new
        assert (run.header.seed, run.header.preset) == (5, "tiny")


def test_a_run_in_use_names_the_process_that_uses_it(tmp_path: Path) -> None:
    with (
        RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {}),
        pytest.raises(RunDirectoryError, match=f"in use by process {os.getpid()}"),
    ):
        RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {})
    make_again = RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {})
    make_again.close()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": 99}, "another version of Zerofleet: run.json has schema 99, this one reads 1"),
        ({"rules_version": 77}, "rules version 77"),
        ({"game": "connect_four"}, "is a run of connect_four, not of tic_tac_toe"),
        ({"parameters": {"rows": "9"}}, "is a run of tic_tac_toe rows=9, not of tic_tac_toe"),
        ({"preset": "gpu"}, "started with --preset gpu, not tiny"),
        ({"seed": "soon"}, "run.json: seed: "),
        ({"seed": -1}, "run.json: seed: Input should be greater than or equal to 0"),
    ],
)
def test_a_run_of_another_game_or_preset_is_refused(tmp_path: Path, change: dict[str, object], text: str) -> None:
    make_run(tmp_path)
    header = tmp_path / "run.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | change))
    with pytest.raises(RunDirectoryError, match=text):
        RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {}, preset="tiny")


@pytest.mark.parametrize("seed", [-1, 1 << 63])
def test_a_run_with_a_seed_out_of_range_is_refused_and_leaves_no_files(tmp_path: Path, seed: int) -> None:
    with pytest.raises(ConfigurationError, match=f"seed {seed} is out of range"):
        RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, seed=seed)
    assert not (tmp_path / "run").exists()


def test_the_largest_seed_is_stored_exactly(tmp_path: Path) -> None:
    RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {}, seed=(1 << 63) - 1).close()
    assert read_header(tmp_path).seed == (1 << 63) - 1


def test_a_refused_run_is_not_left_locked(tmp_path: Path) -> None:
    make_run(tmp_path)
    with pytest.raises(RunDirectoryError):
        RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {}, preset="gpu")
    make_run(tmp_path)


def test_empty_folders_are_no_obstacle_to_a_new_run(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()  # a place for another volume
    make_run(tmp_path)
    assert read_header(tmp_path).game == "tic_tac_toe"


def test_a_start_that_was_killed_while_it_wrote_the_header_is_no_obstacle_to_a_new_run(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "run.json.7-abcd.tmp").write_text('{"schema": 1')
    RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {}).close()
    assert read_header(tmp_path).game == "tic_tac_toe"


def test_a_directory_with_foreign_files_is_not_modified(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunDirectoryError, match="not empty and not a run directory"):
        make_run(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_a_run_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(RunDirectoryError, match="is a file"):
        make_run(tmp_path / "x")


def test_a_truncated_run_header_is_not_mistaken_for_a_new_run(tmp_path: Path) -> None:
    make_run(tmp_path)
    (tmp_path / "run.json").write_text('{"schema": 1, "ga')
    with pytest.raises(RunDirectoryError, match="cannot be read"):
        make_run(tmp_path)


def test_a_run_whose_header_has_a_time_without_a_zone_is_left_out_of_the_choice(tmp_path: Path) -> None:
    for name in ("edited", "sound"):
        make_run(tmp_path / name)
    edited = tmp_path / "edited" / "run.json"
    edited.write_text(json.dumps(json.loads(edited.read_text()) | {"created_at": "2026-11-21T10:00:00"}))
    assert named_run(None, runs=tmp_path) == tmp_path / "sound"
    with pytest.raises(RunDirectoryError, match=r"created_at.*timezone"):
        read_header(tmp_path / "edited")


def test_reading_a_missing_run_header_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="is not a run directory"):
        read_header(tmp_path)
    with pytest.raises(RunDirectoryError, match=r"^there is no folder .*absent; `zerofleet runs` lists the runs$"):
        read_header(tmp_path / "absent")


def test_an_unknown_game_or_parameter_makes_no_directory_entry(tmp_path: Path) -> None:
    with pytest.raises(UnknownGame):
        RunDirectory.create_or_open(tmp_path / "a", "chess", {})
    with pytest.raises(InvalidParameters):
        RunDirectory.create_or_open(tmp_path / "b", "tic_tac_toe", {"rows": "9"})
    assert not (tmp_path / "a" / "run.json").exists()
    RunDirectory.create_or_open(tmp_path / "a", "tic_tac_toe", {}).close()


def test_sockets_of_a_deep_run_directory_stay_short_enough(tmp_path: Path) -> None:
    deep = RunPaths(tmp_path / ("d" * 120))
    assert len(deep.inference_address.removeprefix("unix:")) <= 100
    assert deep.sockets == RunPaths(tmp_path / ("d" * 120)).sockets
    assert RunPaths(tmp_path / "r").sockets == tmp_path / "r" / "sockets"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder whose path leaves room for those of sockets, also for short private ones."""
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


NAMES = ["lr=0.1,b=2", "a#b", "a?b=2", "100%", "a%41b", "with spaces", "weiß 囲碁", "[a]&b;c:d+e"]


@pytest.mark.parametrize("name", NAMES)
async def test_services_of_a_run_reach_one_another_whatever_its_directory_is_called(folder: Path, name: str) -> None:
    async def answer(request: bytes, context: object) -> bytes:
        return request

    method = grpc.unary_unary_rpc_method_handler(answer)
    with RunDirectory.create_or_open(folder / name, "tic_tac_toe", {}) as run:
        server = grpc.aio.server(handlers=[grpc.method_handlers_generic_handler("of.tests", {"Echo": method})])
        bind(server, run.paths.inference_address)
        await server.start()
        try:
            async with open_channel(run.paths.inference_address, ()) as channel:
                assert await channel.unary_unary("/of.tests/Echo")(b"hello") == b"hello"
        finally:
            await server.stop(None)


@pytest.mark.parametrize("name", NAMES)
async def test_the_stream_of_a_run_is_its_file_whatever_the_directory_is_called(tmp_path: Path, name: str) -> None:
    paths = RunPaths(tmp_path / name)
    paths.root.mkdir()
    async with aclosing(open_stream(paths.stream_url, name="games")) as stream:
        await stream.publish("game-0", b"x")
    assert paths.games.is_file()


def test_a_service_with_a_separate_volume_writes_the_run_header_there(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    header = require_run(tmp_path, "tic_tac_toe", {}, preset="tiny")
    assert require_run(tmp_path, "tic_tac_toe", {}, preset="laptop") == header == read_header(tmp_path)
    with pytest.raises(RunDirectoryError, match="is a run of tic_tac_toe, not of connect_four"):
        require_run(tmp_path, "connect_four", {}, preset="tiny")


def test_a_volume_with_lost_and_found_alone_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    make_run(tmp_path)
    assert read_header(tmp_path).seed == 5
