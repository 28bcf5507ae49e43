"""The tensors of a version: answers that no message can carry."""

from __future__ import annotations

import pytest

from inference_server.tensors import Contract
from zerofleet.contracts.heads import outputs_of
from zerofleet.contracts.naming import MAX_MESSAGE_BYTES
from zerofleet.errors import InvalidRequest


def test_an_answer_larger_than_a_message_is_refused_with_the_number_of_positions_that_fit() -> None:
    outputs = outputs_of(("policy", "value", "opponents"), max_legal=256, num_players=2, num_actions=6_561)
    contract = Contract((1, 9, 9), 11, 256, 6_561, outputs)
    everything = contract.require_outputs([])
    row_bytes = 2 * 256 + 4 * 2 + 2 * 6_561
    with pytest.raises(InvalidRequest, match=rf"has {row_bytes} bytes a position, .* at most 613, or name fewer") as refused:
        contract.require_sendable(614, everything)
    assert "policy__0, value__1, head__2" in str(refused.value)
    contract.require_sendable(613, everything)
    assert 613 * row_bytes < MAX_MESSAGE_BYTES
    contract.require_sendable(1_024, contract.require_outputs(["policy__0", "value__1"]))
