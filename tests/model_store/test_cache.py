"""Local copies: whole, shared, bounded."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from zerofleet.errors import ConfigurationError, CorruptModel, Unavailable
from zerofleet.storage.model_store import cache as cache_module
from zerofleet.storage.model_store.cache import ModelCache


def fill(directory) -> None:
    (directory / "model.pt").write_bytes(bytes(100))


def test_a_copy_is_made_once(tmp_path):
    cache, made = ModelCache(tmp_path / "cache"), []
    for _ in range(2):
        found = cache.directory("go-1", lambda directory: made.append(fill(directory)))
        assert (found / "model.pt").stat().st_size == 100
    assert len(made) == 1


def test_a_failed_copy_leaves_no_files_behind(tmp_path):
    def fail(directory):
        fill(directory)
        raise CorruptModel("no good")

    with pytest.raises(CorruptModel):
        ModelCache(tmp_path).directory("go-1", fail)
    assert list(tmp_path.iterdir()) == []


def test_concurrent_makers_of_a_copy_end_with_one(tmp_path):
    start = Barrier(4)

    def fill_together(directory):
        fill(directory)
        start.wait()

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: ModelCache(tmp_path).directory("go-1", fill_together), range(4)))
    assert found == set(tmp_path.iterdir()) == {tmp_path / "go-1"}


def test_the_least_recently_used_copies_are_evicted(tmp_path):
    cache = ModelCache(tmp_path, max_bytes=250)
    for version in (1, 2):
        cache.directory(f"go-{version}", fill)
    long_ago_s = time.time() - 2 * cache_module.IN_USE_S
    os.utime(tmp_path / "go-2", (long_ago_s, long_ago_s))
    os.utime(tmp_path / "go-1", (long_ago_s - 1, long_ago_s - 1))
    cache.directory("go-1", fill)
    cache.directory("go-3", fill)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["go-1", "go-3"]


def test_a_recently_used_copy_is_kept_even_above_the_capacity(tmp_path):
    cache = ModelCache(tmp_path, max_bytes=1)
    for version in (1, 2):
        assert cache.directory(f"go-{version}", fill).is_dir()
    assert len(list(tmp_path.iterdir())) == 2


def test_old_partial_copies_of_a_killed_process_are_removed(tmp_path):
    for name, age_s in ((".go-1.7-ab.tmp", 2 * cache_module.ABANDONED_S), (".go-2.8-cd.tmp", 0.0)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    (tmp_path / "a stray file").write_text("")
    ModelCache(tmp_path).directory("go-3", fill)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".go-2.8-cd.tmp", "a stray file", "go-3"]


def test_directories_of_others_in_the_cache_are_left_alone(tmp_path):
    names = ("photos", "thesis.tmp", "Go-1", ".go.tmp")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(bytes(1000))
        os.utime(tmp_path / name, (0.0, 0.0))
    ModelCache(tmp_path, max_bytes=1).directory("go-3", fill)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "go-3"])


def test_a_link_in_place_of_the_cache_is_refused(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "home")
    with pytest.raises(ConfigurationError, match="is no directory"):
        ModelCache(tmp_path / "cache").directory("go-1", fill)


def test_a_cache_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigurationError, match="ZEROFLEET_MODEL_CACHE"):
        ModelCache(tmp_path).directory("go-1", fill)


def test_a_failing_disk_makes_the_cache_unavailable(tmp_path):
    (tmp_path / "cache").write_text("a file in its place")
    with pytest.raises(Unavailable, match="cannot store a copy"):
        ModelCache(tmp_path / "cache").directory("go-1", fill)
