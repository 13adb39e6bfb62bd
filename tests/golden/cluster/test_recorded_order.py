"""Facts about the traffic of Apache Kafka brokers that docs/interbroker-traffic.md states."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
from tests.golden.cluster.recordings import SCENARIOS, Decoded, events, messages, requests, writes
from tests.support.interbroker.timeline import Event, Message, ZnodeWrite

from odradek.cluster.metadata_version import MetadataVersion
from odradek.wire.apis import API_BY_KEY

CONTROL = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")
IBPS = sorted({ibp for ibp, _ in SCENARIOS})
WITH_SHUTDOWN = sorted(ibp for ibp, scenario in SCENARIOS if scenario == "controlled_shutdown")
EPOCH_DURING_DELETE = -2
LEADER_DURING_DELETE = -2


def partition_states(request: Decoded) -> list[Any]:
    return [state for topic in request.body.topic_states for state in topic.partition_states]


def positions(recorded: Iterable[Event], api: str, target: str) -> list[int]:
    """Return the places of an API's requests to a broker in the timeline."""
    return [
        position
        for position, event in enumerate(recorded)
        if isinstance(event, Message) and (event.kind, event.api, event.target) == ("request", api, target)
    ]


@pytest.mark.parametrize(("ibp", "scenario"), SCENARIOS)
def test_control_requests_are_those_of_a_zookeeper_controller(ibp: str, scenario: str) -> None:
    for api in CONTROL:
        for request in requests(ibp, scenario, api):
            assert request.body.is_kraft_controller is False
            assert getattr(request.body, "type", 0) == 0
            assert str(request.body.controller_id) == request.recorded.source
            assert request.header.client_id == request.recorded.source  # type: ignore[union-attr]


@pytest.mark.parametrize("ibp", IBPS)
def test_broker_epoch_is_the_zxid_of_the_registration(ibp: str) -> None:
    epochs = {w.broker: w.zxid for w in writes(ibp, "startup") if w.path.startswith("/brokers/ids/")}
    sent = {r.recorded.target: r.body.broker_epoch for r in requests(ibp, "startup", "UpdateMetadata")}
    assert sent
    assert sent.items() <= epochs.items()


@pytest.mark.parametrize("ibp", IBPS)
def test_new_topic_is_stored_then_led_then_announced(ibp: str) -> None:
    recorded = events(ibp, "creation")
    stored = [
        position
        for position, event in enumerate(recorded)
        if isinstance(event, ZnodeWrite) and event.path.endswith("/state")
    ]
    assert len(stored) == 3
    for target in "012":
        led = positions(recorded, "LeaderAndIsr", target)
        announced = positions(recorded, "UpdateMetadata", target)
        assert (len(led), len(announced)) == (1, 1)
        assert max(stored) < led[0] < announced[0]


@pytest.mark.parametrize("ibp", IBPS)
def test_partitions_of_a_new_topic_have_epoch_0_and_are_new(ibp: str) -> None:
    (request, *_) = requests(ibp, "creation", "LeaderAndIsr")
    states = partition_states(request)
    assert {(s.is_new, s.leader_epoch, s.partition_epoch, s.leader_recovery_state) for s in states} == {
        (True, 0, 0, 0)
    }
    assert [s.isr for s in states] == [s.replicas for s in states]


@pytest.mark.parametrize("ibp", IBPS)
def test_followers_fetch_with_the_defaults_of_kafka(ibp: str) -> None:
    fetches = requests(ibp, "creation", "Fetch")
    assert {
        (f.body.max_wait_ms, f.body.min_bytes, f.body.max_bytes, f.body.isolation_level) for f in fetches
    } == {(500, 1, 10 * 1024 * 1024, 0)}
    assert {f.body.cluster_id for f in fetches} == {None}
    assert {f.body.rack_id for f in fetches} == {""}
    first = next(f for f in fetches if f.body.topics)
    assert (first.body.session_id, first.body.session_epoch) == (0, 0)
    partitions = [p for f in fetches for topic in f.body.topics for p in topic.partitions]
    assert {p.partition_max_bytes for p in partitions} == {1024 * 1024}


