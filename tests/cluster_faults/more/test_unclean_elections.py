"""A shorter log is all that is left: it does not lead, or what is lost is what was truncated."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness import unclean_elections

pytestmark = pytest.mark.timeout(300)


def test_no_unclean_election(play: Play) -> None:
    play(unclean_elections.no_unclean_election)


def test_unclean_election(play: Play) -> None:
    play(unclean_elections.unclean_election_by_command)
