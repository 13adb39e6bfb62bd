"""Requests of one kind doubled, delayed, sent again later, or without their responses."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness.request_faults import request_faults

pytestmark = pytest.mark.timeout(300)
FAULTS = request_faults()


def test_doubled_requests(play_proxied: Play) -> None:
    play_proxied(*(fault for name, fault in FAULTS.items() if name.startswith("double")))


def test_late_requests(play_proxied: Play) -> None:
    play_proxied(
        FAULTS["delay_produce"],
        FAULTS["delay_produce_beyond_timeout"],
        FAULTS["replay_produce"],
        FAULTS["replay_leader_and_isr"],
    )


def test_lost_responses(play_proxied: Play) -> None:
    play_proxied(
        FAULTS["drop_end_txn"],
        FAULTS["drop_write_txn_markers"],
        FAULTS["move_controller_and_drop_alter_partition"],
    )
