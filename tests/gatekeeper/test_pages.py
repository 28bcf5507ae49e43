"""Long lists of candidates: pages that fit into a message, and only what changed."""

from __future__ import annotations

import pytest

from zerofleet.contracts.gate_events import StatusChanged, Submitted
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.contracts.wire import gatekeeper_pb2 as wire
from zerofleet.rpc.gatekeeper_client import PAGE_SIZE

MODEL = "tic_tac_toe"
MANY = 30_000


def note(gate, version: int, status: CandidateStatus, reason: str = "") -> None:
    """Change a candidate without writing it to the disk."""
    if gate.ledger.candidate(version) is None:
        gate.ledger._fold(Submitted(version=version, manifest_sha256=""))
    gate.ledger._fold(StatusChanged(version=version, status=status, reason=reason))


def fill(gate, count: int, reason: str = "rejected: 12 won, 4 drawn, 24 lost (35.0%)") -> None:
    for version in range(1, count + 1):
        note(gate, version, CandidateStatus.REJECTED, reason)


async def test_thirty_thousand_candidates_are_listed(open_gate, monkeypatch):
    monkeypatch.setattr("gatekeeper.ledger.MOST_SETTLED", MANY)  # as if all of them had been champion
    async with open_gate(mode="off") as gate:
        fill(gate, MANY, "x" * 150)
        listed, champion = await gate.client.models(MODEL)
        assert [candidate.version for candidate in listed] == list(range(1, MANY + 1))
        assert champion is None


async def test_a_page_with_the_longest_reasons_fits_into_a_message(open_gate):
    async with open_gate(mode="off") as gate:
        fill(gate, PAGE_SIZE + 1, "\U0001f600" * 2_000)
        listed, _ = await gate.client.models(MODEL)
        assert len(listed) == PAGE_SIZE + 1


async def test_only_candidates_that_changed_are_sent_again(open_gate):
    async with open_gate(mode="off") as gate:
        fill(gate, 20)
        first = await gate.client.changes(MODEL)
        assert (len(first.candidates), first.has_more) == (20, False)
        assert (await gate.client.changes(MODEL, first.cursor)).candidates == ()
        for version, status in ((3, CandidateStatus.BROKEN), (21, CandidateStatus.QUEUED), (3, CandidateStatus.PROMOTED)):
            note(gate, version, status)
        second = await gate.client.changes(MODEL, first.cursor)
        assert [(one.version, one.status) for one in second.candidates] == [
            (21, CandidateStatus.QUEUED),
            (3, CandidateStatus.PROMOTED),
        ]
        assert (await gate.client.changes(MODEL, second.cursor)).candidates == ()


@pytest.mark.parametrize("cursor", ["", "x", ":", "deadbeef:7", "deadbeef:\u00b2", "x" * 10_000])
async def test_a_cursor_of_another_process_begins_again(open_gate, cursor):
    async with open_gate(mode="off") as gate:
        fill(gate, 3)
        assert [one.version for one in (await gate.client.changes(MODEL, cursor)).candidates] == [1, 2, 3]


async def test_a_client_without_pages_gets_every_candidate_by_version(open_gate):
    async with open_gate(mode="off") as gate:
        fill(gate, 1_200)
        note(gate, 5, CandidateStatus.BROKEN)
        reply = await gate.client._stub.ListModels(wire.ListModelsRequest(game=MODEL))
        assert [one.version for one in reply.models] == list(range(1, 1_201))


async def test_a_page_is_never_larger_than_the_server_allows(open_gate):
    async with open_gate(mode="off") as gate:
        fill(gate, 1_200)
        reply = await gate.client._stub.ListModels(wire.ListModelsRequest(game=MODEL, page_size=1 << 31))
        assert (len(reply.models), reply.has_more) == (1_000, True)
