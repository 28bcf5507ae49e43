"""Tokens and roles: the methods each role may call, and the role of a presented token.

A server reads its tokens as text, one per line (`ZEROFLEET_TOKENS_FILE=/run/secrets/tokens`):

    # role: token; a role may have several, for rotation without a gap
    worker: 5c0f...
    operator: 91be...

`PERMISSIONS` is the only table of permissions; `SECURITY.md` shows the same.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from zerofleet.errors import ConfigurationError

__all__ = [
    "ADMIN_METHODS",
    "OPEN_SERVICES",
    "PERMISSIONS",
    "TOKEN_HEADERS",
    "Role",
    "TokenTable",
    "require_token",
    "roles_of",
    "token_metadata",
]

# Zerofleet servers read the first; Triton, started with --grpc-restricted-protocol=...:x-zerofleet-token=SECRET, the second.
TOKEN_HEADERS = ("x-zerofleet-token", "triton-grpc-protocol-x-zerofleet-token")

SHORTEST_TOKEN = 16  # characters
LONGEST_TOKEN = 512


class Role(StrEnum):
    """Role of a token's holder."""

    WORKER = "worker"
    TRAINER = "trainer"
    EVALUATOR = "evaluator"
    OPERATOR = "operator"


_ALL = frozenset(Role)
_OPERATOR = frozenset({Role.OPERATOR})
_INFERENCE = "/inference.GRPCInferenceService/"
_GATEKEEPER = "/zerofleet.v1.Gatekeeper/"

PERMISSIONS: Mapping[str, frozenset[Role]] = {
    f"{_INFERENCE}ServerLive": _ALL,
    f"{_INFERENCE}ServerReady": _ALL,
    f"{_INFERENCE}ServerMetadata": _ALL,
    f"{_INFERENCE}ModelReady": _ALL,
    f"{_INFERENCE}ModelMetadata": _ALL,
    f"{_INFERENCE}ModelConfig": _ALL,
    f"{_INFERENCE}ModelStatistics": _ALL,
    f"{_INFERENCE}ModelInfer": frozenset({Role.WORKER, Role.EVALUATOR, Role.OPERATOR}),
    f"{_INFERENCE}RepositoryIndex": _OPERATOR,
    f"{_INFERENCE}RepositoryModelLoad": _OPERATOR,
    f"{_INFERENCE}RepositoryModelUnload": _OPERATOR,
    "/zerofleet.v1.Evaluation/Evaluate": frozenset({Role.EVALUATOR, Role.OPERATOR}),
    f"{_GATEKEEPER}GetChampion": _ALL,
    f"{_GATEKEEPER}WatchChampion": _ALL,
    f"{_GATEKEEPER}ListModels": frozenset({Role.TRAINER, Role.EVALUATOR, Role.OPERATOR}),
    f"{_GATEKEEPER}GetLadder": frozenset({Role.TRAINER, Role.EVALUATOR, Role.OPERATOR}),
    f"{_GATEKEEPER}SubmitCandidate": frozenset({Role.TRAINER, Role.OPERATOR}),
    f"{_GATEKEEPER}Promote": _OPERATOR,
    f"{_GATEKEEPER}Rollback": _OPERATOR,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _ALL,
}
"""Roles that may call each method, once a server has tokens."""

ADMIN_METHODS = frozenset(method for method, roles in PERMISSIONS.items() if roles == _OPERATOR)
"""Methods that a server without tokens accepts only from its own machine."""

OPEN_SERVICES = ("/grpc.health.v1.Health/",)
"""Services without a token: probes have none."""


def roles_of(method: str) -> frozenset[Role] | None:
    """Return the roles that may call a method, None for all callers; unlisted methods are the operator's."""
    return None if method.startswith(OPEN_SERVICES) else PERMISSIONS.get(method, _OPERATOR)


def require_token(token: str, *, name: str = "the token") -> str:
    """Return a client's token. Raises `ConfigurationError`, without the token, unless it can be sent in a header."""
    if len(token) > LONGEST_TOKEN:
        raise ConfigurationError(f"{name} has {len(token)} characters, want at most {LONGEST_TOKEN}; is it the right file?")
    for place, character in enumerate(token, start=1):
        if not " " <= character <= "~":
            raise ConfigurationError(
                f"{name} is not one line of printable ASCII: see character {place} of {len(token)}; make one with"
                " `openssl rand -hex 24`"
            )
    return token


def token_metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """Return the metadata with a client's token; raises as `require_token`."""
    return tuple((header, require_token(token)) for header in TOKEN_HEADERS) if token else ()


class TokenTable:
    """Tokens of a server, stored as hashes. Empty: no caller has a role."""

    def __init__(self, roles: Mapping[str, Role]) -> None:
        self._digests = [(_digest(token.encode()), role) for token, role in roles.items()]

    def __bool__(self) -> bool:
        return bool(self._digests)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse lines `role: token`; raises `ConfigurationError` with the line number, never the token."""
        roles: dict[str, Role] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, _, token = (part.strip() for part in line.partition(":"))
            if name not in set(Role):
                raise ConfigurationError(
                    f"line {number} of the tokens has no valid role; write one of {', '.join(Role)}, a colon, a token"
                )
            if not (
                SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN and token.isascii() and token.isprintable() and " " not in token
            ):
                raise ConfigurationError(
                    f"line {number} of the tokens has a token of {len(token)} characters for {name};"
                    f" want {SHORTEST_TOKEN} to {LONGEST_TOKEN} of printable ASCII, as made by `openssl rand -hex 24`"
                )
            if token in roles:
                raise ConfigurationError(
                    f"line {number} of the tokens repeats a token of {roles[token]}; give each role its own"
                )
            roles[token] = Role(name)
        if not roles:
            raise ConfigurationError("the tokens have no line `role: token`; omit the setting to require none")
        return cls(roles)

    def role(self, presented: bytes) -> Role | None:
        """Return the role of a token, None for an unknown one; in constant time."""
        given, found = _digest(presented), None
        for digest, role in self._digests:
            if hmac.compare_digest(given, digest):
                found = role
        return found


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