@pytest.mark.parametrize("ibp", IBPS)
def test_replica_epoch_of_a_fetch_is_the_broker_epoch(ibp: str) -> None:
    epochs = {w.broker: w.zxid for w in writes(ibp, "startup") if w.path.startswith("/brokers/ids/")}
    for fetch in requests(ibp, "creation", "Fetch"):
        source = fetch.recorded.source
        if fetch.recorded.version < 15:
            assert str(fetch.body.replica_id) == source
        else:
            state = fetch.body.replica_state
            assert (str(state.replica_id), state.replica_epoch) == (source, epochs[source])


@pytest.mark.parametrize("ibp", WITH_SHUTDOWN)
def test_isr_change_names_the_version_of_the_state_and_gets_the_next(ibp: str) -> None:
    (request, *_) = requests(ibp, "isr_change", "AlterPartition")
    (partition,) = request.body.topics[0].partitions
    assert {member.broker_epoch for member in partition.new_isr_with_epochs} == {-1}
    (response, *_) = (
        message.body
        for message in messages(ibp, "isr_change")
        if (message.recorded.number, message.recorded.kind) == (request.recorded.number, "response")
    )
    (answer,) = response.topics[0].partitions
    assert answer.partition_epoch == partition.partition_epoch + 1
    assert answer.leader_epoch == partition.leader_epoch
    (write, *_) = (write for write in writes(ibp, "isr_change") if write.path.endswith("/1/state"))
    assert write.version == answer.partition_epoch
    assert json.loads(write.data or b"")["isr"] == answer.isr


@pytest.mark.parametrize("ibp", WITH_SHUTDOWN)
def test_controller_answers_a_controlled_shutdown_after_the_leaders_have_moved(ibp: str) -> None:
    recorded = events(ibp, "controlled_shutdown")
    answered = next(
        position
        for position, event in enumerate(recorded)
        if isinstance(event, Message) and (event.api, event.kind) == ("ControlledShutdown", "response")
    )
    left = next(
        position
        for position, event in enumerate(recorded)
        if isinstance(event, ZnodeWrite)
        and event.operation == "delete"
        and event.path.startswith("/brokers/ids/")
    )
    moved = [
        position
        for position, event in enumerate(recorded[:left])
        if isinstance(event, ZnodeWrite) and event.path.endswith("/state")
    ]
    assert max(moved) < answered < left


@pytest.mark.parametrize("ibp", WITH_SHUTDOWN)
def test_deletion_is_announced_then_replicas_stop_then_go(ibp: str) -> None:
    announced = requests(ibp, "deletion", "UpdateMetadata")[0]
    assert {(s.leader, s.leader_epoch, s.zk_version) for s in partition_states(announced)} == {
        (LEADER_DURING_DELETE, 0, 0)
    }
    stops = requests(ibp, "deletion", "StopReplica")
    assert announced.recorded.ms <= stops[0].recorded.ms
    assert {s.leader_epoch for stop in stops for s in partition_states(stop)} == {EPOCH_DURING_DELETE}
    assert not any(s.delete_partition for s in partition_states(stops[0]))
    deleted = [w.path for w in writes(ibp, "deletion") if w.operation == "delete"]
    assert deleted[-3:] == ["/brokers/topics/orders", "/config/topics/orders", "/admin/delete_topics/orders"]


