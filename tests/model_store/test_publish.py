"""Publishing: numbers, renames, concurrent publishers, a disk that refuses."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save

from zerofleet.errors import Unavailable
from zerofleet.storage.model_store import DirectoryStore, base, directory, open_model_store
from zerofleet.storage.model_store.known_weights import KnownWeights

MODEL = "tic_tac_toe"


directory_only = pytest.mark.parametrize("kind", ["directory"])


def test_the_configuration_of_a_model_lies_beside_its_versions_at_the_location_of_the_store(store, place, files, manifest):
    store.publish(MODEL, files(), manifest, config="name: 'tic_tac_toe'\n")
    assert place.read("config.pbtxt") == b"name: 'tic_tac_toe'\n"
    assert store.location == place.location


def test_a_publication_reads_only_manifests_that_the_store_has_not_read_before(store, files, manifest, monkeypatch):
    read, read_manifest = [], base.read_manifest

    def counted(text, model, version, *, where):
        read.append(version)
        return read_manifest(text, model, version, where=where)

    monkeypatch.setattr(base, "read_manifest", counted)
    for fill in range(1, 6):
        store.publish(MODEL, files(float(fill)), manifest)
    assert len(read) == len(set(read)) == 4
    assert store.publish(MODEL, files(2.0), manifest) == 2


def test_a_publication_looks_at_no_version_before_its_parent(store, files, manifest, monkeypatch):
    for fill in (1.0, 2.0, 3.0):
        store.publish(MODEL, files(fill), manifest)
    looked_at, hash_of = [], KnownWeights._hash

    def counted(self, store, model, version, state):
        looked_at.append(version)
        return hash_of(self, store, model, version, state)

    monkeypatch.setattr(KnownWeights, "_hash", counted)
    assert store.publish(MODEL, files(4.0), replace(manifest, parent_version=2)) == 4
    assert looked_at == [3, 2]


@directory_only
def test_a_manifest_that_was_replaced_is_read_again_by_the_next_publication(store, files, manifest):
    for fill in (1.0, 2.0):
        store.publish(MODEL, files(fill), manifest)
    path = store.directory(MODEL, 1) / "manifest.json"
    intact = path.read_bytes()
    path.write_text("{")
    assert store.publish(MODEL, files(1.0), manifest) == 3
    store.delete(MODEL, 3)
    path.write_bytes(intact)
    assert store.publish(MODEL, files(1.0), manifest) == 1


@directory_only
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failing_disk_changes_nothing_and_the_call_can_be_retried(store, files, manifest, monkeypatch, code):
    store.publish(MODEL, files(1.0), manifest)

    def refuse(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(Unavailable, match="nothing was changed"):
            store.publish(MODEL, files(2.0), manifest)
    assert store.versions(MODEL) == [1]
    assert not list((store.root / MODEL).glob(".*.tmp"))
    assert store.publish(MODEL, files(2.0), manifest) in {2, 3}


@directory_only
def test_readers_ignore_entries_that_are_not_versions(store, files, manifest):
    store.publish(MODEL, files(), manifest)
    home = store.root / MODEL
    for name in (".7.tmp", "8.tmp", "01", "notes", "٣"):
        (home / name).mkdir()
    (home / "9").write_text("a file")
    (store.root / ".cache").mkdir()
    assert store.versions(MODEL) == [1]
    assert store.models() == [MODEL]


CRASHING = """
    import pickle, sys
    from zerofleet.storage.model_store import open_model_store
    files, manifest = pickle.loads(sys.stdin.buffer.read())
    open_model_store(sys.argv[1]).publish("tic_tac_toe", files, manifest)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "point", "visible"),
    [
        ("directory", "store_after_files_before_manifest", []),
        ("directory", "store_after_manifest_before_rename", []),
        ("directory", "store_after_rename", [1]),
        ("objects", "store_between_objects", []),
        ("objects", "store_between_objects:3", []),
        ("objects", "store_after_files_before_manifest", []),
        ("objects", "store_after_manifest", [1]),
    ],
)
def test_a_publisher_killed_at_a_named_point_leaves_all_or_nothing(store, place, files, manifest, game, point, visible):
    environment = {**os.environ, "ZEROFLEET_TEST_CRASH_AT": point}
    command = [sys.executable, "-c", textwrap.dedent(CRASHING), place.location]
    died = subprocess.run(command, input=pickle.dumps((files(1.0), manifest)), env=environment, timeout=60, check=False)
    assert died.returncode == -9
    assert store.versions(MODEL) == visible
    following = store.publish(MODEL, files(2.0), manifest)
    assert following == 2
    assert store.versions(MODEL) == [*visible, 2]
    assert not [name for name in place.names() if ".tmp" in name]
    for version in store.versions(MODEL):
        store.verify(MODEL, version, game=game)


@directory_only
def test_a_version_completed_by_another_process_during_the_sweep_is_no_error(store, files, manifest, monkeypatch):
    store.publish(MODEL, files(1.0), manifest)
    real = os.open

    def finished_meanwhile(path, *arguments, **options):
        if str(path).endswith(".7.tmp"):
            path.rename(path.with_name("7"))
        return real(path, *arguments, **options)

    (store.root / MODEL / ".7.tmp").mkdir()
    monkeypatch.setattr(os, "open", finished_meanwhile)
    assert store.publish(MODEL, files(2.0), manifest) == 8


@directory_only
def test_a_deleted_version_that_a_publisher_sweeps_meanwhile_is_no_error(store, files, manifest, monkeypatch):
    store.publish(MODEL, files(1.0), manifest)
    monkeypatch.setattr(directory, "sync_directory", DirectoryStore._sweep)
    store.delete(MODEL, 1)
    assert store.versions(MODEL) == []


def _publish_many(location, payload, fills, results):
    files, manifest = pickle.loads(payload)
    for fill in fills:
        content = {**files, "weights.safetensors": save({"w": np.full(3, fill, np.float32)})}
        results.put(open_model_store(location).publish(MODEL, content, manifest))


@pytest.mark.slow
def test_publishing_processes_get_distinct_versions(place, files, manifest):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    payload = pickle.dumps((files(), manifest))
    processes = [
        context.Process(target=_publish_many, args=(place.location, payload, range(i * 10, i * 10 + 5), results))
        for i in range(2)
    ]
    for process in processes:
        process.start()
    versions = [results.get(timeout=60) for _ in range(10)]
    for process in processes:
        process.join(60)
    assert sorted(versions) == list(range(1, 11))
