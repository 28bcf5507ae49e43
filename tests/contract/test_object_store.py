"""A real Triton that reads the model store straight from an object store."""

import pytest

from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.storage.model_store import open_model_store

pytestmark = pytest.mark.slow


async def test_triton_serves_and_swaps_versions_that_lie_in_an_object_store(
    object_server, model_in, triton_running, tmp_path, monkeypatch
):
    bucket = object_server.make_bucket()
    store = open_model_store(f"s3://{bucket}/models", cache=tmp_path / "cache")
    model = model_in(store)
    for _ in range(2):
        model.publish()
    store.write_champion(model.name, 1, epoch=1, reason="first champion")  # its files beside the versions disturb nobody
    object_server.client().put_object(Bucket=bucket, Key=f"models/{model.name}/3/model.pt", Body=b"not complete yet")
    monkeypatch.setenv("AWS_DEFAULT_REGION", object_server.environment["AWS_REGION"])
    positions = model.positions(games=2)
    with triton_running(f"s3://{object_server.url}/{bucket}/models", tmp_path / "log") as address:
        async with (
            ModelControl(address, store=store) as control,
            KServeEvaluator(address, model.name, timeout_s=60.0) as evaluator,
        ):
            for version in (1, 2):
                await control.serve(model.name, [version])
                model.check(await evaluator.evaluate(positions, version=version), positions, version)
            assert await control.loaded() == {model.name: [2]}
