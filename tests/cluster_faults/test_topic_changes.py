"""Topics moved, grown, deleted and created again while a broker is away: no record is in a wrong topic."""

from __future__ import annotations

from functools import partial

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness.topic_changes import change_topics, cut_off, killed

pytestmark = pytest.mark.timeout(300)


def test_topics_changed_while_a_broker_is_killed(play: Play) -> None:
    play(partial(change_topics, away=killed))


@pytest.mark.usefixtures("cuts")
def test_topics_changed_while_a_broker_is_cut_off(play: Play) -> None:
    play(partial(change_topics, away=cut_off))
