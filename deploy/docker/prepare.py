"""What a cluster needs before its first start: the run's header, and a password for everyone who has to show one.

Runs to its end before each start of the cluster. What is there stays as it is, so it may run any number of times; a
password file that was removed is written anew. Redis is told hashes of the passwords, and each service can read its own:

    redis/users.acl   redis/probe     Redis, and its health check
    trainer/redis     worker/redis    passwords of Redis' users of these names
    control/token                     inference server and gatekeeper
    grafana/password                  Grafana's user admin

With compose.tls.yml there is a volume `authority` as well, and everybody gets a certificate, which is made anew when it has
less than a month left:

    control/inference_server   control/gatekeeper   trainer/tls   worker/tls     who each is, and whom it trusts
    authority/operator                                                           who a person at the command line is

With the word `refuse` it has the run after it end with an error: profiles that are files call it so.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from zerofleet.errors import ZerofleetError
from zerofleet.service.authority import SERVERS, Authority
from zerofleet.service.settings import ServiceSettings, read_settings
from zerofleet.storage.files import atomic_publish
from zerofleet.storage.runs import RunDirectory

CREDENTIALS = Path("/run/credentials")
REFUSED = "refused"
ADVICE = """\
prepare: triton and gpu are files and not profiles, as they change services:
    docker compose -f docker-compose.yml -f compose.triton.yml up
    docker compose -f docker-compose.yml -f compose.gpu.yml up
"""
PLACES = {
    "inference_server": "control/inference_server",
    "gatekeeper": "control/gatekeeper",
    "trainer": "trainer/tls",
    "selfplay_worker": "worker/tls",
    "operator": None,
}
"""Where a service finds its certificate, its key and the authority."""
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
"""Rights of each user of Redis; `zerofleet.storage.streams.redis` gives the reasons. PING checks an idle connection."""


def main(words: Sequence[str] = (), credentials: Path = CREDENTIALS) -> int:
    """Write what is missing; returns 2 when the run directory is of another game or in use, or was refused."""
    settings, _ = read_settings(ServiceSettings, [], os.environ)
    refused = settings.run_dir / REFUSED
    if "refuse" in words:
        refused.touch()
        return 0
    if refused.exists():
        refused.unlink()
        sys.stderr.write(ADVICE)
        return 2
    files = {user: credentials / user / "redis" for user in ("trainer", "worker")} | {"probe": credentials / "redis" / "probe"}
    passwords = {user: _password(file) for user, file in files.items()}
    _password(credentials / "control" / "token")
    _password(credentials / "grafana" / "password")
    _write(credentials / "redis" / "users.acl", users(passwords))
    if (credentials / "authority").is_dir() and os.environ.get("ZEROFLEET_TLS"):
        certify(credentials)
    try:
        RunDirectory.create_or_open(settings.run_dir, settings.game, settings.game_parameters, preset=settings.preset).close()
    except ZerofleetError as error:
        sys.stderr.write(f"prepare: {error}\n")
        return 2
    return 0


def users(passwords: dict[str, str]) -> str:
    """Return Redis' list of users: each by the hash of its password, and nobody else.

    Nobody can log in as the default user, and who has not logged in may do nothing. It has all rights because Redis (7.0, 7.2
    and others) reads its append-only file back as this user and leaves out every transaction that it may not make: without
    them, what the trainer took out of the stream would be there again after each restart (redis/redis issue 14541).
    """
    lines = ["user default off resetpass allkeys allchannels allcommands"]
    for user, rights in RIGHTS.items():
        digest = hashlib.sha256(passwords[user].encode()).hexdigest()
        lines.append(f"user {user} on #{digest} resetchannels {rights}")
    return "\n".join(lines) + "\n"


def certify(credentials: Path) -> None:
    """Give each service a certificate, where it looks for one."""
    authority = Authority(credentials / "authority")
    for name, place in PLACES.items():
        identity = authority.issue(name, SERVERS.get(name, ()), days=CERTIFICATE_DAYS)
        if identity.expires - datetime.now(UTC) < RENEW_BEFORE:
            identity = authority.renew(name, days=CERTIFICATE_DAYS)
        if place is None:
            continue
        for source in sorted(identity.directory.iterdir(), reverse=True):  # tls.key, tls.crt, ca.crt
            _write(credentials / place / source.name, source.read_text())


def _password(file: Path) -> str:
    """Return the password in a file, drawn and written there if there is none."""
    if not file.exists() or not file.read_text().strip():
        _write(file, secrets.token_urlsafe(32) + "\n")
    return file.read_text().strip()


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_publish(file, text)
    file.chmod(0o400)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
