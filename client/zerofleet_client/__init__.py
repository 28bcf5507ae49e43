"""Client of a Zerofleet inference server and gatekeeper, synchronous and asynchronous.

    from zerofleet_client import Client

    with Client("127.0.0.1:8001", gatekeeper="127.0.0.1:8002") as client:
        print(client.evaluate("connect_four", ["d1", "d2", "c1"], simulations=400))
        print(client.champion("connect_four"))

The `.proto` files are in `proto/` of this package, the stubs in `zerofleet_client.contracts.wire`.
"""

from __future__ import annotations

from importlib import metadata

from zerofleet_client.async_client import AsyncClient
from zerofleet_client.client import Client
from zerofleet_client.contracts.champions import Champion
from zerofleet_client.contracts.opinions import MoveOpinion, Opinion
from zerofleet_client.contracts.promotions import Candidate, CandidateStatus, MatchReport, Rung
from zerofleet_client.errors import (
    ConfigurationError,
    CorruptModel,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    PermissionRefused,
    StaleEpoch,
    Unavailable,
    ZerofleetError,
)
from zerofleet_client.tls import Tls

__all__ = [
    "AsyncClient",
    "Candidate",
    "CandidateStatus",
    "Champion",
    "Client",
    "ConfigurationError",
    "CorruptModel",
    "InvalidRequest",
    "MatchReport",
    "ModelNotFound",
    "MoveOpinion",
    "Opinion",
    "Overloaded",
    "PermissionRefused",
    "Rung",
    "StaleEpoch",
    "Tls",
    "Unavailable",
    "ZerofleetError",
    "__version__",
]

__version__ = metadata.version("zerofleet-client")
