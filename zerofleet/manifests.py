"""What a stored model says of itself: manifest, golden positions, champion pointer.

All three are JSON files read back with strict types: an unknown field, a missing one or a NaN is a `CorruptModel`, another
schema is a `VersionSkew`. Nothing here knows directories (`zerofleet.model_store`) or tensors (`trainer.export`).

Axes: G golden positions, L most legal actions of any position, P players.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json

from games.core import Game
from zerofleet.encodings import encoder_fingerprint
from zerofleet.errors import CorruptModel, VersionSkew

__all__ = [
    "MANIFEST_SCHEMA",
    "Champion",
    "Golden",
    "Manifest",
    "NetworkDict",
    "StoredFile",
    "check_golden",
    "parse",
    "require_game",
    "to_json",
]

MANIFEST_SCHEMA = 1
GOLDEN_POLICY_TOLERANCE = 5e-3  # half precision on another device against the exporter's CPU answer
GOLDEN_VALUE_TOLERANCE = 2e-2

Stored = TypeVar("Stored")
NetworkDict: TypeAlias = dict[str, int | float | str | bool | tuple[int | str, ...]]
"""Settings of a network as they are stored; `NetworkSettings.describes` reads them."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a version."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    sha256: str
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Golden:
    """A few positions and what the exporter's network said of them; base64 of little-endian arrays."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    positions: int
    states: str  # uint8 [G, packed_bytes]
    legal: str  # int16 [G, L], padded with -1
    policy: str  # float32 [G, L], sums to 1 over the listed actions
    value: str  # float32 [G, P]; index 0 is the player to move

    @classmethod
    def of(cls, states: np.ndarray, legal: np.ndarray, policy: np.ndarray, value: np.ndarray) -> Golden:
        """Pack four arrays of the shapes above."""
        texts = (_to_text(states, "u1"), _to_text(legal, "<i2"), _to_text(policy, "<f4"), _to_text(value, "<f4"))
        return cls(len(states), *texts)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return states, legal, policy and value in the shapes above; raises `CorruptModel` when they do not fit."""
        texts = ((self.states, "u1"), (self.legal, "<i2"), (self.policy, "<f4"), (self.value, "<f4"))
        try:
            flat = [np.frombuffer(base64.b64decode(text, validate=True), dtype) for text, dtype in texts]
            states, legal, policy, value = (array.reshape(self.positions, -1) for array in flat)
        except ValueError as error:
            raise CorruptModel(f"golden positions of the manifest cannot be read: {error}; export the model again") from error
        if legal.shape != policy.shape:
            raise CorruptModel(f"golden positions list {legal.shape[1]} actions and {policy.shape[1]} probabilities each")
        return states, legal, policy, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a version is, whom it descends from, and which files it consists of."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    model: str
    game: str
    parameters: dict[str, str]
    rules_version: int
    encoder: str  # fingerprint of the encoding: see zerofleet.encodings
    planes: tuple[int, int, int]  # C, H, W
    num_actions: int
    max_legal: int
    num_players: int
    parent_version: int  # 0 = none
    train_steps: int
    games_seen: int
    created_at_ms: int  # since 1970 UTC
    network: NetworkDict
    heads: tuple[str, ...]
    golden: Golden
    torch: str = ""  # release that wrote the TorchScript; an older one may not read it
    schema: int = MANIFEST_SCHEMA
    version: int = 0  # given by the store
    files: dict[str, StoredFile] = field(default_factory=dict)  # given by the store


@dataclass(frozen=True, slots=True)
class Champion:
    """The version that plays, as the gatekeeper wrote it."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    model: str
    version: int
    epoch: int  # grows with every write: a holder of an older one has been replaced
    manifest_sha256: str
    promoted_at_ms: int  # since 1970 UTC
    reason: str


def to_json(stored: Manifest | Champion, *, indent: int | None = 1) -> bytes:
    """Return the JSON form; refuses NaN."""
    return json.dumps(asdict(stored), indent=indent, sort_keys=True, allow_nan=False).encode() + b"\n"


def parse(kind: type[Stored], text: bytes, *, where: str, schema: int = MANIFEST_SCHEMA) -> Stored:
    """Read a JSON form back. Raises `CorruptModel`, or `VersionSkew` for another `schema`; `where` names the file."""
    try:
        found = from_json(text)
    except ValueError as error:
        raise CorruptModel(f"{where} is not JSON ({error}); it was cut short or edited: write it again") from error
    stored = found.get("schema", schema) if isinstance(found, dict) else None
    if isinstance(stored, int) and stored != schema:
        raise VersionSkew(f"{where} has schema {stored}, this program reads schema {schema}; use the matching release")
    try:
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise CorruptModel(f"{where}: {place}: {first['msg']}; {error.error_count()} such faults") from error


def require_game(manifest: Manifest, game: Game) -> None:
    """Raise `VersionSkew` unless the model was made for exactly this game, rules version and encoding."""
    spec = game.spec()
    wanted: dict[str, object] = {
        "game": spec.name,
        "parameters": {name: str(value) for name, value in game._asdict().items()},
        "rules_version": spec.rules_version,
        "planes": spec.planes,
        "num_actions": spec.num_actions,
        "max_legal": spec.max_legal,
        "num_players": spec.num_players,
        "encoder": encoder_fingerprint(game),
    }
    for name, want in wanted.items():
        got = getattr(manifest, name)
        if got != want:
            raise VersionSkew(f"model {manifest.model} version {manifest.version} has {name} {got}, this program wants {want}")


def check_golden(manifest: Manifest, policy: np.ndarray, value: np.ndarray) -> None:
    """Compare a loaded model's answers to the golden positions with the exporter's.

    `policy` is [G, L] and `value` [G, P], of any float type. Raises `CorruptModel` for a wrong shape, a value that is not
    finite or outside [-1, 1], mass on unlisted actions, or a difference beyond what half precision explains.
    """
    _, legal, want_policy, want_value = manifest.golden.arrays()
    name = f"model {manifest.model} version {manifest.version}"
    for head, got, want in (("policy", policy, want_policy), ("value", value, want_value)):
        if got.shape != want.shape:
            raise CorruptModel(f"{name} answers {head} of shape {got.shape}, want {want.shape}")
        if not np.isfinite(got).all():
            raise CorruptModel(f"{name} answers {head} that is not finite; its weights are damaged")
    if np.abs(value).max(initial=0.0) > 1.0:
        raise CorruptModel(f"{name} answers value {np.abs(value).max()}, want -1 to 1")
    if np.abs(policy[legal < 0]).max(initial=0.0) > 0.0:
        raise CorruptModel(f"{name} gives probability to actions that were not listed")
    for head, got, want, tolerance in (
        ("policy", policy, want_policy, GOLDEN_POLICY_TOLERANCE),
        ("value", value, want_value, GOLDEN_VALUE_TOLERANCE),
    ):
        difference = float(np.abs(got.astype(np.float32) - want).max(initial=0.0))
        if difference > tolerance:
            raise CorruptModel(
                f"{name} answers its golden positions with {head} off by {difference:.3g}, want at most {tolerance}"
            )


def _to_text(array: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode()
