"""An announce file of another container names another process, and one in a copy of a run no process of the copy."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from zerofleet.service.process_identity import announce_place, pid_namespace, start_ticks
from zerofleet.supervisor.overview import live_service


def announce(path: Path, **more: str | int | None) -> Path:
    path.write_text(json.dumps({"pid": os.getpid(), "address": "127.0.0.1:1", "metrics_port": 9, **more}))
    return path


def test_a_service_is_alive_only_in_the_namespace_of_its_process_id(tmp_path):
    assert live_service(announce(tmp_path / "here.json", pid_namespace=pid_namespace())) is not None
    assert live_service(announce(tmp_path / "there.json", pid_namespace="pid:[1]")) is None
    assert live_service(announce(tmp_path / "of_an_older_release.json")) is not None


def test_a_service_stays_alive_when_the_clock_is_set_and_its_number_is_not_that_of_another_process(tmp_path):
    own, other = start_ticks(os.getpid()), start_ticks(1)
    named = announce(tmp_path / "trainer.json", start_ticks=own)
    os.utime(named, (0, 0))  # the process seems to begin after its file
    assert live_service(named) is not None
    assert live_service(announce(tmp_path / "trainer.json", start_ticks=other)) is None
    os.utime(announce(tmp_path / "of_an_older_release.json"), (0, 0))
    assert live_service(tmp_path / "of_an_older_release.json") is None
    assert start_ticks(2**30) is None


@pytest.mark.parametrize("name", ["run", "n\udcffm"])
def test_a_copy_of_the_directory_of_a_live_run_has_no_live_service(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    own = announce(folder / "trainer.json", place=announce_place(folder / "trainer.json"))
    (tmp_path / "link").symlink_to(folder)
    shutil.copytree(folder, tmp_path / "copy", copy_function=os.link)  # as snapshots of a backup share files
    assert live_service(own) is not None
    assert live_service(tmp_path / "link" / "trainer.json") is not None
    assert live_service(tmp_path / "copy" / "trainer.json") is None


@pytest.mark.parametrize("content", ["[]", "0", "null", '"7"', "{}", '{"pid": "?"}', "{"])
def test_a_damaged_announce_file_names_no_service(tmp_path, content):
    (tmp_path / "trainer.json").write_text(content)
    assert live_service(tmp_path / "trainer.json") is None
