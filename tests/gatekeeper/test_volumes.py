"""Two gatekeepers whose volumes know nothing of each other: the pointer's conditional write must be enough."""

from pathlib import Path

import pytest

from gatekeeper.disk import Disk
from gatekeeper.lease import Lease
from gatekeeper.pointer import ChampionPointer
from zerofleet.errors import StaleEpoch
from zerofleet.storage.model_store import open_model_store

MODEL = "tic_tac_toe"


@pytest.fixture(params=["directory", "objects"])
def location(request, models, tmp_path):
    if request.param == "directory":
        models.publish(), models.publish(), models.publish()
        return str(models.store.root)
    server = request.getfixturevalue("object_server")
    models.store = open_model_store(f"s3://{server.make_bucket()}/models", cache=tmp_path / "cache")
    models.publish(), models.publish(), models.publish()
    return models.store.location


async def test_a_gatekeeper_with_a_separate_volume_stops_when_another_promotes(location, tmp_path):
    store = open_model_store(location, cache=tmp_path / "cache")
    with Disk() as disk, Lease.acquire(tmp_path / "a") as mine, Lease.acquire(tmp_path / "b", above=40) as other:
        first, second = ChampionPointer(store, MODEL, mine, disk), ChampionPointer(store, MODEL, other, disk)
        await first.write(1, reason="first champion")
        with pytest.raises(StaleEpoch, match="another holder leads"):
            await second.write(2, reason="from what was known before")  # though its own epochs are greater
        with pytest.raises(StaleEpoch, match="another gatekeeper promotes"):
            await second.until_lost()
        await first.write(3, reason="won")
        successor = ChampionPointer(store, MODEL, other, disk)
        assert successor.champion == first.champion
        await successor.write(2, reason="by hand")
        with pytest.raises(StaleEpoch):
            await first.write(3, reason="won again")
    assert [champion.version for champion in store.history(MODEL)] == [1, 3, 2]
    epochs = [champion.epoch for champion in store.history(MODEL)]
    assert epochs == sorted(set(epochs))


def test_the_lease_is_beside_the_models_or_in_the_state_directory(settings_of, tmp_path):
    near = settings_of(model_store=tmp_path / "models")
    far = settings_of(model_store="s3://bucket/models", state_dir=tmp_path / "state")
    assert near.lease_directory(MODEL) == tmp_path / "models" / MODEL
    assert Path(tmp_path / "state") in far.lease_directory(MODEL).parents
