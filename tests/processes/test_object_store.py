"""The whole loop with its models in an object store: trainer, gatekeeper and inference server as processes."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from zerofleet.storage.model_store import open_model_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1100)]  # a machine that is loaded takes minutes

MODEL = "tic_tac_toe"
StartRun = Callable[..., AbstractAsyncContextManager[Any]]


async def test_a_run_with_models_in_an_object_store_promotes_and_survives_an_outage_of_the_store(
    start_run: StartRun, object_server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    location = f"s3://{object_server.make_bucket()}/team/models"
    monkeypatch.setenv("ZEROFLEET_MODEL_STORE", location)
    async with start_run("--set", "gate.mode=share", "--set", "gate.share=0.2") as run:
        await run.until(r"candidate 1 promoted: first champion")
        await run.until(r"candidate \d+ promoted against")
        object_server.stop()
        try:
            await run.until(r"trained|games|candidate|positions", times=3)
        finally:
            object_server.start()
        await run.until(r"candidate \d+ promoted against")
        text = await run.end()
    assert run.process.returncode == 0, text
    assert "restarting" not in text, "no service died of the absence"
    assert "secret-of-the-tests" not in text
    assert not any("secret-of-the-tests" in log.read_text(errors="replace") for log in run.paths.logs.iterdir())

    assert list(run.paths.models.iterdir()) == [], "nothing lies where a directory store would"
    store = open_model_store(location, cache=tmp_path / "another cache")
    champion = store.champion(MODEL)
    assert champion is not None
    assert store.verify(MODEL, champion.version).version == champion.version
    assert store.history(MODEL)[0].version == 1
    assert store.config(MODEL)

    command = [sys.executable, "-c", "from zerofleet.cli import main; main()", "models", "verify", MODEL]
    command += ["--run-dir", str(run.paths.root)]
    said = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("ok") == len(store.versions(MODEL))
