"""Canonical states: one for all states that differ only in ways that no rule can see.

* Messages that no broker will accept any more are dropped, and so are facts that no invariant needs.
* Partition epochs are replaced by their rank: only their order matters.
* Brokers are interchangeable: they are sorted by their state, and renamed.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations, product
from typing import Final

from tests.model.rules import Model
from tests.model.state import (
    BROKERS,
    MEMBERS,
    NONE,
    REQUESTS,
    Alteration,
    History,
    Message,
    MessageKind,
    Outcome,
    Replica,
    State,
    Status,
    Stored,
)

Order = tuple[int, ...]
"""The old name of each new broker."""

ORDERS: Final = tuple(permutations(BROKERS))
_NEW_NAMES: Final = {order: (*(order.index(broker) for broker in BROKERS), NONE) for order in ORDERS}
"""New name of each old broker; -1 stays -1."""
_NEW_MASKS: Final = {
    order: tuple(sum(1 << _NEW_NAMES[order][broker] for broker in MEMBERS[mask]) for mask in range(8))
    for order in ORDERS
}


def canonical(model: Model, state: State) -> State:
    return rename(normal(model, state))


def normal(model: Model, state: State) -> State:
    """Return the canonical state but for the names of the brokers."""
    return rank_partition_epochs(drop_stale(model, state))


# Facts without effect.


def drop_stale(model: Model, state: State) -> State:
    if not model.rules.ignores_stale_messages:
        return state
    replicas, stored, sent, messages, alterations, history = state
    if len(sent) > 1:
        epochs_up = [replica.epoch for replica in replicas if replica.status is Status.UP]
        oldest = min(epochs_up, default=stored.leader_epoch)
        sent = (*[request for request in sent[:-1] if request.leader_epoch > oldest], sent[-1])
    if messages:
        messages = tuple([message for message in messages if not _is_stale(model, state, message)])
    if alterations:
        alterations = tuple([request for request in alterations if not _is_ignored(model, state, request)])
    altering = [alteration.broker for alteration in alterations]
    epochs = [request.leader_epoch for request in sent]
    for broker in BROKERS:
        replica = replicas[broker]
        if replica.leader == broker:
            epochs.append(replica.epoch)
            leader = _without_unused(replica, broker, broker in altering, replica.epoch < stored.leader_epoch)
            if leader is not replica:
                replicas = (*replicas[:broker], leader, *replicas[broker + 1 :])
    return State(replicas, stored, sent, messages, alterations, _without_past(history, tuple(epochs)))


@cache
def _without_unused(leader: Replica, broker: int, is_altering: bool, is_former: bool) -> Replica:
    """Forget end offsets outside the maximal ISR, and details of a change that only LeaderAndIsr can end."""
    leadership = leader.leadership
    assert leadership is not None
    _, isr, partition_epoch, proposed, ends = leadership
    if not is_altering and (proposed or is_former):
        partition_epoch = NONE
        if not proposed & ~isr:
            proposed = isr if proposed else 0
    maximal = isr | proposed
    ends = tuple([end if maximal >> follower & 1 else NONE for follower, end in enumerate(ends)])
    unchanged = (partition_epoch, proposed, ends) == leadership[2:]
    if unchanged:
        return leader
    return leader._replace(
        leadership=leadership._replace(partition_epoch=partition_epoch, proposed=proposed, ends=ends)
    )


def _is_stale(model: Model, state: State, message: Message) -> bool:
    """Return whether the message will be ignored, or tells the follower nothing."""
    if message.kind in REQUESTS:
        return state.replicas[message.leader].epoch > message.leader_epoch
    follower = state.replicas[message.follower]
    return not model.rules.accepts_response(follower, message) or (
        message.kind is MessageKind.FETCH_RESPONSE
        and not message.records
        and message.end_offset <= follower.high_watermark
    )


def _is_ignored(model: Model, state: State, alteration: Alteration) -> bool:
    """Return whether the request will be fenced, or the response changes nothing."""
    outcome = alteration.outcome
    if outcome is Outcome.PENDING:
        return alteration.leader_epoch < state.stored.leader_epoch
    if outcome is not Outcome.SUCCESS and not model.rules.withdraws(outcome):
        return True
    return not model.rules.accepts_alteration(state.replicas[alteration.broker], alteration)


@cache
def _without_past(history: History, epochs: tuple[int, ...]) -> History:
    """Forget the details of epochs in which no broker leads or will lead."""
    oldest = min(epochs)
    appended = tuple(
        end_offset if epoch in epochs else 0 for epoch, end_offset in enumerate(history.appended)
    )
    committed_in = tuple(epoch if epoch > oldest else 0 for epoch in history.committed_in)
    if appended == history.appended and committed_in == history.committed_in:
        return history
    return history._replace(appended=appended, committed_in=committed_in)


# Partition epochs.


def rank_partition_epochs(state: State) -> State:
    epochs = {NONE, state.stored.partition_epoch}
    epochs.update(request.partition_epoch for request in state.sent)
    for replica in state.replicas:
        if replica.leadership is not None:
            epochs.add(replica.leadership.partition_epoch)
    for alteration in state.alterations:
        epochs.add(alteration.partition_epoch)
        epochs.add(alteration.new_partition_epoch)
    if max(epochs) == len(epochs) - 2:
        return state
    ranks = {epoch: rank - 1 for rank, epoch in enumerate(sorted(epochs))}
    return State(
        tuple(
            replica
            if replica.leadership is None
            else replica._replace(
                leadership=replica.leadership._replace(
                    partition_epoch=ranks[replica.leadership.partition_epoch]
                )
            )
            for replica in state.replicas
        ),
        _ranked(state.stored, ranks),
        tuple(_ranked(request, ranks) for request in state.sent),
        state.messages,
        tuple(
            alteration._replace(
                partition_epoch=ranks[alteration.partition_epoch],
                new_partition_epoch=ranks[alteration.new_partition_epoch],
            )
            for alteration in state.alterations
        ),
        state.history,
    )


def _ranked(stored: Stored, ranks: dict[int, int]) -> Stored:
    return Stored(stored.leader, stored.leader_epoch, stored.isr, ranks[stored.partition_epoch])


# Names of brokers.


def rename(state: State) -> State:
    keys = [_key(state, broker) for broker in BROKERS]
    first, second, third = sorted(keys)
    if first < second < third:
        order = (keys.index(first), keys.index(second), keys.index(third))
        return state if order == BROKERS else renamed(state, order)
    ties = [[broker for broker in BROKERS if keys[broker] == key] for key in (first, second, third)]
    orders = {order for order in product(*ties) if len(set(order)) == len(order)}
    return min(renamed(state, order) for order in orders)


def _key(state: State, broker: int) -> tuple[object, ...]:
    """Return the state of a broker without the names of others."""
    replica, stored = state.replicas[broker], state.stored
    return (
        _replica_key(replica, replica.leader == broker),
        stored.leader == broker,
        stored.isr >> broker & 1,
    )


@cache
def _replica_key(replica: Replica, is_leading: bool) -> tuple[object, ...]:
    leadership = replica.leadership
    return (
        replica.status,
        replica.epoch,
        replica.log,
        replica.high_watermark,
        replica.empty_epoch,
        is_leading,
        replica.leader == NONE,
        replica.is_truncating,
        () if leadership is None else (leadership.epoch_start, len(MEMBERS[leadership.isr])),
    )


def renamed(state: State, order: Order) -> State:
    replicas, stored, sent, messages, alterations, history = state
    return State(
        tuple([_renamed_replica(replicas[broker], order) for broker in order]),
        _renamed_stored(stored, order),
        tuple([_renamed_stored(request, order) for request in sent]),
        _renamed_messages(messages, order) if messages else messages,
        _renamed_alterations(alterations, order) if alterations else alterations,
        history,
    )


@cache
def _renamed_replica(replica: Replica, order: Order) -> Replica:
    leadership, masks = replica.leadership, _NEW_MASKS[order]
    if leadership is not None:
        leadership = leadership._replace(
            isr=masks[leadership.isr],
            proposed=masks[leadership.proposed],
            ends=tuple([leadership.ends[broker] for broker in order]),
        )
    return replica._replace(leader=_NEW_NAMES[order][replica.leader], leadership=leadership)


@cache
def _renamed_stored(stored: Stored, order: Order) -> Stored:
    return stored._replace(leader=_NEW_NAMES[order][stored.leader], isr=_NEW_MASKS[order][stored.isr])


@cache
def _renamed_messages(messages: tuple[Message, ...], order: Order) -> tuple[Message, ...]:
    names = _NEW_NAMES[order]
    return tuple(
        sorted(
            message._replace(follower=names[message.follower], leader=names[message.leader])
            for message in messages
        )
    )


@cache
def _renamed_alterations(alterations: tuple[Alteration, ...], order: Order) -> tuple[Alteration, ...]:
    names, masks = _NEW_NAMES[order], _NEW_MASKS[order]
    return tuple(
        sorted(
            alteration._replace(broker=names[alteration.broker], isr=masks[alteration.isr])
            for alteration in alterations
        )
    )
