"""The contract of a `ModelStore`, as tests for a store of your own.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def place(self, tmp_path):
            return MyPlace(tmp_path)

The models are small ones of tic-tac-toe. A `StorePlace` is the store and, for tests that tamper with a version, its files.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from safetensors.numpy import save

import games
from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound, StaleEpoch, VersionSkew
from zerofleet.storage.model_store import ModelStore
from zerofleet.testing.models import MODEL, sample_files, sample_manifest

__all__ = ["StoreContract", "StorePlace"]

FILES = ("model.pt", "weights.safetensors", "model.py")
MANIFEST = sample_manifest()


class StorePlace(Protocol):
    """A store and the place where it keeps its files; a file is named below the model, such as `1/model.pt`."""

    @property
    def store(self) -> ModelStore:
        """The store, empty at first."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None when it is not there."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a file behind the back of the store."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file behind the back of the store."""
        ...


class StoreContract:
    """Tests of a `ModelStore`. A subclass has the fixture `place`, a `StorePlace` with an empty store."""

    @pytest.fixture
    def store(self, place: StorePlace) -> ModelStore:
        """The store under test."""
        return place.store

    @pytest.fixture
    def published(self, place: StorePlace) -> StorePlace:
        """The place of a store with version 1."""
        place.store.publish(MODEL, sample_files(), MANIFEST)
        return place

    @pytest.fixture
    def three(self, place: StorePlace) -> ModelStore:
        """The store with versions 1, 2 and 3."""
        for fill in (1.0, 2.0, 3.0):
            place.store.publish(MODEL, sample_files(fill), MANIFEST)
        return place.store

    # -- publishing --

    def test_a_published_version_is_listed_and_verifies(self, store: ModelStore) -> None:
        version = store.publish(MODEL, sample_files(), MANIFEST, config="name: 'tic_tac_toe'\n")
        assert version == 1
        assert store.models() == [MODEL]
        assert store.versions(MODEL) == [1]
        found = store.verify(MODEL, 1, game=games.make("tic_tac_toe"))
        assert found.version == 1
        assert set(found.files) == {"model.pt", "model.py", "weights.safetensors"}
        assert store.config(MODEL) == "name: 'tic_tac_toe'\n"

    def test_files_may_be_given_as_paths(self, store: ModelStore, tmp_path: Path) -> None:
        path = tmp_path / "w"
        path.write_bytes(sample_files()["weights.safetensors"])
        store.publish(MODEL, {**sample_files(), "weights.safetensors": path}, MANIFEST)
        assert (store.directory(MODEL, 1) / "weights.safetensors").read_bytes() == path.read_bytes()

    def test_numbers_are_not_given_again_after_a_deletion(self, store: ModelStore) -> None:
        for fill in (1.0, 2.0):
            store.publish(MODEL, sample_files(fill), MANIFEST)
        store.delete(MODEL, 2)
        assert store.publish(MODEL, sample_files(3.0), MANIFEST) == 3
        assert store.versions(MODEL) == [1, 3]

    def test_the_same_weights_twice_are_one_version(self, store: ModelStore) -> None:
        assert store.publish(MODEL, sample_files(1.0), MANIFEST) == 1
        assert store.publish(MODEL, sample_files(1.0), MANIFEST) == 1
        assert store.versions(MODEL) == [1]

    def test_a_repeated_publication_is_one_version_also_after_later_ones_and_where_its_weights_are_its_parents(
        self, three: ModelStore
    ) -> None:
        for parent, fill, version in ((1, 2.0, 2), (2, 3.0, 3), (3, 3.0, 3), (0, 1.0, 1)):
            assert three.publish(MODEL, sample_files(fill), replace(MANIFEST, parent_version=parent)) == version
        assert three.versions(MODEL) == [1, 2, 3]

    def test_a_copied_version_whose_parent_is_in_another_store_is_copied_once(self, three: ModelStore) -> None:
        assert three.publish(MODEL, sample_files(1.0), replace(MANIFEST, parent_version=40)) == 1

    def test_a_corrupt_version_does_not_stand_in_for_a_repeated_publication(self, published: StorePlace) -> None:
        published.write("1/model.pt", b"")
        assert published.store.publish(MODEL, sample_files(), MANIFEST) == 2

    def test_concurrent_publishers_get_distinct_versions(self, store: ModelStore) -> None:
        with ThreadPoolExecutor(8, thread_name_prefix="publisher") as pool:
            versions = list(pool.map(lambda i: store.publish(MODEL, sample_files(float(i)), MANIFEST), range(16)))
        assert sorted(versions) == list(range(1, 17))
        assert store.versions(MODEL) == list(range(1, 17))

    @pytest.mark.parametrize("name", ["../az", "az/../az", "az\0", "a" * 5000, "", "Az", "\uff41z", "1az", "."])
    def test_names_outside_the_pattern_never_reach_a_path(self, store: ModelStore, name: str) -> None:
        with pytest.raises(InvalidRequest):
            store.versions(name)

    @pytest.mark.parametrize("version", [0, -1, 2**64, "01", "1e3", "..", "1/../1"])
    def test_versions_that_are_not_stored_are_not_found(self, published: StorePlace, version: Any) -> None:
        with pytest.raises(ModelNotFound, match="latest stored are: 1"):
            published.store.verify(MODEL, version)

    @pytest.mark.parametrize("name", ["../x", "manifest.json", ".hidden", "a/b"])
    def test_files_with_unfit_names_are_refused(self, store: ModelStore, name: str) -> None:
        with pytest.raises(InvalidRequest):
            store.publish(MODEL, {**sample_files(), name: b""}, MANIFEST)
        assert store.versions(MODEL) == []

    @pytest.mark.parametrize("content", [b"\xff\xfe\0", "²".encode(), "٣".encode(), b"", b"-1", b"1" * 60, b"rubbish"])
    def test_a_counter_that_is_not_a_number_is_refused_and_names_file_and_remedy(
        self, published: StorePlace, content: bytes
    ) -> None:
        published.write(".last_version", content)
        with pytest.raises(CorruptModel, match=r"\.last_version holds .* want the highest version number"):
            published.store.publish(MODEL, sample_files(2.0), MANIFEST)
        published.write(".last_version", b"7\n")
        assert published.store.publish(MODEL, sample_files(2.0), MANIFEST) == 8

    def test_a_lost_counter_takes_no_number_back(self, published: StorePlace) -> None:
        published.remove(".last_version")
        assert published.store.publish(MODEL, sample_files(2.0), MANIFEST) == 2

    @pytest.mark.parametrize("number", [10**9, 10**18 - 1, 2**63 - 1])
    def test_numbers_do_not_run_off_after_a_version_that_nobody_published(self, published: StorePlace, number: int) -> None:
        published.write(f"{number}/model.pt", b"")
        with pytest.raises(CorruptModel, match=f"{number} was not published by Zerofleet.*move it away"):
            published.store.publish(MODEL, sample_files(2.0), MANIFEST)

    @pytest.mark.parametrize("number", [10**9, 10**18 - 1, 2**63 - 1])
    def test_numbers_do_not_run_off_after_a_counter_that_nobody_reached(self, published: StorePlace, number: int) -> None:
        published.write(".last_version", str(number).encode())
        with pytest.raises(CorruptModel, match="last_version"):
            published.store.publish(MODEL, sample_files(2.0), MANIFEST)

    def test_a_configuration_that_is_not_text_is_refused_and_written_anew_by_the_next_version(self, place: StorePlace) -> None:
        place.store.publish(MODEL, sample_files(), MANIFEST, config="name: 'a'\n")
        place.write("config.pbtxt", b"\xff\xfe")
        with pytest.raises(CorruptModel, match=r"config\.pbtxt is not text .*remove it"):
            place.store.config(MODEL)
        place.store.publish(MODEL, sample_files(2.0), MANIFEST, config="name: 'a'\n")
        assert place.store.config(MODEL) == "name: 'a'\n"

    # -- the champion --

    def test_there_is_no_champion_at_first(self, three: ModelStore) -> None:
        assert three.champion(MODEL) is None
        assert three.settled_champion(MODEL) is None
        assert three.history(MODEL) == []

    def test_a_champion_is_written_with_its_manifests_hash_and_kept_in_the_history(self, three: ModelStore) -> None:
        first = three.write_champion(MODEL, 1, epoch=1, reason="first model")
        second = three.write_champion(MODEL, 3, epoch=2, reason="won")
        assert three.champion(MODEL) == second
        assert three.settled_champion(MODEL) == second
        assert three.history(MODEL) == [first, second]
        assert second.manifest_sha256 == three.manifest_sha256(MODEL, 3)

    def test_the_champion_cannot_be_deleted(self, three: ModelStore) -> None:
        three.write_champion(MODEL, 1, epoch=1, reason="first")
        with pytest.raises(InvalidRequest, match="promote another"):
            three.delete(MODEL, 1)

    @pytest.mark.parametrize("damage", [b"\xff\xfe", b"{", b'{"model": "tic_tac_toe"}', b"[" * 100_000])
    def test_an_unreadable_line_of_the_history_is_skipped_and_kept(
        self, three: ModelStore, place: StorePlace, damage: bytes
    ) -> None:
        for epoch, version in enumerate((1, 2), start=1):
            three.write_champion(MODEL, version, epoch=epoch, reason="won")
        first, second = _read(place, "champion_history.jsonl").splitlines(keepends=True)
        place.write("champion_history.jsonl", first + damage + b"\n" + second)
        assert [champion.version for champion in three.history(MODEL)] == [1, 2]
        with pytest.raises(CorruptModel, match=r"champion_history\.jsonl line 2.*restore the line"):
            three.history(MODEL, whole=True)
        three.write_champion(MODEL, 3, epoch=3, reason="won")
        assert [champion.version for champion in three.history(MODEL)] == [1, 2, 3]
        assert _read(place, "champion_history.jsonl").splitlines()[1] == damage

    @pytest.mark.parametrize("epoch", [1, 4, 5])
    def test_a_stale_epoch_is_refused(self, three: ModelStore, epoch: int) -> None:
        first = three.write_champion(MODEL, 1, epoch=5, reason="first")
        with pytest.raises(StaleEpoch, match="epoch 5"):
            three.write_champion(MODEL, 2, epoch=epoch, reason="late")
        assert three.champion(MODEL) == first

    def test_a_champion_that_the_writer_does_not_know_is_not_replaced(self, three: ModelStore) -> None:
        first = three.write_champion(MODEL, 1, epoch=1, reason="first", after=0)
        with pytest.raises(StaleEpoch, match="epoch 1, not 0"):
            three.write_champion(MODEL, 2, epoch=7, reason="late", after=0)
        assert three.champion(MODEL) == first
        three.write_champion(MODEL, 3, epoch=7, reason="won", after=1)
        assert [champion.version for champion in three.history(MODEL)] == [1, 3]

    def test_a_corrupt_version_never_becomes_champion(self, three: ModelStore, place: StorePlace) -> None:
        first = three.write_champion(MODEL, 1, epoch=1, reason="first")
        place.write("2/model.pt", b"")
        with pytest.raises(CorruptModel):
            three.write_champion(MODEL, 2, epoch=2, reason="won")
        assert three.champion(MODEL) == first

    def test_a_missing_version_never_becomes_champion(self, three: ModelStore) -> None:
        with pytest.raises(ModelNotFound):
            three.write_champion(MODEL, 9, epoch=1, reason="?")

    @pytest.mark.parametrize("left", [True, False])
    def test_a_version_directory_without_its_files_is_never_champion(self, published: StorePlace, *, left: bool) -> None:
        store = published.store
        first = store.write_champion(MODEL, 1, epoch=1, reason="first")
        published.write("2/model.pt", b"a model")
        if not left:
            published.remove("2/model.pt")  # a directory stays, empty; a bucket knows nothing of it
        with pytest.raises((CorruptModel, ModelNotFound)):
            store.verify(MODEL, 2)
        with pytest.raises((CorruptModel, ModelNotFound)):
            store.write_champion(MODEL, 2, epoch=2, reason="empty")
        assert store.champion(MODEL) == first

    # -- verification --

    @pytest.mark.parametrize("name", [*FILES, "manifest.json"])
    @pytest.mark.parametrize("keep", ["0", "1", "100", "half", "all but one"])
    def test_a_truncated_file_is_refused(self, published: StorePlace, name: str, keep: str) -> None:
        content = _read(published, f"1/{name}")
        length = {"0": 0, "1": 1, "100": 100, "half": len(content) // 2, "all but one": len(content) - 1}[keep]
        if name == "manifest.json" and keep == "all but one":
            length -= 1  # its last byte is a line feed, which JSON does not need
        published.write(f"1/{name}", content[: min(length, len(content) - 1)])
        with pytest.raises(CorruptModel):
            published.store.verify(MODEL, 1)

    @pytest.mark.parametrize("name", FILES)
    def test_a_flipped_bit_is_refused(self, published: StorePlace, name: str) -> None:
        content = bytearray(_read(published, f"1/{name}"))
        content[len(content) // 2] ^= 1
        published.write(f"1/{name}", bytes(content))
        with pytest.raises(CorruptModel, match="sha256"):
            published.store.verify(MODEL, 1)

    @pytest.mark.parametrize("name", FILES)
    def test_a_missing_file_is_refused(self, published: StorePlace, name: str) -> None:
        published.remove(f"1/{name}")
        with pytest.raises(CorruptModel, match="missing"):
            published.store.verify(MODEL, 1)

    @pytest.mark.parametrize("name", ["model.pt.bak", "more/model.pt"])
    def test_an_extra_file_is_refused(self, published: StorePlace, name: str) -> None:
        published.write(f"1/{name}", b"")
        with pytest.raises(CorruptModel, match=name.partition("/")[0]):
            published.store.verify(MODEL, 1)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_weights_that_are_not_finite_are_refused(self, store: ModelStore, bad: float) -> None:
        weights = save({"stem.weight": np.array([1.0, bad], np.float32)})
        store.publish(MODEL, {**sample_files(), "weights.safetensors": weights}, MANIFEST)
        with pytest.raises(CorruptModel, match=r"stem\.weight is not finite"):
            store.verify(MODEL, 1)

    @pytest.mark.parametrize("name", ["model.pt", "weights.safetensors"])
    @pytest.mark.parametrize("form", ["pickle", "array of objects", "pickle in a zip"])
    def test_code_in_the_place_of_data_is_refused_and_never_run(
        self, store: ModelStore, tmp_path: Path, name: str, form: str
    ) -> None:
        payload = _Payload(tmp_path / "was_run")
        content = {
            "pickle": pickle.dumps(payload),
            "array of objects": _array_of_objects(payload),
            "pickle in a zip": _zip(payload),
        }
        store.publish(MODEL, {**sample_files(), name: content[form]}, MANIFEST)
        with pytest.raises(CorruptModel):
            store.verify(MODEL, 1)
        with pytest.raises(CorruptModel):
            store.write_champion(MODEL, 1, epoch=1, reason="")
        assert not payload.path.exists()
        assert store.champion(MODEL) is None

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("game", "connect_four"),
            ("parameters", {"size": "4"}),
            ("rules_version", 2),
            ("planes", (3, 3, 3)),
            ("num_actions", 7),
            ("max_legal", 7),
            ("num_players", 3),
            ("encoder", "0" * 16),
        ],
    )
    def test_a_model_of_another_game_is_refused_with_both_named(self, store: ModelStore, name: str, value: Any) -> None:
        store.publish(MODEL, sample_files(), replace(MANIFEST, **{name: value}))
        with pytest.raises(VersionSkew, match=rf"has {name} .*, this program wants "):
            store.verify(MODEL, 1, game=games.make("tic_tac_toe"))

    def test_another_schema_is_refused_with_both_named(self, published: StorePlace) -> None:
        _edit(published, schema=3, whatever="new")
        with pytest.raises(VersionSkew, match="schema 3, this program reads schema 1 and 2"):
            published.store.verify(MODEL, 1)

    @pytest.mark.parametrize("changes", [{"version": 7}, {"model": "connect_four"}])
    def test_a_manifest_of_another_version_or_model_is_refused(self, published: StorePlace, changes: dict[str, Any]) -> None:
        _edit(published, **changes)
        with pytest.raises(VersionSkew, match="describes"):
            published.store.verify(MODEL, 1)

    @pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 100_000])
    def test_a_manifest_that_is_no_manifest_is_refused(self, published: StorePlace, text: bytes) -> None:
        published.write("1/manifest.json", text)
        with pytest.raises(CorruptModel):
            published.store.verify(MODEL, 1)

    def test_golden_positions_come_back_as_they_went_in(self, published: StorePlace) -> None:
        stored = published.store.manifest(MODEL, 1).golden.arrays()
        for got, want in zip(stored, MANIFEST.golden.arrays(), strict=True):
            np.testing.assert_array_equal(got, want)


class _Payload:
    """An object whose unpickling makes a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


def _array_of_objects(payload: _Payload) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([payload], dtype=object), allow_pickle=True)
    return out.getvalue()


def _zip(payload: _Payload) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("model/data.pkl", pickle.dumps(payload))
        file.writestr("model/version", b"3")
    return out.getvalue()


def _edit(place: StorePlace, /, **changes: Any) -> None:
    """Change fields of the manifest of version 1."""
    stored = json.loads(_read(place, "1/manifest.json"))
    place.write("1/manifest.json", json.dumps({**stored, **changes}).encode())


def _read(place: StorePlace, name: str) -> bytes:
    content = place.read(name)
    assert content is not None, f"{name} is not where the place looks for it"
    return content
