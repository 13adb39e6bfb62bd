"""Some faults of each kind whose short forms are in ``more``: quick ones, for every change."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play, PlayOn
from tests.cluster_faults.harness.copies import change_cluster_id
from tests.cluster_faults.harness.disk_faults import write_less
from tests.cluster_faults.harness.disks import why_no_preload
from tests.cluster_faults.harness.link_faults import CONNECTION_FAULTS
from tests.cluster_faults.harness.power_faults import lose_power_of_all
from tests.cluster_faults.harness.powered_clusters import FlushingCluster
from tests.cluster_faults.harness.request_faults import request_faults
from tests.cluster_faults.harness.unclean_elections import unclean_election_by_setting

pytestmark = pytest.mark.timeout(300)
REQUESTS = ("double_produce", "drop_end_txn", "delay_leader_and_isr", "replay_offset_commit")


def test_all_brokers_lose_power(play_without_power: PlayOn) -> None:
    play_without_power(FlushingCluster, lose_power_of_all)


def test_elections_directories_and_short_writes(play: Play) -> None:
    play(unclean_election_by_setting, change_cluster_id, *([] if why_no_preload() else [write_less]))


def test_requests_and_connections(play_proxied: Play) -> None:
    faults = request_faults()
    play_proxied(*(faults[name] for name in REQUESTS), CONNECTION_FAULTS["reset_clients"])
