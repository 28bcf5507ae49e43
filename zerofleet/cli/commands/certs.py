"""`zerofleet certs`: a small certificate authority, and identities of services and operators."""

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
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the authority and the certificates.")] = Path(
        "certs"
    ),
    *,
    identities: Annotated[
        list[str] | None,
        typer.Option(
            "--identity",
            metavar="NAME",
            help="Issue only this identity. May be repeated.",
            show_default=", ".join((*SERVERS, *CLIENTS)),
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            metavar="IDENTITY=HOST",
            help="Additional host name or address of a server. May be repeated.",
        ),
    ] = None,
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, max=825, help="Validity of a certificate.")] = 365,
    renew: Annotated[bool, typer.Option("--renew", help="Reissue the existing certificates, with their names.")] = False,
    json: Json = False,
) -> None:
    """Create an authority, and a directory with certificate, key and authority for each service and the operator.

    Configure a service with ZEROFLEET_TLS_IDENTITY=DIR/NAME and ZEROFLEET_TLS_CA=DIR/NAME/ca.crt.
    Existing certificates change only with --renew; running services reload them.
    The holder of authority/ca.key can impersonate any identity: keep it away from the services.
    """
    hosts = _hosts(names)
    authority = Authority(directory)
    if renew and not authority.known():
        raise ConfigurationError(f"{directory} has no certificates to renew; omit --renew to issue them")
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
    """Parse `["gatekeeper=a.example"]` into hosts by identity; raises a usage error that names the malformed item."""
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
    rows = screen.table("identity", "host names", "valid until", "", title=str(directory))
    for one in made:
        names = ", ".join(one.names) or ("(authority)" if one is made[0] else "(client only)")
        rows.add_row(one.name, names, f"{one.expires:%Y-%m-%d}", "issued" if one.made else "unchanged")
    screen.out().print(rows)
