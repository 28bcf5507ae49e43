"""Settings of the web application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from ui.worker_games import worker_address
from zerofleet.rpc.addresses import is_loopback
from zerofleet.rpc.security.credentials import plain, require_secret
from zerofleet.service.ports import PAGE_PORT
from zerofleet.service.settings import ServiceSettings

__all__ = ["UiSettings"]


class UiSettings(ServiceSettings):
    """Web application: shows runs, their games and models, and plays against them."""

    SERVICE: ClassVar[str] = "ui"

    runs: Annotated[Path | None, BeforeValidator(lambda value: value or None)] = None
    """Folder of run directories; without it the application shows `run_dir` alone."""
    page_host: str = "127.0.0.1"
    """Address on which the pages are served. Any other than loopback requires `page_token`."""
    page_port: int = Field(default=PAGE_PORT, ge=0, le=65535)
    """Port of the pages; 0 selects a free one."""
    page_host_names: str = ""
    """Further names in the Host header of requests, such as that of a reverse proxy, separated by commas, beside those of this
    machine and `page_host`. Others are rejected, so that no foreign page reaches the application through a name of its own;
    with a `page_host` other than loopback only once names are set here."""
    page_token: Annotated[SecretStr | None, AfterValidator(require_secret)] = None
    """Secret that a browser must enter once, and that programs send as `Authorization: Bearer`; at least 16 characters."""
    page_operator_token: Annotated[SecretStr | None, AfterValidator(require_secret)] = None
    """Secret that an operator enters or sends in place of `page_token`; at least 16 characters. Only an operator starts missing
    games of a ladder, promotes a version or rolls back. With `page_token` alone there is no operator; without either, every
    user of this machine is one."""
    max_tables: int = Field(default=32, ge=1)
    """Maximum number of games being played against the application; a further one ends the least recently used."""
    services_elsewhere: bool = False
    """Whether the services of the runs are in other containers or on other machines, where these pages do not see whether they
    are alive."""
    worker_addresses: str = ""
    """HTTP ports of self-play workers, `host:port` separated by commas, that show their games in progress. Needed only where
    workers are on other machines than the pages; they belong to one run, `run_dir`, and require `games_token`."""
    games_token: Annotated[SecretStr | None, AfterValidator(require_secret)] = None
    """Secret that the self-play workers require for their games in progress, at least 16 characters; the workers have the same
    setting."""
    journal_cache: Annotated[Path | None, BeforeValidator(lambda value: value or None)] = Path("~/.cache/zerofleet/journals")
    """Directory of what was read from the journals of gates, some MB for each run, so that pages that start again read only
    what is new; `~` is the home directory of the user, and the directory may be removed at any time. Empty for none."""
    costs: Annotated[Path | None, BeforeValidator(lambda value: value or None)] = None
    """Cost file of `zerofleet bench --save` for the page of the cluster; without it, the example of the package."""

    @property
    def is_loopback(self) -> bool:
        """Whether the pages are reached from this machine alone."""
        return is_loopback(self.page_host)

    @property
    def probed_workers(self) -> tuple[tuple[str, int], ...]:
        """Hosts and ports of `worker_addresses`."""
        return tuple(worker_address(text) for text in self.worker_addresses.split(",") if text.strip())

    @model_validator(mode="after")
    def _addresses_of_one_run_with_a_token(self) -> Self:
        if self.probed_workers and self.games_token is None:
            raise ValueError("worker_addresses need games_token: workers refuse other machines without it")
        if self.probed_workers and self.runs is not None:
            raise ValueError("worker_addresses belong to one run: set run_dir in place of runs")
        return self

    @model_validator(mode="after")
    def _elsewhere_only_with_a_token(self) -> Self:
        text = plain(self.page_token) or ""
        if not self.is_loopback and not text:
            raise ValueError(
                f"page_host {self.page_host} is reached from other machines: set page_token (ZEROFLEET_PAGE_TOKEN), or use "
                "127.0.0.1 (`zerofleet ui --host 127.0.0.1`)"
            )
        if text and text == plain(self.page_operator_token):
            raise ValueError("page_token and page_operator_token are equal: every reader would be an operator")
        return self
