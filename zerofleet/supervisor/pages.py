"""Client of a service's /metrics: a request over loopback and the parsed samples."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from zerofleet.supervisor.probe_client import fetch

__all__ = ["MetricsPage", "fetch_page", "read_page"]

TIMEOUT_S = 2.0
MAX_PAGE_BYTES = 4 << 20
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class MetricsPage:
    """Samples of one page; histograms only by sum and count."""

    def __init__(self, text: str) -> None:
        self._samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for line in text.splitlines():
            found = None if line.startswith("#") else _SAMPLE.match(line)
            if found is None or found["name"].endswith("_bucket"):
                continue
            labels = dict(_LABEL.findall(found["labels"] or ""))
            self._samples.setdefault(found["name"], []).append((labels, float(found["value"])))

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a metric over the series with the given labels; 0 without any."""
        return math.fsum(value for found, value in self._samples.get(name, ()) if labels.items() <= found.items())

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric, None if the page lacks it."""
        return next((value for found, value in self._samples.get(name, ()) if labels.items() <= found.items()), None)

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the values of a metric by a label."""
        return {found[label]: value for found, value in self._samples.get(name, ()) if label in found}

    def counters(self) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """Yield the monotonic samples: name, labels, value."""
        for name, samples in self._samples.items():
            if name.endswith(("_total", "_sum", "_count")):
                for labels, value in samples:
                    yield name, labels, value


async def fetch_page(port: int, token: str | None = None) -> MetricsPage | None:
    """Return the page of the service on a loopback port; None if it does not reply in time or rejects the token.

    Cancellation: the connection is closed.
    """
    page, _ = await read_page(port, token)
    return page


async def read_page(port: int, token: str | None = None) -> tuple[MetricsPage | None, bool]:
    """Return the page as `fetch_page`, and whether the service replied in time, also where it rejects the token.

    Cancellation: the connection is closed.
    """
    try:
        reply = await fetch("127.0.0.1", port, "/metrics", token=token, most_bytes=MAX_PAGE_BYTES, timeout_s=TIMEOUT_S)
        return (MetricsPage(reply.body.decode()) if reply.status == 200 else None), True
    except (OSError, TimeoutError, ValueError):
        return None, False