@pytest.mark.parametrize("ibp", WITH_SHUTDOWN)
def test_producer_ids_come_from_the_controller_from_3_0_on(ibp: str) -> None:
    scenario = "startup" if ibp == "2.8" else "transactions"
    blocks = [w for w in writes(ibp, scenario) if w.path == "/latest_producer_id_block" and w.data]
    assert [json.loads(w.data or b"")["block_start"] for w in blocks] == ["0", "1000", "2000"]
    asked = requests(ibp, "transactions", "AllocateProducerIds")
    assert bool(asked) == (ibp != "2.8")
    if ibp == "2.8":
        assert {w.broker for w in blocks} == {"0", "1", "2"}
    else:
        assert len({w.broker for w in blocks}) == 1


@pytest.mark.parametrize("ibp", WITH_SHUTDOWN)
def test_brokers_verify_with_the_coordinator_and_it_writes_markers(ibp: str) -> None:
    (verification, *_) = requests(ibp, "transactions", "AddPartitionsToTxn")
    assert all(transaction.verify_only for transaction in verification.body.transactions)
    markers = [m for r in requests(ibp, "transactions", "WriteTxnMarkers") for m in r.body.markers]
    assert {m.coordinator_epoch for m in markers} == {0}


def test_feature_znode_has_version_1_before_3_3() -> None:
    for ibp in IBPS:
        (write,) = (w for w in writes(ibp, "startup") if w.path == "/feature")
        version = json.loads(write.data or b"")["version"]
        assert version == MetadataVersion.parse(ibp).feature_node_version
        assert version == (1 if ibp in ("2.8", "3.0", "3.1", "3.2") else 2)


def test_diverging_follower_is_sent_the_end_of_its_epoch_and_fetches_there() -> None:
    diverging = [
        partition
        for message in messages("3.9", "divergence")
        if (message.recorded.api, message.recorded.kind) == ("Fetch", "response")
        for topic in message.body.responses
        for partition in topic.partitions
        if partition.diverging_epoch is not None
    ]
    assert [(p.diverging_epoch.epoch, p.error_code, len(p.records)) for p in diverging] == [(0, 0, 0)]
    end = diverging[0].diverging_epoch.end_offset
    fetched = [
        partition.fetch_offset
        for request in requests("3.9", "divergence", "Fetch")
        for topic in request.body.topics
        for partition in topic.partitions
        if (partition.current_leader_epoch, partition.last_fetched_epoch) == (1, 0)
    ]
    assert fetched[-1] == end < max(fetched)


def test_follower_out_of_range_asks_for_the_latest_then_the_earliest_offset() -> None:
    asked = [
        (partition.timestamp, request.body.replica_id >= 0)
        for request in requests("3.9", "out_of_range", "ListOffsets")
        for topic in request.body.topics
        for partition in topic.partitions
    ]
    assert asked == [(-1, True), (-2, True)]


def test_unclean_leader_recovers_until_the_next_isr_change() -> None:
    states = [w for w in writes("3.9", "unclean_election") if re.search(r"/lossy/.*/state$", w.path)]
    recovering = [json.loads(w.data or b"").get("leader_recovery_state", 0) for w in states]
    assert recovering.count(1) == 1
    assert recovering[-1] == 0
    sent = [s for r in requests("3.9", "unclean_election", "LeaderAndIsr") for s in partition_states(r)]
    assert any(state.leader_recovery_state == 1 for state in sent)


def test_partition_keeps_the_controller_epoch_it_was_stored_with() -> None:
    sent = [
        (request.body.controller_epoch, state.controller_epoch)
        for request in requests("3.9", "controller_failover", "LeaderAndIsr")
        for state in partition_states(request)
    ]
    assert any(stored < sender for sender, stored in sent)


def test_brokers_list_the_apis_of_the_controller() -> None:
    listed = {
        key.api_key: (key.min_version, key.max_version)
        for message in messages("3.9", "transactions")
        if (message.recorded.api, message.recorded.kind) == ("ApiVersions", "response")
        for key in message.body.api_keys
    }
    assert {4, 5, 6, 7, 27, 56, 67} <= set(listed)
    assert all(listed[key][1] == API_BY_KEY[key].versions[-1] for key in (4, 5, 6, 7, 27, 56, 67))
