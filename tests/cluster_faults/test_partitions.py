"""Links cut between brokers, ZooKeeper and clients, in one direction or both."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness import faults

pytestmark = pytest.mark.timeout(300)


@pytest.mark.usefixtures("cuts")
def test_cut_links(play: Play) -> None:
    play(*faults.CUTS)
