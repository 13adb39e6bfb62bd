"""Processes paused for longer than a session, and resumed with requests in their queues."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness import faults

pytestmark = pytest.mark.timeout(300)


def test_paused_processes(play: Play) -> None:
    play(*faults.PAUSES)
