"""What tests of clients share: a server on a free port that answers as the test's `servant` says."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest
from tritonclient.grpc import service_pb2_grpc


@pytest.fixture
async def address(servant: service_pb2_grpc.GRPCInferenceServiceServicer) -> AsyncIterator[str]:
    """Where the servant of the test listens."""
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servant, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)
