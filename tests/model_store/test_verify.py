"""Verification: one test a row of the table of bad models."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from zerofleet.contracts.manifests import Golden, check_golden
from zerofleet.errors import CorruptModel, ModelNotFound, Unavailable
from zerofleet.presets import NetworkSettings

MODEL = "tic_tac_toe"
FILES = ["model.pt", "weights.safetensors", "model.py", "manifest.json"]


directory_only = pytest.mark.parametrize("kind", ["directory"])


@pytest.fixture
def published(place, files, manifest):
    """The place of a store with a version."""
    place.store.publish(MODEL, files(), manifest)
    return place


@pytest.fixture
def version(published):
    """The directory of that version."""
    return published.store.directory(MODEL, 1)


def test_a_missing_manifest_is_refused(store, published, kind):
    published.remove("1/manifest.json")
    unlisted = kind == "objects"  # there a version is what has a manifest
    with pytest.raises(ModelNotFound if unlisted else CorruptModel, match="has no version 1" if unlisted else "missing"):
        store.verify(MODEL, 1)


@directory_only
def test_bytecode_of_tritons_python_is_tolerated_and_other_files_in_its_folder_are_not(store, version):
    cache = version / "__pycache__"
    cache.mkdir()
    (cache / "model.cpython-310.pyc").write_bytes(b"")
    store.verify(MODEL, 1)
    (cache / "torch.cpython-310.pyc").write_bytes(b"")
    with pytest.raises(CorruptModel, match="__pycache__"):
        store.verify(MODEL, 1)


@directory_only
@pytest.mark.parametrize("name", FILES)
def test_a_link_in_place_of_a_file_is_refused(store, version, tmp_path, name):
    outside = tmp_path / "outside"
    (version / name).rename(outside)
    (version / name).symlink_to(outside)
    with pytest.raises(CorruptModel, match="not a regular file"):
        store.verify(MODEL, 1)


@directory_only
def test_a_linked_version_directory_is_refused(store, version):
    (version.parent / "2").symlink_to(version)
    with pytest.raises(CorruptModel, match="is a link"):
        store.verify(MODEL, 2)


@directory_only
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(store, version):
    (version / "model.pt").unlink()
    os.mkfifo(version / "model.pt")
    with pytest.raises(CorruptModel, match="not a regular file"):
        store.verify(MODEL, 1)


def test_a_file_over_the_size_limit_is_refused(published):
    with pytest.raises(CorruptModel, match="at most 10 are allowed"):
        published.limited(10).verify(MODEL, 1)


def _zip(**entries: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name.replace("__", "/"), content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (pickle.dumps(os.getcwd), "not a TorchScript archive"),
        (_zip(model__data=b""), "without TorchScript code"),
        (_zip(**{"model__constants.pkl": b"", "model__code__a.py": b""}), "without TorchScript code"),
        (_zip(**{"model__constants.pkl": b"", "model__code__a.py": bytes(1 << 20)}), "unpacks to"),
    ],
)
def test_an_archive_without_torchscript_or_of_excessive_size_is_refused(place, files, manifest, content, complaint):
    place.store.publish(MODEL, {**files(), "model.pt": content}, manifest)
    with pytest.raises(CorruptModel, match=complaint):
        place.limited(1 << 16).verify(MODEL, 1)


def test_weights_that_are_no_safetensors_are_refused(store, files, manifest):
    store.publish(MODEL, {**files(), "weights.safetensors": b"\xff" * 64}, manifest)
    with pytest.raises(CorruptModel, match="is not a valid safetensors file"):
        store.verify(MODEL, 1)


def _edit(place, /, **changes):
    place.write("1/manifest.json", json.dumps({**json.loads(place.read("1/manifest.json")), **changes}).encode())


def test_a_manifest_of_the_schema_before_extra_heads_is_still_read(store, published):
    golden = json.loads(published.read("1/manifest.json"))["golden"]
    del golden["heads"]
    _edit(published, schema=1, golden=golden, network={"blocks": 1, "channels": 4})
    manifest = store.verify(MODEL, 1)
    assert (manifest.schema, manifest.heads, manifest.golden.head_arrays()) == (1, ("policy", "value"), ())
    assert NetworkSettings(blocks=1, channels=4).describes(manifest.network)


@pytest.mark.parametrize(
    "named",
    [
        *({}, {"model.pt": 0}, {"model.pt": 0, "model.py": 0}, {"weights.safetensors": 0, "model.py": 0}),
        *(
            {"x" * 300: 0},
            {"model\0.pt": 0},
            {"model.pt/": 0},
            {"": 0},
            {".": 0},
            {"model.pt": 0, "weights.safetensors": 0, "x": 0},
        ),
    ],
)
def test_a_manifest_with_other_files_than_those_of_a_version_is_refused(store, published, named):
    stored = json.loads(published.read("1/manifest.json"))["files"]
    _edit(published, files={name: stored.get(name, {"sha256": "0" * 64, "size": 0}) for name in named})
    with pytest.raises(CorruptModel, match=r"manifest\.json (names|does not name)"):
        store.verify(MODEL, 1)
    with pytest.raises(CorruptModel):
        store.write_champion(MODEL, 1, epoch=1, reason="")


@directory_only
def test_a_version_without_read_permission_is_corrupt_and_a_failing_store_is_unavailable(store, version, monkeypatch):
    fault = OSError()

    def fail(path):
        raise fault

    monkeypatch.setattr("zerofleet.contracts.model_checks.describe_file", fail)
    for number, error in ((errno.EACCES, CorruptModel), (errno.EIO, Unavailable), (errno.ENOSPC, Unavailable)):
        fault = OSError(number, os.strerror(number))
        with pytest.raises(error, match=os.strerror(number)):
            store.verify(MODEL, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"surprise": 1},
        {"num_actions": "9"},
        {"num_actions": 9.5},
        {"schema": "1"},
        {"files": {"../x": {"sha256": "", "size": 0}}},
        {"files": {"/etc/passwd": {"sha256": "", "size": 0}}},
        {"golden": []},
    ],
)
def test_a_manifest_with_wrong_fields_is_refused(store, published, changes):
    _edit(published, **changes)
    with pytest.raises(CorruptModel):
        store.verify(MODEL, 1)


def test_golden_positions_that_do_not_fit_are_refused(manifest):
    for broken in (
        replace(manifest.golden, positions=7),
        replace(manifest.golden, states="%"),
        replace(manifest.golden, policy=""),
    ):
        with pytest.raises(CorruptModel):
            broken.arrays()


def test_output_within_half_precision_passes_the_golden_check(manifest):
    _, _, policy, value = manifest.golden.arrays()
    check_golden(manifest, policy.astype(np.float16), value + 1e-3)


@pytest.mark.parametrize("damage", ["nan policy", "nan value", "large value", "zero policy", "padding", "other value", "shape"])
def test_wrong_output_fails_the_golden_check(manifest, damage):
    _, legal, policy, value = (array.copy() for array in manifest.golden.arrays())
    match damage:
        case "nan policy":
            policy[0, 0] = np.nan
        case "nan value":
            value[0, 0] = np.nan
        case "large value":
            value[0, 0] = 1.5
        case "zero policy":
            policy[:] = 0
        case "padding":
            policy[legal < 0] = 0.1
        case "other value":
            value[0, 0] = 0.5
        case "shape":
            value = value[:, :1]
    with pytest.raises(CorruptModel):
        check_golden(manifest, policy, value)


@pytest.fixture
def with_heads(manifest):
    """A manifest whose model also says what opponents choose and how much of the game is left."""
    states, legal, policy, value = manifest.golden.arrays()
    extra = np.full((len(states), 9), 1 / 9, np.float32), np.linspace(0, 1, len(states), dtype=np.float32)[:, None]
    golden = Golden.of(states, legal, policy, value, extra)
    return replace(manifest, heads=("policy", "value", "opponents", "plies_left"), golden=golden)


def test_golden_values_of_extra_heads_are_compared(with_heads):
    _, _, policy, value = with_heads.golden.arrays()
    opponents, plies_left = with_heads.golden.head_arrays()
    check_golden(with_heads, policy, value, [opponents.astype(np.float16), plies_left * 0.999])


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (
            lambda opponents, plies_left: [opponents],
            "has 2 extra heads in its manifest, 2 in its golden positions and returns 1",
        ),
        (lambda opponents, plies_left: [plies_left, opponents], "returns opponents of shape"),
        (lambda opponents, plies_left: [opponents * np.nan, plies_left], "opponents that is not finite"),
        (lambda opponents, plies_left: [opponents, plies_left * 1.5], "plies_left from 0.0 to 1.5, want 0 to 1"),
        (lambda opponents, plies_left: [opponents, 1 - plies_left], "plies_left off by 1"),
    ],
)
def test_wrong_output_of_extra_heads_fails_the_golden_check(with_heads, damage, says):
    _, _, policy, value = with_heads.golden.arrays()
    with pytest.raises(CorruptModel, match=says):
        check_golden(with_heads, policy, value, damage(*with_heads.golden.head_arrays()))


def test_a_manifest_with_heads_survives_a_round_trip_through_the_store(store, files, with_heads):
    described = replace(with_heads, network=NetworkSettings(hidden=(5, 4), heads=("opponents", "plies_left")).model_dump())
    store.publish(MODEL, files(), described)
    found = store.verify(MODEL, 1)
    assert (found.network, found.golden, found.schema) == (described.network, described.golden, 2)
