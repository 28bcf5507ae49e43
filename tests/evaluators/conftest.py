"""What tests of evaluators share: the kernel is built; a server on a free port answers as the test's `servant` says."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from tritonclient.grpc import service_pb2_grpc

from zerofleet.evaluators.native import library

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def built() -> None:
    """Fail the tests of the kernel where the kernel is not built; `make venv` builds it on every machine."""
    found = library.find()
    assert found.library is not None, f"the native kernel is missing: {found.reason}"


@pytest.fixture
async def address(servant: service_pb2_grpc.GRPCInferenceServiceServicer) -> AsyncIterator[str]:
    """Where the servant of the test listens."""
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servant, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)
