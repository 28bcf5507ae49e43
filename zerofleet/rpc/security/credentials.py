"""Credentials of clients and servers, from settings and environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from zerofleet.errors import ConfigurationError
from zerofleet.rpc.security.tls import Tls
from zerofleet.rpc.security.tokens import SHORTEST_TOKEN, TokenTable, require_token

__all__ = [
    "METRICS_TOKEN_VARIABLE",
    "client_tls",
    "client_token",
    "plain",
    "require_secret",
    "require_tokens",
    "secret_in_file",
    "token_table",
    "without_credentials",
]

TOKEN_VARIABLE = "ZEROFLEET_TOKEN"  # noqa: S105 - the name of a variable
METRICS_TOKEN_VARIABLE = "ZEROFLEET_METRICS_TOKEN"  # noqa: S105 - likewise
CA_VARIABLE, IDENTITY_VARIABLE = "ZEROFLEET_TLS_CA", "ZEROFLEET_TLS_IDENTITY"


def plain(secret: SecretStr | None) -> str | None:
    """Return the text of a secret, None if unset or empty."""
    return (secret.get_secret_value() or None) if secret else None


def without_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without tokens, for a service private to this process."""
    secret = {f"{TOKEN_VARIABLE}{plural}{file}" for plural in ("", "S") for file in ("", "_FILE")}
    return {name: value for name, value in environment.items() if name not in secret}


def token_table(tokens: SecretStr | None) -> TokenTable:
    """Return the tokens of a server; empty if unset."""
    text = plain(tokens)
    return TokenTable({}) if text is None else TokenTable.parse(text)


def require_secret(secret: SecretStr | None) -> SecretStr | None:
    """Validate a setting with one secret, None if empty; raises `ValueError` for a short one, never with the secret."""
    text = plain(secret)
    if text is None:
        return None
    if len(text) < SHORTEST_TOKEN:
        raise ValueError(f"got {len(text)} characters; give at least {SHORTEST_TOKEN}")
    try:
        require_token(text, name="the secret")
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return secret


def require_tokens(tokens: SecretStr | None) -> SecretStr | None:
    """Validate a setting with tokens; raises `ValueError` with the line number, never the token."""
    try:
        token_table(tokens)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return tokens


def client_token(environment: Mapping[str, str] | None = None, *, variable: str = TOKEN_VARIABLE) -> str | None:
    """Return the token of commands, from `ZEROFLEET_TOKEN_FILE` or else `ZEROFLEET_TOKEN`; None without one.

    `variable` names another secret with the same two variables.

    Raises `ConfigurationError` for a file that cannot be read or is empty, and for what is not a token.
    """
    variables = os.environ if environment is None else environment
    if path := variables.get(f"{variable}_FILE"):
        return require_token(secret_in_file(f"{variable}_FILE", path), name=f"the token in {path}")
    return require_token(variables.get(variable, ""), name=variable) or None


def secret_in_file(variable: str, path: str) -> str:
    """Return the secret in the file that a variable names.

    Raises `ConfigurationError` for a file that cannot be read, and for an empty one: without its secret a server would be open.
    """
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"{variable}={path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:  # its text would show the secret
        raise ConfigurationError(f"{variable}={path} is not a text file: {error.reason}") from None
    if not text:
        raise ConfigurationError(f"{variable}={path} is empty; write the secret into it, or unset the variable to go without")
    return text


def client_tls(environment: Mapping[str, str] | None = None) -> Tls:
    """Return the TLS settings of commands, from `ZEROFLEET_TLS_CA` and `ZEROFLEET_TLS_IDENTITY`."""
    variables = os.environ if environment is None else environment
    ca, identity = variables.get(CA_VARIABLE), variables.get(IDENTITY_VARIABLE)
    return Tls(Path(ca) if ca else None, Path(identity) if identity else None)
