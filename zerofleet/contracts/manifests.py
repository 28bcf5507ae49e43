"""Metadata of a stored model: manifest, golden positions, champion pointer.

All three are JSON, parsed with strict types: an unknown or missing field or a NaN raises `CorruptModel`, an unknown schema
`VersionSkew`. Schema 1, without extra heads, is still readable. Independent of directories (`zerofleet.storage.model_store`)
and tensors (`trainer.export`).

Axes: G golden positions, L maximum legal actions of a position, P players, W width of an extra head.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json

from games.core import Game
from games.positions import model_parameters
from zerofleet.contracts.champions import Champion
from zerofleet.contracts.encodings import encoder_fingerprint
from zerofleet.contracts.heads import outputs_of
from zerofleet.errors import CorruptModel, VersionSkew

__all__ = [
    "MANIFEST_SCHEMA",
    "READABLE_SCHEMAS",
    "Champion",
    "Golden",
    "Manifest",
    "NetworkDict",
    "StoredFile",
    "check_golden",
    "parse",
    "require_game",
    "require_golden",
    "to_json",
]

MANIFEST_SCHEMA = 2
READABLE_SCHEMAS = (1, MANIFEST_SCHEMA)
GOLDEN_POLICY_TOLERANCE = 5e-3  # half precision on another device versus the exporter's CPU output
GOLDEN_VALUE_TOLERANCE = 2e-2
GOLDEN_HEAD_TOLERANCE = 1e-2  # probabilities and shares, both in [0, 1]

Stored = TypeVar("Stored")
NetworkDict: TypeAlias = dict[str, int | float | str | bool | tuple[int | str, ...]]
"""Settings of a network as stored; read by `NetworkSettings.describes`."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """File of a version."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    sha256: str
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Golden:
    """A few positions with the outputs of the exporter's network; base64 of little-endian arrays."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    positions: int
    states: str  # uint8 [G, packed_bytes]
    legal: str  # int16 [G, L], padded with -1
    policy: str  # float32 [G, L], sums to 1 over the listed actions
    value: str  # float32 [G, P]; index 0 is the player to move
    heads: tuple[str, ...] = ()  # float32 [G, W] of each extra head, in the manifest's order; all in [0, 1]

    @classmethod
    def of(
        cls,
        states: np.ndarray,
        legal: np.ndarray,
        policy: np.ndarray,
        value: np.ndarray,
        extra_heads: Sequence[np.ndarray] = (),
    ) -> Golden:
        """Pack arrays of the shapes above."""
        texts = (_to_text(states, "u1"), _to_text(legal, "<i2"), _to_text(policy, "<f4"), _to_text(value, "<f4"))
        return cls(len(states), *texts, tuple(_to_text(head, "<f4") for head in extra_heads))

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return states, legal, policy and value in the shapes above; raises `CorruptModel` on a mismatch."""
        texts = ((self.states, "u1"), (self.legal, "<i2"), (self.policy, "<f4"), (self.value, "<f4"))
        states, legal, policy, value = (self._read(text, dtype) for text, dtype in texts)
        if legal.shape != policy.shape:
            raise CorruptModel(f"golden positions list {legal.shape[1]} actions and {policy.shape[1]} probabilities each")
        return states, legal, policy, value

    def head_arrays(self) -> tuple[np.ndarray, ...]:
        """Return the outputs of the extra heads, float32 [G, W] each; raises `CorruptModel` when they cannot be decoded."""
        return tuple(self._read(text, "<f4") for text in self.heads)

    def _read(self, text: str, dtype: str) -> np.ndarray:
        try:
            return np.frombuffer(base64.b64decode(text, validate=True), dtype).reshape(self.positions, -1)
        except (ValueError, OverflowError) as error:
            raise CorruptModel(
                f"golden positions of the manifest cannot be decoded: {error}; export the model again"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Description, parent and files of a version."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    model: str
    game: str
    parameters: dict[str, str]
    rules_version: int
    encoder: str  # fingerprint of the encoding: see zerofleet.contracts.encodings
    planes: tuple[int, int, int]  # C, H, W
    num_actions: int
    max_legal: int
    num_players: int
    parent_version: int  # 0 = none
    train_steps: int
    games_seen: int
    created_at_ms: int  # since 1970 UTC
    network: NetworkDict
    heads: tuple[str, ...]  # policy, value, then the extra heads in the order of their tensors
    golden: Golden
    torch: str = ""  # release that wrote the TorchScript; older ones may be unable to load it
    schema: int = MANIFEST_SCHEMA
    version: int = 0  # assigned by the store
    files: dict[str, StoredFile] = field(default_factory=dict)  # filled in by the store


def to_json(stored: Manifest | Champion, *, indent: int | None = 1) -> bytes:
    """Return the JSON form; raises `ValueError` on NaN."""
    return json.dumps(asdict(stored), indent=indent, sort_keys=True, allow_nan=False).encode() + b"\n"


_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Stored]) -> TypeAdapter[Stored]:
    """Return the validator of a type, made once: its schema takes milliseconds."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def parse(kind: type[Stored], text: bytes, *, where: str, schemas: Sequence[int] = READABLE_SCHEMAS) -> Stored:
    """Parse a JSON form. Raises `CorruptModel`, or `VersionSkew` for a schema not in `schemas`; `where` names the file."""
    try:
        found = from_json(text)
    except ValueError as error:
        raise CorruptModel(f"{where} is not JSON ({error}); it was truncated or edited: write it again") from error
    stored = found.get("schema") if isinstance(found, dict) else None
    if isinstance(stored, int) and stored not in schemas:
        readable = " and ".join(map(str, schemas))
        raise VersionSkew(f"{where} has schema {stored}, this program reads schema {readable}; use the matching release")
    try:
        return _adapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise CorruptModel(f"{where}: {place}: {first['msg']}; {error.error_count()} errors in total") from error


def require_game(manifest: Manifest, game: Game) -> None:
    """Raise `VersionSkew` unless the model is for exactly this game, rules version and encoding.

    Parameters that change the scores alone may differ: the model was trained on other scores of the same game.
    """
    spec = game.spec()
    wanted: dict[str, object] = {
        "game": spec.name,
        "parameters": model_parameters(game),
        "rules_version": spec.rules_version,
        "planes": spec.planes,
        "num_actions": spec.num_actions,
        "max_legal": spec.max_legal,
        "num_players": spec.num_players,
        "encoder": encoder_fingerprint(game),
    }
    needed = {name: value for name, value in manifest.parameters.items() if name not in spec.score_parameters}
    for name, want in wanted.items():
        got = needed if name == "parameters" else getattr(manifest, name)
        if got != want:
            raise VersionSkew(f"model {manifest.model} version {manifest.version} has {name} {got}, this program wants {want}")


def require_golden(manifest: Manifest, *, remedy: str = "export it again") -> None:
    """Raise `CorruptModel` unless golden positions exist, match the manifest's sizes and have valid outputs.

    `remedy`: next step in the messages about outputs.
    """
    name = f"model {manifest.model} version {manifest.version}"
    if manifest.golden.positions < 1:
        raise CorruptModel(f"{name} has no golden positions, so its outputs cannot be verified; export it again")
    outputs = outputs_of(
        manifest.heads, max_legal=manifest.max_legal, num_players=manifest.num_players, num_actions=manifest.num_actions
    )
    states, legal, policy, value = manifest.golden.arrays()
    answers = [policy, value, *manifest.golden.head_arrays()]
    widths = [states.shape[1], legal.shape[1], *(answer.shape[1] for answer in answers)]
    wanted = [-(-math.prod(manifest.planes) // 8), manifest.max_legal, *(output.width for output in outputs)]
    if widths != wanted:
        tensors = ", ".join(("state", "legal", *manifest.heads))
        raise CorruptModel(f"{name} has golden positions of widths {widths}, want {wanted} of {tensors}; {remedy}")
    listed = legal >= 0
    if (
        legal.min() < -1
        or legal.max() >= manifest.num_actions
        or not listed[:, 0].all()
        or (listed[:, 1:] > listed[:, :-1]).any()
    ):
        raise CorruptModel(
            f"{name} lists actions in its golden positions that are not 0 to {manifest.num_actions - 1} with -1 last"
        )
    for head, answer in zip(manifest.heads, answers, strict=True):
        lowest = -1.0 if head == "value" else 0.0
        if not (np.isfinite(answer).all() and lowest <= answer.min() <= answer.max() <= 1.0):
            raise CorruptModel(f"{name} has golden outputs of {head} outside [{lowest:g}, 1]; {remedy}")
    if policy[~listed].any() or np.abs(policy.sum(axis=1) - 1.0).max() > GOLDEN_POLICY_TOLERANCE:
        raise CorruptModel(f"{name} has golden policies that do not sum to 1 over the listed actions; {remedy}")


def check_golden(manifest: Manifest, policy: np.ndarray, value: np.ndarray, extra_heads: Sequence[np.ndarray] = ()) -> None:
    """Compare a loaded model's outputs for the golden positions with the exporter's.

    `policy` is [G, L], `value` [G, P] and each of `extra_heads` [G, W], of any float type. Raises `CorruptModel` for a missing
    head, a wrong shape, a value not finite or out of range, mass on unlisted actions, or a difference larger than half
    precision explains.
    """
    _, legal, want_policy, want_value = manifest.golden.arrays()
    extra, want_extra = manifest.heads[2:], manifest.golden.head_arrays()
    name = f"model {manifest.model} version {manifest.version}"
    if not len(extra_heads) == len(want_extra) == len(extra):
        raise CorruptModel(
            f"{name} has {len(extra)} extra heads in its manifest, {len(want_extra)} in its golden positions"
            f" and returns {len(extra_heads)}; export it again"
        )
    comparisons = [
        ("policy", policy, want_policy, GOLDEN_POLICY_TOLERANCE),
        ("value", value, want_value, GOLDEN_VALUE_TOLERANCE),
        *((head, got, want, GOLDEN_HEAD_TOLERANCE) for head, got, want in zip(extra, extra_heads, want_extra, strict=True)),
    ]
    for head, got, want, _ in comparisons:
        if got.shape != want.shape:
            raise CorruptModel(f"{name} returns {head} of shape {got.shape}, want {want.shape}")
        if not np.isfinite(got).all():
            raise CorruptModel(f"{name} returns {head} that is not finite; its weights are damaged")
        lowest = -1.0 if head == "value" else 0.0
        if got.size and not lowest <= got.min() <= got.max() <= 1.0:
            raise CorruptModel(f"{name} returns {head} from {got.min()} to {got.max()}, want {lowest:g} to 1")
    if np.abs(policy[legal < 0]).max(initial=0.0) > 0.0:
        raise CorruptModel(f"{name} assigns probability to actions that were not listed")
    for head, got, want, tolerance in comparisons:
        difference = float(np.abs(got.astype(np.float32) - want).max(initial=0.0))
        if difference > tolerance:
            raise CorruptModel(
                f"{name} evaluates its golden positions with {head} off by {difference:.3g}, want at most {tolerance}"
            )


def _to_text(array: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode()
