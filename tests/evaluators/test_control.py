"""Which versions a server holds, as its controller asks for it."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from tritonclient.grpc import model_config_pb2, service_pb2_grpc
from tritonclient.grpc import service_pb2 as messages

from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound, Unavailable
from zerofleet.evaluators.control import ModelControl
from zerofleet.storage.model_store import DirectoryStore

CONFIG = 'name: "go" backend: "python" max_batch_size: 7 version_policy: { latest { num_versions: 2 } }'


class Servant(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Takes every load it is asked for, except what `fault` says."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.fault: tuple[grpc.StatusCode, str] | None = None
        self.metadata: dict[str, str] = {}

    async def RepositoryModelLoad(self, request: Any, context: Any) -> Any:
        if self.fault is not None:
            await context.abort(*self.fault)
        self.config = json.loads(request.parameters["config"].string_param)
        self.metadata = dict(context.invocation_metadata())
        return messages.RepositoryModelLoadResponse()

    async def ModelReady(self, request: Any, context: Any) -> Any:
        return messages.ModelReadyResponse(ready=request.version in self.config["versionPolicy"]["specific"]["versions"])

    async def ModelConfig(self, request: Any, context: Any) -> Any:
        if not self.config:
            await context.abort(grpc.StatusCode.NOT_FOUND, "not loaded")
        return messages.ModelConfigResponse(config=model_config_pb2.ModelConfig(name=request.name, max_batch_size=9))


@pytest.fixture
def servant() -> Servant:
    return Servant()


@pytest.fixture
def store(tmp_path):
    for version in ("1", "2"):
        (tmp_path / "go" / version).mkdir(parents=True)
    (tmp_path / "go" / "config.pbtxt").write_text(CONFIG)
    return DirectoryStore(tmp_path)


async def test_the_stored_configuration_is_sent_with_the_versions_wanted(address, servant, store):
    async with ModelControl(address, store=store, token="s3cret") as control:
        await control.serve("go", [2, 1, 2])
    assert servant.config["versionPolicy"] == {"specific": {"versions": ["1", "2"]}}
    assert (servant.config["backend"], servant.config["maxBatchSize"]) == ("python", 7)
    headers = ("x-zerofleet-token", "triton-grpc-protocol-x-zerofleet-token")
    assert [servant.metadata[header] for header in headers] == ["s3cret"] * 2


async def test_without_a_store_the_servers_own_configuration_is_sent(address, servant):
    async with ModelControl(address) as control:
        await control.serve("go", [1])
        assert servant.config["name"] == "go"
        await control.serve("go", [2])
    assert servant.config["maxBatchSize"] == 9


async def test_a_version_that_is_not_stored_never_reaches_the_server(address, servant, store):
    async with ModelControl(address, store=store) as control:
        with pytest.raises(ModelNotFound, match="model go has no version 3"):
            await control.serve("go", [1, 3])
        with pytest.raises(ModelNotFound, match="model chess has no version 1"):
            await control.serve("chess", [1])
    assert servant.config == {}


async def test_a_configuration_that_cannot_be_read_is_named(address, store):
    (store.root / "go" / "config.pbtxt").write_text("name: go {{{")
    async with ModelControl(address, store=store) as control:
        with pytest.raises(CorruptModel, match=r"config\.pbtxt of go cannot be read"):
            await control.serve("go", [1])


@pytest.mark.parametrize("versions", [[], [0], [-1, 2], [2**63]])
async def test_versions_that_cannot_be_are_refused_here(address, versions):
    async with ModelControl(address) as control:
        with pytest.raises(InvalidRequest, match="cannot serve versions"):
            await control.serve("go", versions)


@pytest.mark.parametrize(
    ("code", "text", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "load failed for model 'go': version 2 is at UNAVAILABLE state", CorruptModel),
        (grpc.StatusCode.INTERNAL, "failed to load 'go', failed to poll from model repository", CorruptModel),
        (grpc.StatusCode.DATA_LOSS, "model.pt has another sha256", CorruptModel),
        (grpc.StatusCode.UNAVAILABLE, "Request for unknown model: 'go' version 1 is not at ready state", ModelNotFound),
        (grpc.StatusCode.UNAVAILABLE, "connection reset", Unavailable),
    ],
)
async def test_refusals_of_either_server_become_our_errors(address, servant, code, text, error):
    servant.fault = (code, text)
    async with ModelControl(address) as control:
        with pytest.raises(error):
            await control.serve("go", [1])


async def test_a_server_that_leaves_a_version_out_is_found_out(address, servant):
    async def forgetful(request, context):
        servant.config = {"versionPolicy": {"specific": {"versions": ["1"]}}}
        return messages.RepositoryModelLoadResponse()

    servant.RepositoryModelLoad = forgetful
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servant, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with ModelControl(f"127.0.0.1:{port}") as control:
        with pytest.raises(CorruptModel, match="could not load version 2 of go"):
            await control.serve("go", [1, 2])
    await server.stop(None)


async def test_a_closed_control_is_unavailable(address):
    async with ModelControl(address) as control:
        pass
    for call in (control.live(timeout_s=1.0), control.ready("go", 1)):
        with pytest.raises(Unavailable, match="the client was closed"):
            await call
