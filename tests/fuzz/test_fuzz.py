"""A short, repeatable run of every target; and the fuzzer itself, which must find planted faults."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Iterator
from pathlib import Path

import fuzz_campaign
import pytest
import structlog
from fuzz_campaign import Limit, Logged, campaign, replay, watched_logs
from fuzz_formats import format_targets
from fuzz_messages import change_message, mutate_message
from fuzz_mutation import mutate_bytes, mutate_json, mutate_json_lines, mutate_lines, mutate_toml
from fuzz_services import service_targets
from fuzz_targets import Target, reader
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from zerofleet.contracts.wire import evaluation_pb2, gatekeeper_pb2
from zerofleet.errors import InvalidRequest

ROOT = Path(__file__).parents[2]
REGRESSIONS = Path(__file__).parent / "corpus"
MESSAGES = 60
"""Inputs of each target in a test."""


@pytest.fixture
def logged() -> Iterator[Logged]:
    with watched_logs() as found:
        yield found


def refuses(data: bytes) -> None:
    if not data.startswith(b"good"):
        raise InvalidRequest(f"{data[:8]!r} is not good")


def target(read=refuses, **fields) -> Target:
    made = reader("planted", [b"good morning"], read, mutate=mutate_bytes)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


async def found(planted: Target, logged: Logged, **limit) -> str:
    report = await campaign(planted, seed=3, limit=Limit(**{"messages": 300, **limit}), logged=logged)
    return "\n".join(report.faults)


async def test_a_reader_that_refuses_by_the_tree_of_errors_has_no_fault(logged):
    report = await campaign(target(), seed=3, limit=Limit(messages=300), logged=logged)
    assert (report.messages, report.faults) == (300, {})
    assert report.outcomes["accepted"] + report.outcomes["InvalidRequest"] == 300
    assert min(report.outcomes.values()) > 10


async def test_the_same_seed_tries_the_same_inputs(logged):
    seen: list[list[bytes]] = []
    for _ in range(2):
        seen.append([])
        await campaign(target(seen[-1].append), seed=3, limit=Limit(messages=50), logged=logged)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 40


async def test_an_exception_outside_of_the_tree_is_a_fault_with_its_place(logged):
    assert re.search(r"ValueError: .* test_fuzz\.py:\d+ <lambda>", await found(target(lambda data: int(data + b"!")), logged))


async def test_a_traceback_in_a_log_is_a_fault(logged):
    def read(data: bytes) -> None:
        try:
            data[100]
        except IndexError:
            structlog.get_logger().exception("swallowed")

    assert "IndexError" in await found(target(read), logged)
    assert "grave" in await found(target(lambda data: logging.getLogger("asyncio").error("grave")), logged)


async def test_an_input_that_takes_too_long_is_a_fault(logged, monkeypatch):
    monkeypatch.setattr(fuzz_campaign, "LONGEST_S", 0.02)

    def read(data: bytes) -> None:
        while not data.startswith(b"good"):
            pass

    assert "TooLong" in await found(target(read), logged, messages=20)


async def test_memory_that_grows_is_a_fault(logged, monkeypatch):
    monkeypatch.setattr(fuzz_campaign, "GROWTH_BYTES", 4 << 20)
    held: list[bytearray] = []
    assert "memory grew" in await found(target(lambda data: held.append(bytearray(1 << 17))), logged)


async def test_a_valid_input_that_is_refused_afterwards_is_a_fault(logged):
    seen: list[bytes] = []

    def read(data: bytes) -> None:
        seen.append(data)
        if len(seen) > 100:
            raise InvalidRequest("no more")

    assert "the valid input is refused" in await found(target(read), logged)


async def test_inputs_with_new_outcomes_and_those_of_faults_are_kept_in_files(logged, tmp_path):
    report = await campaign(target(int), seed=3, limit=Limit(messages=50), logged=logged, corpus=tmp_path)
    stored = {path.read_bytes() for path in (tmp_path / "faults").glob("planted-*.input")}
    assert stored == set(report.faults.values()) != set()
    await campaign(target(), seed=3, limit=Limit(messages=50), logged=logged, corpus=tmp_path)
    kept = list((tmp_path / "planted").iterdir())
    (tmp_path / "planted" / "copy.input").write_bytes(kept[0].read_bytes())
    again = target()
    await campaign(again, seed=3, limit=Limit(messages=0), logged=logged, corpus=tmp_path)
    assert len(again.kept) == len(list((tmp_path / "planted").iterdir())) == len(kept) > 1


async def test_a_stored_input_of_a_fault_repeats_it(logged, tmp_path):
    planted = target(int)
    report = await campaign(planted, seed=3, limit=Limit(messages=50), logged=logged, corpus=tmp_path)
    for path in (tmp_path / "faults").glob("*.input"):
        again = await replay([target(name="plant"), planted], path, path.read_bytes(), logged)
        assert [path.with_suffix(".txt").read_text()] == list(again.faults)
    assert report.faults
    with pytest.raises(LookupError, match="is of no target"):
        await replay([planted], tmp_path / "other.input", b"", logged)


@given(seed=st.integers(0, 2**32), data=st.binary(max_size=200))
def test_a_mutation_takes_any_bytes(seed, data):
    for mutate in (mutate_bytes, mutate_lines, mutate_json, mutate_json_lines, mutate_toml):
        assert isinstance(mutate(random.Random(seed), data), bytes)
    for kind in (service_pb2.ModelInferRequest, gatekeeper_pb2.Candidate, evaluation_pb2.EvaluateReply):
        assert isinstance(mutate_message(random.Random(seed), data, kind), bytes)


@pytest.mark.slow
def test_changes_of_a_message_reach_every_field():
    rng, seen = random.Random(1), set()
    for _ in range(3_000):
        changed = service_pb2.ModelInferRequest()
        change_message(rng, changed)
        seen |= {field.name for field, _ in changed.ListFields()}
    assert seen == {field.name for field in service_pb2.ModelInferRequest.DESCRIPTOR.fields}


@pytest.mark.slow
async def test_every_method_and_format_withstands_a_short_run(tmp_path, logged):
    async with service_targets(tmp_path) as services:
        targets = [*format_targets(tmp_path), *services]
        names = [one.name for one in targets]
        faults = {}
        for one in targets:
            regressions = sorted((REGRESSIONS / one.folder).glob("*.input"))
            one.seeds = [*one.seeds, *(path.read_bytes() for path in regressions)]
            report = await campaign(one, seed=20261123, limit=Limit(messages=MESSAGES), logged=logged)
            assert report.messages == MESSAGES
            faults |= {one.name: list(report.faults)} if report.faults else {}
    assert faults == {}
    assert len(names) == len(set(names)) == len({one.folder for one in targets})
    declared = {
        f"{package}.{service}/{method}"
        for path in sorted((ROOT / "proto").rglob("*.proto"))
        for package in re.findall(r"^package (\S+);", path.read_text(), re.MULTILINE)
        for service, body in re.findall(r"^service (\w+) \{(.*?)^\}", path.read_text(), re.MULTILINE | re.DOTALL)
        for method in re.findall(r"rpc (\w+)\(", body)
    }
    assert declared <= set(names)
    assert {f"socket {method}" for method in declared} <= set(names)


@pytest.mark.slow
async def test_every_kept_input_of_a_mended_fault_has_a_target_and_no_fault(tmp_path, logged):
    async with service_targets(tmp_path) as services:
        targets = {one.folder: one for one in [*format_targets(tmp_path), *services]}
        kept = sorted(REGRESSIONS.glob("*/*.input"))
        for path in kept:
            one = targets[path.parent.name]
            await one.run(path.read_bytes())
            assert logged.take() == [], path
    assert kept
