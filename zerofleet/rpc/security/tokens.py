"""Tokens and roles: what each role may call, and which role a presented token has.

A server is given its tokens as text, one a line (`ZEROFLEET_TOKENS_FILE=/run/secrets/tokens`):

    # role: token; a role may have several, so that one can be replaced without a gap
    worker: 5c0f...
    operator: 91be...

`PERMISSIONS` is the one table of who may call what; `SECURITY.md` shows the same.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from zerofleet.errors import ConfigurationError

__all__ = ["ADMIN_METHODS", "OPEN_SERVICES", "PERMISSIONS", "TOKEN_HEADERS", "Role", "TokenTable", "roles_of", "token_metadata"]

# Our servers read the first. Triton, started with --grpc-restricted-protocol=...:x-zerofleet-token=SECRET, the second.
TOKEN_HEADERS = ("x-zerofleet-token", "triton-grpc-protocol-x-zerofleet-token")

SHORTEST_TOKEN = 16  # characters
LONGEST_TOKEN = 512


class Role(StrEnum):
    """What the holder of a token is."""

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
}
"""Method and the roles that may call it, once a server has tokens."""

ADMIN_METHODS = frozenset(method for method, roles in PERMISSIONS.items() if roles == _OPERATOR)
"""Methods that a server without any token takes from its own machine alone."""

OPEN_SERVICES = ("/grpc.health.v1.Health/", "/grpc.reflection.v1alpha.ServerReflection/")
"""Services that ask for no token: probes have none, and reflection is off unless a setting turns it on."""


def roles_of(method: str) -> frozenset[Role] | None:
    """Return who may call a method, None for everybody; what is not in the table is the operator's."""
    return None if method.startswith(OPEN_SERVICES) else PERMISSIONS.get(method, _OPERATOR)


def token_metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """Return the metadata in which a client presents its token."""
    return tuple((header, token) for header in TOKEN_HEADERS) if token else ()


class TokenTable:
    """The tokens a server knows, kept as hashes. Empty: nobody has a role."""

    def __init__(self, roles: Mapping[str, Role]) -> None:
        self._digests = [(_digest(token.encode()), role) for token, role in roles.items()]

    def __bool__(self) -> bool:
        return bool(self._digests)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the table of lines `role: token`; raises `ConfigurationError` naming the line, never the token."""
        roles: dict[str, Role] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, _, token = (part.strip() for part in line.partition(":"))
            if name not in set(Role):
                raise ConfigurationError(
                    f"line {number} of the tokens names no role; write one of {', '.join(Role)}, a colon, a token"
                )
            if not (
                SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN and token.isascii() and token.isprintable() and " " not in token
            ):
                raise ConfigurationError(
                    f"line {number} of the tokens has a token of {len(token)} characters for {name};"
                    f" wanted {SHORTEST_TOKEN} to {LONGEST_TOKEN} of printable ASCII, such as `openssl rand -hex 24` makes"
                )
            if token in roles:
                raise ConfigurationError(
                    f"line {number} of the tokens repeats a token of {roles[token]}; give each role its own"
                )
            roles[token] = Role(name)
        if not roles:
            raise ConfigurationError("the tokens have no line `role: token`; leave the setting out to ask for none")
        return cls(roles)

    def role(self, presented: bytes) -> Role | None:
        """Return the role of a token, None for an unknown one; takes as long whichever it is."""
        given, found = _digest(presented), None
        for digest, role in self._digests:
            if hmac.compare_digest(given, digest):
                found = role
        return found


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
