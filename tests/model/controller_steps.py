"""Steps of the controller: ISR changes, elections, failed and returning brokers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import real_rules
from tests.model.rules import Model
from tests.model.state import (
    BROKERS,
    MEMBERS,
    NONE,
    Alteration,
    Outcome,
    Replica,
    State,
    Status,
    Step,
    Stored,
    with_replica,
    without_alteration,
)


def steps(model: Model, state: State) -> Iterator[Step]:
    for alteration in state.alterations:
        if alteration.outcome is Outcome.PENDING:
            yield from alteration_steps(model, state, alteration)
    yield from election_steps(model, state)
    for broker, replica in enumerate(state.replicas):
        if replica.status in (Status.DOWN, Status.DOWN_LOST):
            yield from failure_steps(model, state, broker, replica)
        elif replica.status is Status.DEAD:
            yield ("return", broker), with_replica(state, broker, _returned(state.stored, replica))


def brokers_with(state: State, *statuses: Status) -> int:
    return sum(1 << broker for broker in BROKERS if state.replicas[broker].status in statuses)


# AlterPartition.


def alteration_steps(model: Model, state: State, request: Alteration) -> Iterator[Step]:
    """Decide on a request. A change that is stored may be answered, be retried, or look like a conflict."""
    stored, broker = state.stored, request.broker
    outcome = model.rules.alteration_outcome(stored, request, brokers_with(state, Status.DEAD))
    if outcome is not Outcome.SUCCESS:
        yield _answer(state, request, outcome, "refuse", stored.partition_epoch)
        return
    partition_epoch = stored.partition_epoch
    if request.isr != stored.isr:
        partition_epoch += 1
        stored = stored._replace(isr=request.isr, partition_epoch=partition_epoch)
        committed = state._replace(stored=stored)
        # The leader retries after a timeout. Requests of a leader are handled in order, and only the last
        # response can reach it, so the retry is the same request once more.
        yield ("commit_response_lost", broker, request.isr), committed
        # The store's response is lost and the write repeated: its own first attempt looks like a conflict.
        yield _answer(committed, request, Outcome.INVALID_UPDATE_VERSION, "commit_conflict", partition_epoch)
        yield _answer(committed, request, Outcome.SUCCESS, "commit", partition_epoch)
    else:
        yield _answer(state, request, Outcome.SUCCESS, "already_so", partition_epoch)


def _answer(state: State, request: Alteration, outcome: Outcome, label: str, partition_epoch: int) -> Step:
    alterations = without_alteration(state, request.broker)
    if state.replicas[request.broker].status is Status.UP:
        response = request._replace(outcome=outcome, new_partition_epoch=partition_epoch)
        alterations = tuple(sorted((*alterations, response)))
    return (label, request.broker, request.isr, outcome.name), state._replace(alterations=alterations)


# Elections.


def election_steps(model: Model, state: State) -> Iterator[Step]:
    """Any in-sync replica may be elected at any time, as by preferred elections."""
    stored = state.stored
    live = brokers_with(state, Status.UP, Status.DOWN, Status.DOWN_LOST)
    for broker in MEMBERS[model.rules.candidates(stored.isr, live)]:
        if broker != stored.leader:
            isr = stored.isr | 1 << broker
            yield from _elect(model, state, broker, isr, ("elect", broker))
    if model.scope.unclean_election and not stored.isr & live:
        for broker in MEMBERS[live]:
            yield from _elect(model, state, broker, 1 << broker, ("elect_unclean", broker))


def _elect(model: Model, state: State, leader: int, isr: int, label: tuple[object, ...]) -> Iterator[Step]:
    stored = state.stored
    leader_epoch = model.rules.epoch_after_election(stored.leader_epoch)
    if leader_epoch < model.scope.epochs:
        elected = Stored(leader, leader_epoch, isr, stored.partition_epoch + 1)
        sent = state.sent if leader == NONE else (*state.sent, elected)
        yield (*label, leader_epoch, isr), state._replace(stored=elected, sent=sent)


# Failed and returning brokers.


def failure_steps(model: Model, state: State, broker: int, replica: Replica) -> Iterator[Step]:
    """Notice a crash, while the broker is down or when it is back: then it has a new broker epoch."""
    state = state._replace(alterations=without_alteration(state, broker))
    for is_bounce in (False, True):
        name = "bounce" if is_bounce else "failure"
        for label, after in _without_broker(model, state, broker, is_bounce, name):
            dead = replica._replace(status=Status.DEAD)
            noticed = _returned(after.stored, replica) if is_bounce else dead
            yield label, with_replica(after, broker, noticed)


def _without_broker(model: Model, state: State, broker: int, is_bounce: bool, name: str) -> Iterator[Step]:
    """Move the leader, and remove the broker from the ISR unless it is the last member."""
    stored = state.stored
    if not model.rules.needs_new_epoch(stored, broker, is_bounce):
        # A leader needs the ISR of today; to a follower the last request says the same.
        is_sent = stored.leader != broker or stored in state.sent
        yield (name, broker), state if is_sent else state._replace(sent=(*state.sent, stored))
        return
    live = brokers_with(state, Status.UP, Status.DOWN, Status.DOWN_LOST) & ~(1 << broker)
    if stored.leader not in (broker, NONE):
        isr = stored.isr & ~(1 << broker)
        yield from _elect(model, state, stored.leader, isr, (name, broker, stored.leader))
        return
    elections = real_rules.elections(stored.isr, live)
    for leader, isr in elections:
        yield from _elect(model, state, leader, isr, (name, broker, leader))
    if not elections:
        yield from _elect(model, state, NONE, stored.isr, (name, broker, NONE))


def _returned(stored: Stored, replica: Replica) -> Replica:
    """Return a restarted replica. Requests that were sent before its new broker epoch are stale."""
    return replica._replace(status=Status.UP, epoch=stored.leader_epoch - 1)
