"""Our controller in the recorded scenarios: it sends the requests of Kafka's, and writes the same states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.golden.cluster.controller_replay import CONTROL, Replay
from tests.golden.cluster.recordings import SCENARIOS, decode, events, writes
from tests.support.controller_machine import Request
from tests.support.interbroker.timeline import Message

from odradek.controller.actions import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from odradek.controller.machine import broker_changes, startup
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import encode_partition_state

LEFT_OUT = {"transactions", "reassignment", "reassignment_cancelled", "divergence", "out_of_range"}
"""Scenarios about logs or reassignments."""
REPLAYED = [item for item in SCENARIOS if item[1] not in LEFT_OUT]


@pytest.fixture(autouse=True)
def _rule_of_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the leader epoch when a replica outside the ISR fails, as Kafka does."""
    for module in (broker_changes, startup):
        monkeypatch.setattr(module, "leader_epochs", lambda context, replicas: {})


def recorded_requests(ibp: str, scenario: str, target: str) -> list[Message]:
    return [
        event
        for event in events(ibp, scenario)
        if isinstance(event, Message)
        and (event.kind, event.target) == ("request", target)
        and event.api in CONTROL
    ]


def describe(request: Request) -> dict[str, Any]:
    """Return the contents of a request of ours, in the words of the wire."""
    match request:
        case SendLeaderAndIsr():
            return {
                "api": "LeaderAndIsr",
                "controller_epoch": request.controller_epoch,
                "leaders": set(request.live_leaders),
                "partitions": {p: _led(s) for p, s in request.partition_states.items()},
            }
        case SendUpdateMetadata():
            return {
                "api": "UpdateMetadata",
                "controller_epoch": request.controller_epoch,
                "brokers": set(request.brokers),
                "partitions": {
                    p: (
                        *(s.controller_epoch, s.leader, s.leader_epoch, list(s.isr), s.partition_epoch),
                        *(list(s.replicas), list(s.offline_replicas)),
                    )
                    for p, s in request.partition_states.items()
                },
            }
        case SendStopReplica():
            return {
                "api": "StopReplica",
                "controller_epoch": request.controller_epoch,
                "partitions": {p: tuple(state) for p, state in request.partitions.items()},
            }


def _led(state: Any) -> tuple[Any, ...]:
    return (
        *(state.controller_epoch, state.leader, state.leader_epoch, list(state.isr), state.partition_epoch),
        *(list(state.replicas), list(state.adding), list(state.removing), state.is_new),
        int(state.is_recovering),
    )


def describe_recorded(message: Message) -> dict[str, Any]:
    body = decode(message).body
    result: dict[str, Any] = {"api": message.api, "controller_epoch": body.controller_epoch}
    states: Mapping[TopicPartition, Any] = {
        TopicPartition(topic.topic_name, state.partition_index): state
        for topic in body.topic_states
        for state in topic.partition_states
    }
    if message.api == "LeaderAndIsr":
        result["leaders"] = {leader.broker_id for leader in body.live_leaders}
        result["partitions"] = {
            p: (
                *(s.controller_epoch, s.leader, s.leader_epoch, s.isr, s.partition_epoch, s.replicas),
                *(s.adding_replicas, s.removing_replicas, s.is_new, s.leader_recovery_state),
            )
            for p, s in states.items()
        }
    elif message.api == "UpdateMetadata":
        result["brokers"] = {broker.id for broker in body.live_brokers}
        result["partitions"] = {
            p: (
                *(s.controller_epoch, s.leader, s.leader_epoch, s.isr, s.zk_version, s.replicas),
                s.offline_replicas,
            )
            for p, s in states.items()
        }
    else:
        result["partitions"] = {p: (s.leader_epoch, s.delete_partition) for p, s in states.items()}
    return result


@pytest.mark.parametrize(("ibp", "scenario"), REPLAYED)
def test_requests_are_those_of_kafka(ibp: str, scenario: str) -> None:
    replay = Replay(ibp, scenario)
    replay.run()
    for target in "012":
        recorded = recorded_requests(ibp, scenario, target)
        sent = [describe(request) for request in replay.sent.get(target, [])]
        if is_leaving(ibp, scenario, target):
            # The broker closes its connections before it has read everything.
            drop_unread(sent, recorded)
        assert [request["api"] for request in sent] == [message.api for message in recorded], target
        for message, request in zip(recorded, sent, strict=True):
            if message.frame:
                assert request == describe_recorded(message), message.number


def is_leaving(ibp: str, scenario: str, broker_id: str) -> bool:
    path = f"/brokers/ids/{broker_id}"
    return any(w.operation == "delete" and w.path == path for w in writes(ibp, scenario))


def drop_unread(sent: list[dict[str, Any]], recorded: list[Message]) -> None:
    """Drop requests of ours that the recording does not have."""
    for position, message in enumerate(recorded):
        while position < len(sent) and sent[position]["api"] != message.api:
            del sent[position]
    del sent[len(recorded) :]


@pytest.mark.parametrize(("ibp", "scenario"), REPLAYED)
def test_states_are_those_of_kafka(ibp: str, scenario: str) -> None:
    replay = Replay(ibp, scenario)
    replay.run()
    recorded: dict[str, list[tuple[bytes, int]]] = {}
    for write in writes(ibp, scenario):
        if write.path.endswith("/state") and write.operation in ("create", "set"):
            recorded.setdefault(write.path, []).append((write.data or b"", write.version))
    ours = {
        f"/brokers/topics/{p.topic}/partitions/{p.partition}/state": [
            (encode_partition_state(state), version) for state, version in states
        ]
        for p, states in replay.written.items()
    }
    assert ours == recorded
