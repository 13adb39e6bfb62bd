"""Sessions that expire, and a ZooKeeper that is killed or slow: the data plane goes on."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness import faults

pytestmark = pytest.mark.timeout(300)


def test_sessions_and_zookeeper(play: Play) -> None:
    play(*faults.STORE)
