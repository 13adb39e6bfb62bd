"""The project's own decisions, as functions of plain values: ISR state, epoch cache, acks, election.

The model calls the code that brokers run. Results are cached: a search asks the same few thousand questions
millions of times. ``leader_type`` is ``Leader``, or a subclass with a planted bug.

Time is abstract. A follower outside the ISR counts as long out of sync, unless it has the whole log: then the
high watermark waits for nobody outside the maximal ISR, which is its least careful value. A follower in the
ISR may be removed as soon as it lacks a record.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import groupby
from typing import Any, Final, TypeVar, cast

from tests.model.state import BROKERS, MEMBERS, NONE, Leadership, Stored, mask_of

from odradek.controller.machine.leader_election import elect_offline_leader
from odradek.log.leader_epoch_cache import EpochEntry, LeaderEpochCache
from odradek.model.errors import BrokerError
from odradek.model.protocol_enums import ACKS_ALL
from odradek.replication import acks
from odradek.replication.leader import NEVER_MS, Leader
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch

NOW_MS: Final = 1_000_000
LAG_TIME_MAX_MS: Final = 1000

LeaderType = type[Leader]
Function = TypeVar("Function", bound=Callable[..., Any])


def cached(function: Function) -> Function:
    """``functools.cache`` with the signature of the function."""
    return cast(Function, cache(function))


def _leader(leader_type: LeaderType, broker: int, leadership: Leadership, leader_epoch: int = 0) -> Leader:
    leader = leader_type(broker, LAG_TIME_MAX_MS, lambda broker_id: True, lambda: NOW_MS)
    leader.update_assignment_and_isr(
        BROKERS, MEMBERS[leadership.isr], leader_epoch, leadership.partition_epoch, leadership.epoch_start
    )
    for follower in BROKERS:
        replica = leader.replica(follower)
        if replica is not None:
            replica.log_end_offset = leadership.ends[follower]
            replica.last_caught_up_ms = NEVER_MS
    if leadership.proposed:
        leader.propose_isr(MEMBERS[leadership.proposed])
    return leader


def _ends(leader: Leader) -> tuple[int, ...]:
    replicas = [leader.replica(broker) for broker in BROKERS]
    return tuple(NONE if replica is None else replica.log_end_offset for replica in replicas)


@cached
def become_leader(
    leader_type: LeaderType,
    broker: int,
    previous: Leadership | None,
    previous_epoch: int,
    request: Stored,
    end_offset: int,
) -> Leadership:
    """Apply LeaderAndIsr. ``previous`` is what the broker remembers as leader of an earlier epoch."""
    if previous is None:
        leader = leader_type(broker, LAG_TIME_MAX_MS, lambda broker_id: True, lambda: NOW_MS)
    else:
        leader = _leader(leader_type, broker, previous, previous_epoch)
    leader.update_assignment_and_isr(
        BROKERS, MEMBERS[request.isr], request.leader_epoch, request.partition_epoch, end_offset
    )
    epoch_start, isr = leader.leader_epoch_start_offset, mask_of(leader.isr)
    return Leadership(epoch_start, isr, request.partition_epoch, 0, _ends(leader))


@cached
def high_watermark(
    leader_type: LeaderType,
    broker: int,
    leadership: Leadership,
    current: int,
    end_offset: int,
    min_isr: int,
) -> int:
    leader = _leader(leader_type, broker, leadership)
    return leader.high_watermark(current, end_offset, min_isr)


@cached
def update_fetch_state(
    leader_type: LeaderType,
    broker: int,
    leadership: Leadership,
    follower: int,
    fetch_offset: int,
    end_offset: int,
) -> Leadership:
    leader = _leader(leader_type, broker, leadership)
    replica = leader.replica(follower)
    assert replica is not None
    leader.record_fetch(replica, fetch_offset, 0, end_offset)
    return leadership._replace(ends=_ends(leader))


@cached
def maybe_expand_isr(
    leader_type: LeaderType, broker: int, leadership: Leadership, follower: int, current: int
) -> int:
    """Return the ISR to propose after a fetch; 0 if the follower may not join."""
    isr = _leader(leader_type, broker, leadership).maybe_expand_isr(follower, current)
    return 0 if isr is None else mask_of(isr)


@cached
def possible_shrinks(
    leader_type: LeaderType, broker: int, leadership: Leadership, end_offset: int
) -> tuple[int, ...]:
    """Return the ISRs that the leader may propose, depending on which followers have lagged long enough."""
    proposals = set()
    for lagging in MEMBERS:
        leader = _leader(leader_type, broker, leadership)
        for follower in BROKERS:
            replica = leader.replica(follower)
            if replica is not None and follower not in lagging:
                replica.last_caught_up_ms = NOW_MS
        isr = leader.maybe_shrink_isr(end_offset)
        if isr is not None:
            proposals.add(mask_of(isr))
    return tuple(sorted(proposals))


@cached
def commit_isr(leader_type: LeaderType, broker: int, leadership: Leadership, isr: int) -> Leadership:
    leader = _leader(leader_type, broker, leadership)
    leader._commit_isr(MEMBERS[isr], leadership.partition_epoch)
    return leadership._replace(isr=mask_of(leader.isr), proposed=0)


@cached
def revert_isr_change(leader_type: LeaderType, broker: int, leadership: Leadership) -> Leadership:
    leader = _leader(leader_type, broker, leadership)
    leader._commit_isr(leader.isr, leadership.partition_epoch)
    return leadership._replace(isr=mask_of(leader.isr), proposed=0)


@cached
def maximal_isr(leader_type: LeaderType, broker: int, leadership: Leadership) -> int:
    return mask_of(_leader(leader_type, broker, leadership).maximal_isr)


@cached
def accepts_acks_all(isr: int, min_isr: int) -> bool:
    try:
        acks.check_before_append(ACKS_ALL, len(MEMBERS[isr]), len(BROKERS), min_isr)
    except BrokerError:
        return False
    return True


# Leader epochs.


def _epoch_cache(log: tuple[int, ...], empty_epoch: int) -> LeaderEpochCache:
    entries, offset = [], 0
    for epoch, records in groupby(log):
        entries.append(EpochEntry(epoch, offset))
        offset += len(list(records))
    if empty_epoch != NONE:
        entries.append(EpochEntry(empty_epoch, offset))
    return LeaderEpochCache(entries)


@cached
def latest_epoch(log: tuple[int, ...], empty_epoch: int) -> int:
    return _epoch_cache(log, empty_epoch).latest


@cached
def end_offset_for(log: tuple[int, ...], empty_epoch: int, epoch: int) -> tuple[int, int]:
    """Return the largest epoch of the log that is not above ``epoch``, and its end offset."""
    return _epoch_cache(log, empty_epoch).end_offset_for(epoch, len(log))


@cached
def elections(isr: int, live: int) -> tuple[tuple[int, int], ...]:
    """Return leader and ISR of each possible election after the leader failed: any assignment order."""
    state = LeaderIsrAndControllerEpoch(NONE, 0, MEMBERS[isr], 0)
    results = set()
    for first in BROKERS:
        order = (first, *(broker for broker in BROKERS if broker != first))
        elected = elect_offline_leader(state, order, MEMBERS[live], 0)
        if elected is not None:
            results.add((elected.leader, mask_of(elected.isr)))
    return tuple(sorted(results))
