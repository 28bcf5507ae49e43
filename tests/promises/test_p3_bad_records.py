"""P3 in one process: each kind of bad record is kept aside with its reason, is counted, and never reaches the log."""

from __future__ import annotations

import numpy as np
import pytest
from promise_intake import NEWEST, taking
from promise_tools import record

from zerofleet.storage.streams import Delivery, MemoryStream
from zerofleet.telemetry import metrics

GOOD = [record(number) for number in range(3)]
FRESH = f"{77:032x}"

BAD = {
    "noise": (FRESH, b"\xff\x01 no record"),
    "half of a record": (FRESH, record(77)[1][:40]),
    "the record of another game": (FRESH, record(78)[1]),
    "a result that the rules do not give": record(79, scores=(0.5, -0.5)),
    "an illegal move": record(80, moves=np.array([0, 0], np.int32), searched=()),
    "a game that is not over": record(81, moves=np.array([0, 1], np.int32), searched=(), scores=(0.0, 0.0)),
    "a version that was never published": record(82, version=NEWEST + 1),
    "another game under a known uid": (GOOD[0][0], record(83, uid=GOOD[0][0])[1]),
    "another kind of game": record(84),
}
REASONS = {"noise": "format", "half of a record": "format", "the record of another game": "uid"}
REASONS |= {"a version that was never published": "model_version", "another game under a known uid": "conflict"}
REASONS |= {"a result that the rules do not give": "result", "another kind of game": "other_game"}


def rejected() -> float:
    found = (sample for metric in metrics.RECORDS_REJECTED.collect() for sample in metric.samples)
    return sum(sample.value for sample in found if sample.name.endswith("_total"))


@pytest.mark.parametrize("kind", BAD)
async def test_p3_a_bad_record_is_kept_aside_counted_and_never_in_the_log(tmp_path, kind):
    uid, payload = BAD[kind]
    if kind == "another kind of game":
        payload = payload.replace(b"tic_tac_toe", b"tic_tac_too")
    stream, before = MemoryStream(), rejected()
    with taking(tmp_path, stream) as trainer:
        for good in GOOD:
            await stream.publish(*good)
        await trainer.take()
        samples = trainer.replay.window.total
        await stream.publish(uid, payload)
        await trainer.take()
        assert [(logged.uid, logged.payload) for logged in trainer.replay.log.scan()] == GOOD
        assert trainer.replay.window.total == samples
    assert (await stream.stats()).length == 0
    (letter,) = await stream.dead()
    assert (letter.uid, letter.payload) == (uid, payload)
    assert letter.reason.startswith(REASONS.get(kind, "moves"))
    assert rejected() == before + 1


async def test_p3_a_delivery_without_a_valid_uid_is_refused(tmp_path):
    with taking(tmp_path, MemoryStream()) as trainer:
        checked = await trainer.intake.take([Delivery("1", "not a uid", GOOD[0][1], 1)])
        assert [refusal.reason for refusal in checked.refused] == ["uid"]
        assert trainer.uids == []
