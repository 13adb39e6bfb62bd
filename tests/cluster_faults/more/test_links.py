"""Links that lose packets or are slow, connections that are reset or half-open."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness.link_faults import CONNECTION_FAULTS, PACKET_FAULTS

pytestmark = pytest.mark.timeout(300)


@pytest.mark.usefixtures("loses")
def test_lossy_and_slow_links(play: Play) -> None:
    play(*PACKET_FAULTS)


def test_broken_connections(play_proxied: Play) -> None:
    play_proxied(*CONNECTION_FAULTS.values())
