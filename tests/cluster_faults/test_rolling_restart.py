"""A rolling restart by SIGTERM: no error reaches an idempotent producer."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness import faults

pytestmark = pytest.mark.timeout(300)


def test_rolling_restart(play: Play) -> None:
    play(faults.roll)
