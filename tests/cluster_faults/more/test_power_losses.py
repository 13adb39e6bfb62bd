"""One broker loses power, and with it the ends of its logs: the others have what was acknowledged."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import PlayOn
from tests.cluster_faults.harness.power_faults import POWER_LOSSES
from tests.cluster_faults.harness.powered_clusters import LosingCluster

pytestmark = pytest.mark.timeout(300)


def test_one_broker_loses_power(play_without_power: PlayOn) -> None:
    play_without_power(LosingCluster, *POWER_LOSSES)
