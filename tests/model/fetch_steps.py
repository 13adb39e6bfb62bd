"""Steps of replication: requests of followers, their handling by leaders, and the responses."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import real_rules
from tests.model.broker_steps import advance_high_watermark, is_leader, propose, with_leader
from tests.model.rules import Model
from tests.model.state import (
    NONE,
    REQUESTS,
    Message,
    MessageKind,
    Replica,
    State,
    Status,
    Step,
    alteration_of,
    with_replica,
)


def steps(model: Model, state: State) -> Iterator[Step]:
    for message in requests(model, state):
        if model.scope.delays_requests:
            label = ("request", message.kind.name, *message[:2], *message[3:5])
            yield label, _send(state, message)
        else:
            yield from handle(model, state, message)
    for message in state.messages:
        rest = state._replace(messages=tuple([other for other in state.messages if other is not message]))
        if message.kind in REQUESTS:
            # A request that is lost has the same effect as a request that was never sent.
            yield from handle(model, rest, message)
        else:
            yield ("lost", message.follower, message.leader), rest
            yield from response_steps(model, rest, message)


def requests(model: Model, state: State) -> Iterator[Message]:
    """A follower has one request in flight to a broker; to all brokers there is a bound."""
    if len(state.messages) >= model.scope.messages:
        return
    for follower, replica in enumerate(state.replicas):
        leader = replica.leader
        if leader in (NONE, follower) or state.replicas[leader].status is not Status.UP:
            continue
        if any(message.follower == follower and message.leader == leader for message in state.messages):
            continue
        last_epoch = real_rules.latest_epoch(replica.log, replica.empty_epoch)
        kind = MessageKind.FETCH_REQUEST
        if replica.is_truncating:
            kind = MessageKind.EPOCH_REQUEST
        elif model.scope.truncates_by_epoch_request:
            last_epoch = NONE
        yield Message(follower, leader, kind, replica.epoch, len(replica.log), last_epoch)


def handle(model: Model, state: State, message: Message) -> Iterator[Step]:
    leader = state.replicas[message.leader]
    if not is_leader(message.leader, leader) or not model.rules.accepts_fetch(
        leader.epoch, message.leader_epoch
    ):
        return
    if message.kind is MessageKind.EPOCH_REQUEST:
        yield handle_epoch_request(state, leader, message)
    elif message.epoch <= real_rules.latest_epoch(leader.log, leader.empty_epoch):
        # A later epoch than the leader's latest is an error, and the follower asks again.
        yield handle_fetch(model, state, leader, message)


def _send(state: State, message: Message) -> State:
    return state._replace(messages=tuple(sorted((*state.messages, message))))


def handle_fetch(model: Model, state: State, leader: Replica, request: Message) -> Step:
    """Answer with at most one record. The high watermark in the response is the one before this fetch."""
    broker, follower = request.leader, request.follower
    diverging = model.rules.diverging_epoch(leader, request)
    if diverging is not None:
        response = request._replace(
            kind=MessageKind.DIVERGING_RESPONSE, epoch=diverging[0], end_offset=diverging[1]
        )
        if not model.rules.counts_diverging_fetch:
            return ("diverging", broker, follower, *diverging), _send(state, response)
    else:
        offset = request.offset
        response = request._replace(
            kind=MessageKind.FETCH_RESPONSE,
            epoch=NONE,
            end_offset=leader.high_watermark,
            records=leader.log[offset : offset + 1],
        )
    after, isr = count_fetch(model, state, leader, request)
    label = ("fetch", broker, follower, request.offset, isr, after.replicas[broker].high_watermark)
    return label, _send(after, response)


def count_fetch(model: Model, state: State, leader: Replica, request: Message) -> tuple[State, int]:
    """Record the follower's progress; return the ISR that is proposed because of it, or 0."""
    broker, follower, leadership = request.leader, request.follower, leader.leadership
    assert leadership is not None
    leader_type = model.rules.leader_type
    leadership = real_rules.update_fetch_state(
        leader_type, broker, leadership, follower, request.offset, len(leader.log)
    )
    isr, alterations = 0, state.alterations
    if alteration_of(state, broker) is None:
        isr = real_rules.maybe_expand_isr(leader_type, broker, leadership, follower, leader.high_watermark)
        if isr:
            leadership, alterations = propose(state, broker, leader, leadership, isr)
    leader = advance_high_watermark(model, broker, leader, leadership)
    return with_leader(state, broker, leader)._replace(alterations=alterations), isr


def handle_epoch_request(state: State, leader: Replica, request: Message) -> Step:
    epoch, end_offset = real_rules.end_offset_for(leader.log, leader.empty_epoch, request.epoch)
    response = request._replace(kind=MessageKind.EPOCH_RESPONSE, epoch=epoch, end_offset=end_offset)
    return (
        ("epoch_end", request.leader, request.follower, request.epoch, epoch, end_offset),
        _send(state, response),
    )


def response_steps(model: Model, state: State, message: Message) -> Iterator[Step]:
    broker = message.follower
    replica = state.replicas[broker]
    if is_leader(broker, replica) or not model.rules.accepts_response(replica, message):
        return
    if message.kind is MessageKind.FETCH_RESPONSE:
        if replica.is_truncating:
            return
        log = replica.log + message.records
        follower = replica._replace(
            log=log,
            empty_epoch=NONE if message.records else replica.empty_epoch,
            high_watermark=model.rules.follower_high_watermark(
                replica.high_watermark, message.end_offset, len(log)
            ),
        )
        label = ("append_as_follower", broker, len(message.records), len(log), follower.high_watermark)
        yield label, with_replica(state, broker, follower)
        return
    offset, is_complete = model.rules.truncation_offset(replica, message.epoch, message.end_offset)
    follower = replica._replace(
        log=replica.log[:offset],
        empty_epoch=NONE,
        high_watermark=min(replica.high_watermark, offset),
        is_truncating=not is_complete and message.kind is MessageKind.EPOCH_RESPONSE and offset > 0,
    )
    yield (
        ("truncate", broker, len(replica.log), offset, message.epoch, message.end_offset),
        with_replica(state, broker, follower),
    )
