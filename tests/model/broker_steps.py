"""Steps of brokers: become leader or follower, append, propose an ISR, receive its result."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import real_rules
from tests.model.rules import Model
from tests.model.state import (
    NONE,
    Alteration,
    History,
    Leadership,
    Outcome,
    Replica,
    State,
    Status,
    Step,
    Stored,
    alteration_of,
    with_replica,
    without_alteration,
)


def is_leader(broker: int, replica: Replica) -> bool:
    return replica.leader == broker


def advance_high_watermark(model: Model, broker: int, replica: Replica, leadership: Leadership) -> Replica:
    """Return a leader with this leadership, and the high watermark that follows from it."""
    high_watermark = real_rules.high_watermark(
        model.rules.leader_type,
        broker,
        leadership,
        replica.high_watermark,
        len(replica.log),
        model.scope.min_isr,
    )
    return replica._replace(leadership=leadership, high_watermark=high_watermark)


def with_leader(state: State, broker: int, leader: Replica) -> State:
    """Return the state with a changed leader. Records below its high watermark are committed."""
    history = commit(state.history, leader, leader.high_watermark)
    return with_replica(state, broker, leader)._replace(history=history)


def commit(history: History, leader: Replica, end_offset: int) -> History:
    length = len(history.committed)
    if end_offset <= length:
        return history
    return history._replace(
        committed=history.committed + leader.log[length:end_offset],
        committed_in=history.committed_in + (leader.epoch,) * (end_offset - length),
    )


def leader_and_isr_steps(model: Model, state: State) -> Iterator[Step]:
    for broker, replica in enumerate(state.replicas):
        if replica.status is not Status.UP:
            continue
        for request in state.sent:
            if not model.rules.accepts_leader_and_isr(replica, request):
                continue
            if request.leader == broker:
                leader = become_leader(model, broker, replica, request)
                label = ("become_leader", broker, request.leader_epoch, request.isr)
                yield label, with_leader(state, broker, leader)
            else:
                yield (
                    ("become_follower", broker, request.leader, request.leader_epoch),
                    with_replica(state, broker, become_follower(model, replica, request)),
                )


def become_leader(model: Model, broker: int, replica: Replica, request: Stored) -> Replica:
    is_new_epoch = request.leader_epoch != replica.epoch or not is_leader(broker, replica)
    leadership = real_rules.become_leader(
        model.rules.leader_type,
        broker,
        replica.leadership,
        replica.epoch,
        request,
        len(replica.log),
    )
    leader = Replica(
        replica.status,
        request.leader_epoch,
        broker,
        replica.log,
        request.leader_epoch if is_new_epoch else replica.empty_epoch,
        replica.high_watermark,
        False,
        leadership,
    )
    return advance_high_watermark(model, broker, leader, leadership)


def become_follower(model: Model, replica: Replica, request: Stored) -> Replica:
    return Replica(
        replica.status,
        request.leader_epoch,
        request.leader,
        replica.log,
        replica.empty_epoch,
        replica.high_watermark,
        model.scope.truncates_by_epoch_request
        and real_rules.latest_epoch(replica.log, replica.empty_epoch) != NONE
        and model.rules.must_check_truncation(replica, request),
        model.rules.leadership_of_follower(replica),
    )


def append_steps(model: Model, state: State) -> Iterator[Step]:
    history = state.history
    if not history.appends_left:
        return
    for broker, replica in enumerate(state.replicas):
        leadership = replica.leadership
        if not is_leader(broker, replica) or leadership is None:
            continue
        epoch, offset = replica.epoch, len(replica.log)
        leader = replica._replace(log=(*replica.log, epoch), empty_epoch=NONE)
        leader = advance_high_watermark(model, broker, leader, leadership)
        acks = "all" if real_rules.accepts_acks_all(leadership.isr, model.scope.min_isr) else "1"
        appended = history.appended
        after = with_leader(
            state._replace(
                history=history._replace(
                    appended=(*appended[:epoch], max(appended[epoch], offset + 1), *appended[epoch + 1 :]),
                    has_two_records=history.has_two_records or offset < appended[epoch],
                    appends_left=history.appends_left - 1,
                )
            ),
            broker,
            leader,
        )
        if model.rules.acknowledges_at_append and acks == "all":
            after = after._replace(history=commit(after.history, leader, offset + 1))
        yield ("append", broker, epoch, offset, acks), after


def propose(
    state: State, broker: int, replica: Replica, leadership: Leadership, isr: int
) -> tuple[Leadership, tuple[Alteration, ...]]:
    """Make an ISR change pending, and send it. There must be no other in flight from this broker."""
    alteration = Alteration(broker, Outcome.PENDING, replica.epoch, leadership.partition_epoch, isr)
    return (
        leadership._replace(proposed=isr),
        tuple(sorted((*state.alterations, alteration))),
    )


def shrink_steps(model: Model, state: State) -> Iterator[Step]:
    for broker, replica in enumerate(state.replicas):
        leadership = replica.leadership
        if (
            not is_leader(broker, replica)
            or leadership is None
            or leadership.proposed
            or alteration_of(state, broker) is not None
        ):
            continue
        for isr in real_rules.possible_shrinks(model.rules.leader_type, broker, leadership, len(replica.log)):
            pending, alterations = propose(state, broker, replica, leadership, isr)
            leader = advance_high_watermark(model, broker, replica, pending)
            after = with_leader(state, broker, leader)._replace(alterations=alterations)
            yield ("shrink", broker, leadership.isr, isr), after


def alteration_result_steps(model: Model, state: State) -> Iterator[Step]:
    """Responses of AlterPartition that arrive, and requests that time out."""
    for alteration in state.alterations:
        broker = alteration.broker
        replica = state.replicas[broker]
        if alteration.outcome is Outcome.PENDING:
            if model.rules.withdraws_on_timeout and model.rules.accepts_alteration(replica, alteration):
                yield ("timeout", broker), with_leader(state, broker, withdraw(model, broker, replica))
            continue
        after = state._replace(alterations=without_alteration(state, broker))
        label = ("alteration_result", broker, alteration.outcome.name, alteration.isr)
        if not model.rules.accepts_alteration(replica, alteration):
            yield ("alteration_ignored", broker, alteration.outcome.name), after
        elif alteration.outcome is Outcome.SUCCESS:
            leadership = replica.leadership
            assert leadership is not None
            leadership = real_rules.commit_isr(
                model.rules.leader_type, broker, leadership, alteration.isr
            )._replace(partition_epoch=alteration.new_partition_epoch)
            leader = advance_high_watermark(model, broker, replica, leadership)
            yield label, with_leader(after, broker, leader)
        elif model.rules.withdraws(alteration.outcome):
            yield label, with_leader(after, broker, withdraw(model, broker, replica))
        else:
            yield label, after


def withdraw(model: Model, broker: int, replica: Replica) -> Replica:
    """Return a leader with its last committed ISR, and no change pending."""
    assert replica.leadership is not None
    leadership = real_rules.revert_isr_change(model.rules.leader_type, broker, replica.leadership)
    return advance_high_watermark(model, broker, replica, leadership)


def steps(model: Model, state: State) -> Iterator[Step]:
    yield from append_steps(model, state)
    yield from leader_and_isr_steps(model, state)
    if model.scope.shrinks:
        yield from shrink_steps(model, state)
    yield from alteration_result_steps(model, state)
