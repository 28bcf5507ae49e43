"""Settings of the inference server."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, SecretStr

from zerofleet.presets import InferenceSettings
from zerofleet.rpc.security.credentials import require_tokens
from zerofleet.service.settings import StoreSettings

__all__ = ["Precision", "ServerSettings"]

Precision = Literal["auto", "float32", "bfloat16", "float16"]


class ServerSettings(StoreSettings):
    """A server of evaluations over KServe v2 gRPC."""

    SERVICE: ClassVar[str] = "inference_server"
    PRESET_PARTS: ClassVar[tuple[str, ...]] = ("inference",)

    inference: InferenceSettings
    """Threads of the device, largest merged batch, longest wait for one."""
    address: str
    """Where to listen: host:port (port 0 takes a free one) or unix:/path; the run directory's socket by default."""
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:[0-9]+)?)$")
    """auto takes a GPU where there is one; cpu; cuda:0."""
    precision: Precision = "auto"
    """Numbers the network computes with. auto is float16 on a GPU and float32 on a CPU. bfloat16 is half as fast again on a
    CPU that multiplies it natively, and changes answers in the second digit: good for self-play, not for comparing servers.
    A version whose golden positions come out too different in reduced precision is served in float32."""

    token: SecretStr | None = None
    """Secret that loading, unloading and listing of models asks for in the metadata `x-zerofleet-token`. Without one
    those calls are taken from this machine alone. In the other services, the token of their role, which they show."""
    tokens: Annotated[SecretStr | None, AfterValidator(require_tokens)] = None
    """Lines `role: token` with the roles worker, trainer, evaluator and operator. With them every call but health checks asks
    for a token whose role may make it; best given as a file."""
    reflection: bool = False
    """Describe the services to tools such as grpcurl."""
    max_queue_positions: int = Field(default=32_768, ge=1)
    """Positions that may wait for the device; further requests are refused as overload."""
    max_concurrent_calls: int = Field(default=4_096, ge=1)
    """Calls in progress at most; further ones are refused as overload."""
    max_versions: int = Field(default=16, ge=1)
    """Versions of one model in memory at most."""
    max_connection_age_s: float = Field(default=0.0, ge=0.0)
    """Seconds after which a connection is asked to reconnect, so that new replicas get their share; 0 never."""
    max_simulations: int = Field(default=10_000, ge=1)
    """Largest search of the evaluation service."""
    max_searches: int = Field(default=16, ge=1)
    """Searches of the evaluation service at once; further ones are refused as overload."""
