"""Preparation of a cluster's first start: the run's header, and the passwords of its services.

Runs to completion before each start of the cluster. Idempotent: existing files are kept, missing password files are written
again. Redis gets hashes of the passwords, and each service can read only its own, as each folder is a volume:

    redis/users.acl   redis/probe     Redis, and its health check
    trainer/redis     worker/redis    passwords of Redis' users of these names
    control/token                     inference server and gatekeeper
    grafana/password                  Grafana's user admin
    ui/token                          the pages in a browser

With compose.tls.yml there are volumes `authority`, `inference_server` and `gatekeeper` as well, and each service gets a
certificate, which is renewed when it has less than a month left:

    inference_server/tls   gatekeeper/tls   trainer/tls   worker/tls     certificate, key and trusted authority
    authority/operator                                                   the same for a person at the command line

The argument `refuse` makes the following run exit with an error: for profiles that are in fact files.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from games.errors import GameError
from zerofleet.errors import ZerofleetError
from zerofleet.presets import preset
from zerofleet.rpc.security.tls import CERTIFICATE, KEY
from zerofleet.service.authority import CA, SERVERS, Authority
from zerofleet.service.settings import ServiceSettings, read_settings
from zerofleet.storage.files import atomic_publish
from zerofleet.storage.runs import RunDirectory

CREDENTIALS = Path("/run/credentials")
REFUSED = "refused"
ADVICE = """\
prepare: triton and gpu are compose files, not profiles, as they change services; use
    docker compose -f docker-compose.yml -f compose.triton.yml up
    docker compose -f docker-compose.yml -f compose.gpu.yml up
"""
PLACES = {
    "inference_server": "inference_server/tls",
    "gatekeeper": "gatekeeper/tls",
    "trainer": "trainer/tls",
    "selfplay_worker": "worker/tls",
    "operator": None,
}
"""Directory of each service's certificate, key and authority."""
FORMER_PLACES = ("control/inference_server", "control/gatekeeper")
"""Directories of an earlier release, in a volume that both servers mount."""
CERTIFICATE_DAYS = 365
RENEW_BEFORE = timedelta(days=30)
RIGHTS = {
    "worker": "~games -@all +ping +xadd +xlen",
    "trainer": (
        "~games ~games:dead -@all +ping +xadd +xlen +xgroup +xreadgroup +xpending +xclaim +xrange +xrevrange +xack +xdel "
        "+eval +time"
    ),
    "probe": "-@all +ping",
}
"""Rights of each Redis user; for the reasons see `zerofleet.storage.streams.redis`. PING checks an idle connection."""


def main(words: Sequence[str] = (), credentials: Path = CREDENTIALS) -> int:
    """Write missing files; return 2 for unusable settings, a run directory of another game or in use, or after `refuse`."""
    try:
        return _prepare(words, credentials)
    except (ZerofleetError, GameError) as error:
        sys.stderr.write(f"prepare: {error}\n")
        return 2


def _prepare(words: Sequence[str], credentials: Path) -> int:
    """See `main`. Raises `ZerofleetError`, `GameError`."""
    settings, _ = read_settings(ServiceSettings, [], os.environ)
    refused = settings.run_dir / REFUSED
    if "refuse" in words:
        refused.touch()
        return 0
    if refused.exists():
        refused.unlink()
        sys.stderr.write(ADVICE)
        return 2
    preset(settings.build_game(), settings.preset)  # a header with an unknown one would refuse every other from then on
    files = {user: credentials / user / "redis" for user in ("trainer", "worker")} | {"probe": credentials / "redis" / "probe"}
    passwords = {user: _password(file) for user, file in files.items()}
    _password(credentials / "control" / "token")
    _password(credentials / "grafana" / "password")
    _password(credentials / "ui" / "token")
    _write(credentials / "redis" / "users.acl", users(passwords))
    if (credentials / "authority").is_dir() and os.environ.get("ZEROFLEET_TLS"):
        certify(credentials)
    for former in (credentials / place for place in FORMER_PLACES):
        if former.exists():
            shutil.rmtree(former)  # a server that still runs keeps what it has loaded
    RunDirectory.create_or_open(settings.run_dir, settings.game, settings.game_parameters, preset=settings.preset).close()
    return 0


def users(passwords: dict[str, str]) -> str:
    """Return the ACL file of Redis: its users, each with the hash of its password.

    Login as the default user is disabled, and an unauthenticated client has no rights. It has all rights because Redis (7.0,
    7.2 and others) replays its append-only file as this user and skips every transaction that it may not execute: without
    them, games removed by the trainer would reappear after each restart (redis/redis issue 14541).
    """
    lines = ["user default off resetpass allkeys allchannels allcommands"]
    for user, rights in RIGHTS.items():
        digest = hashlib.sha256(passwords[user].encode()).hexdigest()
        lines.append(f"user {user} on #{digest} resetchannels {rights}")
    return "\n".join(lines) + "\n"


def certify(credentials: Path) -> None:
    """Issue or renew the certificate of each service, and copy it to the service's directory."""
    authority = Authority(credentials / "authority")
    for name, place in PLACES.items():
        identity = authority.issue(name, SERVERS.get(name, ()), days=CERTIFICATE_DAYS)
        if identity.expires - datetime.now(UTC) < RENEW_BEFORE:
            identity = authority.renew(name, days=CERTIFICATE_DAYS)
        if place is None:
            continue
        for file in (KEY, CERTIFICATE, CA):
            _write(credentials / place / file, (identity.directory / file).read_text())


def _password(file: Path) -> str:
    """Return the password in a file; generate and write it if there is none."""
    if not file.exists() or not file.read_text().strip():
        _write(file, secrets.token_urlsafe(32) + "\n")
    return file.read_text().strip()


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_publish(file, text, mode=0o400)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
