"""Scopes that are searched to their end, and faults that replication cannot survive."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.model.rules import Rules
from tests.model.state import Scope, Stored


class NamedScope(NamedTuple):
    name: str
    scope: Scope


DEFAULT: Final = (
    NamedScope("ISR changes", Scope(records=2, epochs=2)),
    NamedScope(
        "two fetches in flight",
        Scope(records=2, epochs=2, messages=2, delays_requests=True, shrinks=False),
    ),
    NamedScope("divergent logs", Scope(records=3, epochs=3, shrinks=False)),
    NamedScope(
        "divergent logs, OffsetForLeaderEpoch",
        Scope(records=2, epochs=3, shrinks=False, truncates_by_epoch_request=True),
    ),
    NamedScope("process crash", Scope(records=1, epochs=2, crashes=1)),
    NamedScope("power loss", Scope(records=1, epochs=2, losses=1)),
)
FULL: Final = (
    NamedScope("delayed fetch requests", Scope(records=1, epochs=2, delays_requests=True)),
    NamedScope("ISR changes of one record in three epochs", Scope(records=1, epochs=3)),
    NamedScope("ISR changes in three epochs", Scope(records=2, epochs=3)),
    NamedScope("power loss in three epochs", Scope(records=1, epochs=3, losses=1)),
)
LIMITS: Final = (
    NamedScope(
        "unclean election",
        Scope(records=1, epochs=4, crashes=2, shrinks=False, initial_isr=0b011, unclean_election=True),
    ),
    NamedScope(
        "the last in-sync replica loses power",
        Scope(records=1, epochs=2, losses=1, last_replica_may_lose=True),
    ),
    NamedScope(
        "a replica loses power while it joins the ISR",
        Scope(records=1, epochs=2, losses=1, joining_replica_may_lose=True),
    ),
)
"""Each must be violated: a model that survived them would be too weak."""


class NewEpochAfterEveryFailure(Rules):
    """A stricter controller: it bumps the leader epoch also for a replica outside the ISR.

    Then an ISR change that adds the replica is fenced, and the third limit is none.
    """

    def needs_new_epoch(self, stored: Stored, broker: int, is_bounce: bool) -> bool:
        return True
