"""Reading /metrics: what our own services write, and what goes wrong on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from zerofleet.supervisor import pages
from zerofleet.supervisor.counters import Meter, Totals
from zerofleet.supervisor.pages import MetricsPage, fetch_page
from zerofleet.telemetry import metrics

PAGE = """# HELP zerofleet_x_total x
# TYPE zerofleet_x_total counter
zerofleet_x_total{game="a",outcome="draw"} 3.0
zerofleet_x_total{game="a",outcome="won \\"well\\""} 4.5e+01
zerofleet_b_bucket{le="1.0"} 9.0
zerofleet_b_sum 12.5
zerofleet_b_count 4.0
zerofleet_g -1.0
zerofleet_n NaN
"""


def test_metric_values_are_found_by_name_and_label() -> None:
    page = MetricsPage(PAGE)
    assert page.total("zerofleet_x_total") == 48.0
    assert page.total("zerofleet_x_total", outcome="draw") == 3.0
    assert page.by("zerofleet_x_total", "outcome") == {"draw": 3.0, 'won \\"well\\"': 45.0}
    assert page.value("zerofleet_g") == -1.0
    assert page.value("zerofleet_absent") is None
    assert page.total("zerofleet_b_bucket") == 0.0


def test_the_metrics_page_of_a_service_is_parsed_completely() -> None:
    metrics.EVAL_BATCH_SIZE.observe(8)
    page = MetricsPage(metrics.exposition("selfplay_worker").decode())
    assert page.total("zerofleet_eval_batch_size_count") >= 1
    assert page.total("process_resident_memory_bytes") > 0


def test_totals_continue_after_a_restart_of_a_service() -> None:
    totals = Totals()
    for value in (5, 9, 2, 3):  # the process was new before 2
        totals.take("worker-0", MetricsPage(f'x_total{{game="a"}} {value}'))
    totals.take("worker-1", MetricsPage('x_total{game="a"} 100'))
    assert totals.of("x_total") == 112
    assert totals.of("x_total", game="a") == 112
    assert totals.of("x_total", game="b") == 0
    assert totals.of("y_total") == 0


def test_rates_are_computed_over_the_window() -> None:
    totals, meter = Totals(), Meter(window_s=10)
    for second in range(40):
        growth = 10 * second if second < 20 else 200 + 2 * (second - 20)
        totals.take("s", MetricsPage(f"x_total {growth}\ny_count {second}"))
        meter.take(float(second), {name: totals.of(name) for name in ("x_total", "y_count")})
    assert meter.per_second("x_total") == pytest.approx(2.0)
    assert meter.ratio("x_total", "y_count") == pytest.approx(2.0)


def test_a_rate_is_unknown_before_the_second_reading() -> None:
    meter = Meter()
    meter.take(0.0, {"x_total": 0.0})
    assert meter.per_second("x_total") != meter.per_second("x_total")  # nan
    meter.take(1.0, {"x_total": 0.0})
    assert meter.per_second("x_total") == 0.0
    assert meter.ratio("x_total", "x_total") != meter.ratio("x_total", "x_total")


@asynccontextmanager
async def answering(answer: bytes | None) -> AsyncIterator[int]:
    released = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await released.wait()
        else:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        released.set()
        server.close()


async def test_a_metrics_page_is_fetched_over_loopback() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n\r\nx_total 3\n") as port:
        page = await fetch_page(port)
    assert page is not None
    assert page.total("x_total") == 3.0


@pytest.mark.parametrize("answer", [b"HTTP/1.1 404 Not Found\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\n\r\nx_total abc\n"])
async def test_an_invalid_metrics_page_is_ignored(answer: bytes) -> None:
    async with answering(answer) as port:
        assert await fetch_page(port) is None


async def test_a_service_that_does_not_reply_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "TIMEOUT_S", 0.01)
    async with answering(None) as port:
        assert await fetch_page(port) is None
    assert await fetch_page(port) is None  # and nobody listens
