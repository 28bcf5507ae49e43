"""P4 in one process: what the pointer may name, and what a reader of it sees while it is written."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from durable_disk import DurableDisk
from promise_tools import borrowed
from safetensors.numpy import save

from zerofleet.contracts.lineage import NOT_SELF_TESTED
from zerofleet.contracts.manifests import check_golden
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import CorruptModel, Unavailable
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.testing.models import sample_archive

gatekeeper_tests = borrowed("promise_gatekeeper", "gatekeeper/conftest.py")
MODEL = gatekeeper_tests.MODEL
NAN = np.full((2, 3), np.nan, np.float32)


@pytest.fixture
def models(tmp_path):
    """A store with three versions, of which the first is champion."""
    found = gatekeeper_tests.Models(tmp_path / "models")
    for _ in range(3):
        found.publish()
    found.store.write_champion(MODEL, 1, epoch=1, reason="first")
    return found


def test_p4_who_reads_the_pointer_during_a_promotion_gets_the_old_champion_whole(models):
    path = models.store.root / MODEL / "champion.json"
    before = path.read_bytes()
    with path.open("rb") as reader:
        models.store.write_champion(MODEL, 2, epoch=2, reason="second")
        assert reader.read() == before
    assert models.store.champion(MODEL).version == 2


def test_p4_after_a_power_loss_the_pointer_names_the_promoted_model_and_the_model_is_whole(tmp_path, monkeypatch):
    disk = DurableDisk(tmp_path / "models").installed(monkeypatch)
    models = gatekeeper_tests.Models(disk.root)
    for version in (1, 2):
        models.publish()
        models.store.write_champion(MODEL, version, epoch=version, reason="")
        left = DirectoryStore(disk.after_power_loss(tmp_path / f"left {version}"))
        assert left.champion(MODEL).version == version
        assert left.verify(MODEL, version).version == version
        assert [one.version for one in left.history(MODEL)] == list(range(1, version + 1))


def test_p4_a_pointer_with_a_flipped_bit_makes_no_other_stored_version_champion(models):
    path = models.store.root / MODEL / "champion.json"
    known, sound = models.store.champion(MODEL), path.read_bytes()
    path.write_bytes(sound.replace(b'"version": 1', b'"version": 3'))
    for store in (models.store, DirectoryStore(models.store.root)):
        with pytest.raises(CorruptModel, match="restore it"):
            store.champion(MODEL)
    path.write_bytes(sound)
    assert models.store.champion(MODEL) == known


def flip_a_bit(models, version) -> None:
    models.damage(version)


def remove_a_file(models, version) -> None:
    (models.store.directory(MODEL, version) / "model.pt").unlink()


def list_no_files(models, version) -> None:
    for name in ("model.pt", "weights.safetensors", "model.py"):
        (models.store.directory(MODEL, version) / name).unlink()
    models.edit(version, files={})


def add_a_file(models, version) -> None:
    (models.store.directory(MODEL, version) / "more.py").write_text("import os\n")


def have_no_golden_positions(models, version) -> None:
    models.edit(version, golden={"positions": 0, "states": "", "legal": "", "policy": "", "value": ""})


@pytest.mark.parametrize("harm", [flip_a_bit, remove_a_file, list_no_files, add_a_file, have_no_golden_positions])
def test_p4_a_damaged_or_incomplete_version_never_becomes_champion(models, harm):
    harm(models, 2)
    with pytest.raises(CorruptModel):
        models.store.write_champion(MODEL, 2, epoch=2, reason="forced")
    assert models.store.champion(MODEL).version == 1


def archive_of(numbers: np.ndarray) -> bytes:
    """Return a TorchScript archive with one tensor storage, as its exporter writes it."""
    storage = b"\x80\x02((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x02tQt."
    return sample_archive(**{"data.pkl": storage, "data/0": numbers.tobytes()})


@pytest.mark.parametrize("spoilt", ["none", "weights.safetensors", "model.pt"])
def test_p4_a_model_that_is_not_finite_never_becomes_champion(models, spoilt):
    sound = np.full_like(NAN, 7.0)  # weights of no other version
    files = {
        "model.pt": archive_of(NAN if spoilt == "model.pt" else sound),
        "weights.safetensors": save({"stem.weight": NAN if spoilt == "weights.safetensors" else sound}),
        "model.py": b"import torch\n",
    }
    version = models.store.publish(MODEL, files, gatekeeper_tests.template())
    if spoilt == "none":
        assert models.store.write_champion(MODEL, version, epoch=2, reason="").version == version
        return
    with pytest.raises(CorruptModel, match="not finite"):
        models.store.write_champion(MODEL, version, epoch=2, reason="forced")
    assert models.store.champion(MODEL).version == 1


@pytest.mark.parametrize("off", ["policy", "value"])
def test_p4_the_self_test_refuses_a_model_whose_answers_are_not_its_exporters(off):
    manifest = gatekeeper_tests.template()
    _, legal, policy, value = manifest.golden.arrays()
    check_golden(manifest, policy, value)
    if off == "value":
        value = value + np.float32(0.5)
    else:
        policy = np.zeros_like(policy)
        policy[:, 0] = 1.0
        assert (legal[:, 0] >= 0).all()
    with pytest.raises(CorruptModel, match=f"with {off} off by"):
        check_golden(manifest, policy, value)


@pytest.mark.slow
def test_p4_an_inference_server_loads_no_model_that_fails_its_self_test(tmp_path):
    from inference_server.backend import TorchBackend  # noqa: PLC0415 - torch, for the tests that need it
    from trainer.export import Lineage, export_network  # noqa: PLC0415
    from trainer.network import new_network  # noqa: PLC0415
    from zerofleet.presets import NetworkSettings  # noqa: PLC0415

    store, game = DirectoryStore(tmp_path), gatekeeper_tests.make(MODEL)
    small = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)
    for seed in (1, 2):
        export_network(store, game, new_network(game.spec(), small, seed=seed), small, lineage=Lineage())
    first, second = (store.verify(MODEL, version) for version in (1, 2))
    backend = TorchBackend("cpu", "float32", threads=1)
    path = store.directory(MODEL, 1) / "model.pt"
    assert backend.load(path, first, max_batch=1) is not None
    with pytest.raises(CorruptModel, match="golden positions"):
        backend.load(path, replace(first, golden=second.golden), max_batch=1)


@pytest.fixture
def inference():
    return gatekeeper_tests.FakeInference()


def opened(tmp_path, models, inference, **gate):
    return gatekeeper_tests.running(gatekeeper_tests.make_settings(tmp_path, **gate), models, inference)


async def test_p4_a_candidate_that_no_server_has_loaded_waits_and_is_not_promoted(tmp_path, inference, quick_retries):
    models = gatekeeper_tests.Models(tmp_path / "models")
    async with opened(tmp_path, models, inference) as gate:
        inference.away = True
        version, sha256 = models.publish()
        await gate.client.submit(MODEL, version, sha256)
        async with asyncio.timeout(60):
            await inference.asked_in_vain.get()
            await inference.asked_in_vain.get()
        assert models.store.champion(MODEL) is None
        assert not gate.ledger.candidate(version).status.settled
        inference.away = False
        assert (await gate.settled(version)).status is CandidateStatus.PROMOTED
        assert version in inference.served


async def test_p4_a_promotion_by_hand_needs_a_self_test_or_the_operators_flag(tmp_path, inference, quick_retries):
    models = gatekeeper_tests.Models(tmp_path / "models")
    async with opened(tmp_path, models, inference, mode="off") as gate:
        first, second = models.publish(), models.publish()
        await gate.client.promote(MODEL, first[0], reason="")
        inference.away = True
        with pytest.raises(Unavailable, match="not self-tested"):
            await gate.client.promote(MODEL, second[0], reason="")
        assert models.store.champion(MODEL).version == first[0]
        noted = await gate.client.promote(MODEL, second[0], reason="", without_self_test=True)
        assert noted.reason.endswith(NOT_SELF_TESTED)
        # The content of the first champion is exchanged: its former self-test does not count for the new one.
        models.edit(first[0], train_steps=11)
        with pytest.raises(Unavailable, match="not self-tested"):
            await gate.client.promote(MODEL, first[0], reason="")
        assert models.store.champion(MODEL).version == second[0]


async def test_p4_a_candidate_that_the_server_cannot_load_is_broken(tmp_path, inference, quick_retries):
    models = gatekeeper_tests.Models(tmp_path / "models")
    async with opened(tmp_path, models, inference, mode="off") as gate:
        assert (await gate.offer()).status is CandidateStatus.PROMOTED
        inference.broken = {2}
        assert (await gate.offer()).status is CandidateStatus.BROKEN
        with pytest.raises(CorruptModel):
            await gate.client.promote(MODEL, 2, reason="", without_self_test=True)
        assert models.store.champion(MODEL).version == 1
