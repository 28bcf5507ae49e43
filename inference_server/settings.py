"""Settings of the inference server."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from zerofleet.contracts.naming import MAX_MESSAGE_BYTES
from zerofleet.presets import InferenceSettings
from zerofleet.rpc.addresses import is_unix
from zerofleet.rpc.security.credentials import require_tokens
from zerofleet.service.settings import StoreSettings

__all__ = ["BackendChoice", "Precision", "ServerSettings"]

BackendChoice = Literal["auto", "torchscript", "native", "cuda"]
_LEAST_QUEUE = 32_768  # positions: 21 workers of 3 lanes and 512 games
_QUEUED_BATCHES = 32
Precision = Literal["auto", "float32", "bfloat16", "float16"]


def _http_address(address: str) -> str:
    """Return an address with its host, loopback if there is none; raises `ValueError` unless it is `host:port` or a port."""
    host, _, port = address.rpartition(":")
    if not address:
        return ""
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    if not is_port or not (host + "x").isprintable() or " " in host:
        raise ValueError("want HOST:PORT, or a port alone for 127.0.0.1")
    return f"{host or '127.0.0.1'}:{port}"


class ServerSettings(StoreSettings):
    """Inference server: evaluations over KServe v2 gRPC."""

    SERVICE: ClassVar[str] = "inference_server"
    PRESET_PARTS: ClassVar[tuple[str, ...]] = ("inference",)

    inference: InferenceSettings
    """Threads of the device, largest batch, longest delay of a batch."""
    address: str
    """Listening address: host:port (port 0 selects a free one) or unix:/path; the run directory's socket by default."""
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:[0-9]+)?)$")
    """Compute device: auto (a GPU if there is one), cpu, or cuda:0."""
    precision: Precision = "auto"
    """Number format of the network. auto is float16 on a GPU and float32 on a CPU, where the compiled kernel (`backend`)
    splits numbers into two of bfloat16 if the processor has AMX: values change by less than 0.0001. float32 rules that out.
    bfloat16 leaves the kernel for TorchScript and changes results in the second digit: for networks that the kernel lacks,
    not for comparing servers. A version whose golden positions differ too much in reduced precision is served in float32."""
    backend: BackendChoice = "auto"
    """Program that evaluates networks. auto is the compiled kernel (native) for residual towers on a CPU with AVX2, AVX-512
    or AMX, recorded graphs (cuda) for those on a GPU, and TorchScript for everything else; the log and a metric name the
    backend of each version. native rejects a version that the kernel does not support. cuda is auto on a GPU, and refuses a
    CPU."""

    token: SecretStr | None = None
    """Secret required in the metadata `x-zerofleet-token` to load, unload and list models. Without one these calls are
    accepted from this machine only. In the other services: the token of their role, which they send."""
    tokens: Annotated[SecretStr | None, AfterValidator(require_tokens)] = None
    """Lines `role: token` with the roles worker, trainer, evaluator and operator. With them every call but health checks
    requires a token of a role allowed to make it; best given as a file."""
    http_address: Annotated[str, AfterValidator(_http_address)] = ""
    """Listening address for KServe v2 over HTTP, with the roles, tokens and TLS of gRPC: host:port, or a port alone for
    127.0.0.1 (port 0 selects a free one); empty for none. [::]:port takes IPv6 and IPv4."""
    reflection: Literal["auto", "on", "off"] = "auto"
    """Description of the services to tools such as grpcurl: auto while `address` is a unix socket or a loopback address, on, or
    off. Where tokens are set it requires one of any role."""
    shared_memory: bool = True
    """Accept blocks of positions in shared memory from clients of this host and user, while `address` is a unix socket."""
    max_queue_positions: int = Field(default=0, ge=0)
    """Maximum number of positions that wait for the device; further requests are rejected as overload. 0 is 32 full batches
    (`inference.max_batch`), and at least 32,768: with the preset gpu what 42 workers of 3 lanes and 1,024 games have in
    flight."""
    max_connections: int = Field(default=4_096, ge=2)
    """Maximum number of network connections for gRPC. One address may hold as many as are free: half, if it is alone. Calls
    over further ones are rejected as overload, and the connections are closed."""
    max_concurrent_calls: int = Field(default=4_096, ge=1)
    """Maximum number of calls in progress, except health checks; further ones are rejected as overload. One network address
    may make as many as are free: half, if it is alone."""
    max_bytes_in_flight: int = Field(default=256 << 20, ge=1 << 20)
    """Maximum size of all requests in progress, in bytes; further ones are rejected as overload, unread. A request counts as
    the largest message until it has arrived. One network address may hold as much as is free. The regions of shared memory
    have as much again."""
    max_message_bytes: int = Field(default=0, ge=0, le=MAX_MESSAGE_BYTES)
    """Maximum size of a message, in bytes; 0 derives it from the game and the stored models."""
    max_versions: int = Field(default=16, ge=1)
    """Maximum number of versions of one model in memory."""
    max_connection_age_s: float = Field(default=0.0, ge=0.0)
    """Seconds after which a client is made to reconnect, so that new replicas receive their share; 0 never."""
    max_simulations: int = Field(default=10_000, ge=1)
    """Maximum number of simulations in a search of the evaluation service."""
    max_searches: int = Field(default=16, ge=1)
    """Maximum number of concurrent searches of the evaluation service; further ones are rejected as overload."""

    @property
    def queue_positions(self) -> int:
        """Maximum number of positions that wait for the device."""
        return self.max_queue_positions or max(_LEAST_QUEUE, _QUEUED_BATCHES * self.inference.max_batch)

    @model_validator(mode="after")
    def _require_a_port_for_front_ends(self) -> Self:
        if self.inference.front_ends > 1 and is_unix(self.address):
            raise ValueError(
                f"inference.front_ends is {self.inference.front_ends} and address {self.address}: front ends share a port, so"
                " give address as HOST:PORT; workers of this host at a unix socket use shared memory and need none"
            )
        return self
