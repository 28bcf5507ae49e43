"""The compilation in progress, for pages that wait for it."""

from __future__ import annotations

import pytest

from ui.compiling import CompilingEndpoints
from zerofleet.service.compilation_note import Compilation


@pytest.mark.parametrize(
    ("now", "shown"),
    [
        (None, (False, 0, 0.0)),
        (Compilation(3, 0.9), (False, 0, 0.0)),
        (Compilation(34, 12.04), (True, 34, 12.0)),
    ],
)
async def test_a_compilation_is_shown_from_its_second_second_on(now, shown):
    found = await CompilingEndpoints(lambda: now).compilation(None)
    assert (found.is_compiling, found.functions, found.seconds) == shown
    assert found.expected_s == 20.0


async def test_pages_that_compile_nothing_say_so(client):
    answer = await client.get("/api/v1/compilation")
    assert answer.status_code == 200
    assert set(answer.json()) == {"is_compiling", "functions", "seconds", "expected_s"}
