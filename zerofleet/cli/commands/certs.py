"""`zerofleet certs`: a small certificate authority, and who is who for services and people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli import screen
from zerofleet.cli.options import Json
from zerofleet.errors import ConfigurationError
from zerofleet.service.authority import CLIENTS, SERVERS, Authority, Identity

__all__ = ["certs"]


def certs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the authority and the certificates lie.")] = Path(
        "certs"
    ),
    *,
    identities: Annotated[
        list[str] | None,
        typer.Option(
            "--identity",
            metavar="NAME",
            help="Only this one. May be repeated.",
            show_default=", ".join((*SERVERS, *CLIENTS)),
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            metavar="IDENTITY=HOST",
            help="One more name or address under which clients reach a server. May be repeated.",
        ),
    ] = None,
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, max=825, help="How long a certificate holds.")] = 365,
    renew: Annotated[bool, typer.Option("--renew", help="Make anew what is there, with the names that it has.")] = False,
    json: Json = False,
) -> None:
    """Make an authority, and for each service and for the operator a directory with certificate, key and authority.

    A service is told with ZEROFLEET_TLS_IDENTITY=DIR/NAME and ZEROFLEET_TLS_CA=DIR/NAME/ca.crt. What is there stays as it is,
    unless it is renewed; services that run take up what was renewed. Whoever has authority/ca.key can pass for anybody: keep it
    away from the services.
    """
    hosts = _hosts(names)
    authority = Authority(directory)
    if renew and not authority.known():
        raise ConfigurationError(f"{directory} has no certificates to renew; leave out --renew to make some")
    made = [authority.establish()]
    chosen = identities or (authority.known() if renew else [*SERVERS, *CLIENTS])
    for name in dict.fromkeys((*chosen, *hosts)):
        act = authority.renew if renew else authority.issue
        known = () if renew else SERVERS.get(name, ())
        made.append(act(name, (*known, *hosts.get(name, ())), days=days))
    if json:
        screen.emit_json({"directory": str(directory), "identities": [_said(one) for one in made]})
        return
    _show(directory, made)


def _hosts(names: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """Turn `["gatekeeper=a.example"]` into hosts by identity; raises a usage error that names the item that cannot be read."""
    found: dict[str, tuple[str, ...]] = {}
    for item in names or ():
        identity, equals, host = (part.strip() for part in item.partition("="))
        if not (equals and identity and host):
            raise typer.BadParameter(f"{item!r} is not IDENTITY=HOST, such as gatekeeper=10.0.0.7", param_hint="--name")
        found[identity] = (*found.get(identity, ()), host.lower())
    return found


def _said(identity: Identity) -> dict[str, object]:
    return asdict(identity) | {"directory": str(identity.directory), "expires": identity.expires.isoformat()}


def _show(directory: Path, made: Sequence[Identity]) -> None:
    rows = screen.table("identity", "is reached as", "holds until", "", title=str(directory))
    for one in made:
        names = ", ".join(one.names) or ("signs the others" if one is made[0] else "only asks")
        rows.add_row(one.name, names, f"{one.expires:%Y-%m-%d}", "made" if one.made else "was there")
    screen.out().print(rows)
