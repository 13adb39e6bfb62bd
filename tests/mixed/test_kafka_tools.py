"""Kafka's command-line tools print the same for a cluster of our brokers as for one of Kafka's.

Both clusters have brokers 0, 1 and 2 with the same settings. A script runs on both at the same time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from tests.mixed.harness.broker_spec import Kind
from tests.mixed.harness.mixed_cluster import ALL_KAFKA, ALL_OURS, BROKERS, MixedCluster
from tests.mixed.harness.tool_transcript import (
    BROKER_API_VERSIONS,
    CLUSTER,
    CONFIGS,
    FEATURES,
    LEADER_ELECTION,
    LOG_DIRS,
    METADATA_QUORUM,
    REASSIGN,
    REPLICA_VERIFICATION,
    TOPICS,
    ClusterPair,
    Tools,
    known_apis,
    sorted_json,
    sorted_lines,
)
from tests.support.interbroker.clients import Clients

THROTTLE = "5000"
RECORDS = 6_000
"""Records of 1,000 bytes that take twenty minutes under the throttle."""


@pytest.fixture(scope="module")
def pair(classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPair]:
    home = tmp_path_factory.mktemp("tools")
    clusters = ClusterPair(
        MixedCluster(classpath, home / "ours", ALL_OURS, Kind.ODRADEK),
        MixedCluster(classpath, home / "kafka", ALL_KAFKA, Kind.KAFKA),
    )
    try:
        for cluster in clusters:
            cluster.start_all()
        yield clusters
    finally:
        for cluster in clusters:
            cluster.close()


@pytest.fixture(autouse=True)
def restored(pair: ClusterPair) -> None:
    for cluster in pair:
        cluster.restore(cluster.controller_kind)


def fill(tools: Tools, topic: str) -> None:
    producer = Producer({"bootstrap.servers": tools.cluster.bootstrap, "log_level": 2})
    for _ in range(RECORDS):
        producer.produce(topic, bytes(1000), partition=0)
    assert producer.flush(60) == 0


def create(tools: Tools, topic: str, *assignment: list[int], **config: str) -> None:
    """Create a topic without a tool, and wait until all replicas are in sync."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    Clients(tools.cluster.bootstrap).create_topic(topic, assignment, settings)
    for partition, replicas in enumerate(assignment):
        tools.cluster.wait_for_partition(topic, partition, leader=replicas[0], isr=replicas)


def test_topics(pair: ClusterPair) -> None:
    def script(tools: Tools) -> None:
        assignment = "0:1:2,1:2:0"
        tools.run(
            TOPICS,
            "--create",
            "--topic",
            "made",
            "--replica-assignment",
            assignment,
            "--config",
            "retention.ms=99999",
        )
        for partition, leader in enumerate((0, 1)):
            tools.cluster.wait_for_partition("made", partition, leader=leader)
        tools.run(TOPICS, "--create", "--topic", "made", "--partitions", "1", status=1)
        tools.run(TOPICS, "--create", "--topic", "made", "--partitions", "1", "--if-not-exists")
        tools.run(TOPICS, "--create", "--topic", "spread", "--partitions", "3", "--replication-factor", "3")
        tools.run(
            TOPICS, "--create", "--topic", "big", "--partitions", "1", "--replication-factor", "4", status=1
        )
        tools.run(TOPICS, "--create", "--topic", "none", "--partitions", "0", status=1)
        tools.run(TOPICS, "--create", "--topic", "odd name", "--partitions", "1", status=1)
        tools.run(
            TOPICS,
            "--create",
            "--topic",
            "bad",
            "--partitions",
            "1",
            "--config",
            "retention.ms=soon",
            status=1,
        )
        tools.run(TOPICS, "--list", show=sorted_lines)
        tools.run(TOPICS, "--describe", "--topic", "made")
        tools.run(TOPICS, "--describe", "--topics-with-overrides", "--topic", "made|spread")
        tools.run(TOPICS, "--describe", "--topic", "absent", status=1)
        tools.run(
            TOPICS,
            "--alter",
            "--topic",
            "made",
            "--partitions",
            "3",
            "--replica-assignment",
            f"{assignment},2:0:1",
        )
        tools.cluster.wait_for_partition("made", 2, leader=2)
        tools.run(TOPICS, "--describe", "--topic", "made")
        tools.run(TOPICS, "--alter", "--topic", "made", "--partitions", "2", status=1)
        tools.run(TOPICS, "--alter", "--topic", "made", "--partitions", "3", status=1)
        tools.run(TOPICS, "--delete", "--topic", "made")
        tools.run(TOPICS, "--delete", "--topic", "absent", status=1)
        tools.run(TOPICS, "--delete", "--topic", "absent", "--if-exists")
        tools.cluster.wait_until(lambda: tools.cluster.znodes.read("/brokers/topics/made") is None)
        tools.run(TOPICS, "--list", show=sorted_lines)

    pair.play(script)


def test_partitions_that_lack_replicas(pair: ClusterPair) -> None:
    selections = ("under-replicated", "under-min-isr", "at-min-isr", "unavailable")

    def describe(tools: Tools) -> None:
        for selection in selections:
            tools.run(
                TOPICS, "--describe", f"--{selection}-partitions", "--topic", "lack-.*", show=sorted_lines
            )

    def script(tools: Tools) -> None:
        create(tools, "lack-two", [0, 1, 2], [2, 1, 0])
        create(tools, "lack-three", [1, 2, 0], min_insync_replicas="3")
        create(tools, "lack-all", [2])
        describe(tools)
        tools.cluster.stop(2)
        for topic in ("lack-two", "lack-three"):
            tools.cluster.wait_for_partition(topic, isr=[0, 1])
        tools.cluster.wait_for_partition("lack-all", leader=-1, isr=[2])
        describe(tools)
        tools.run(TOPICS, "--describe", "--topic", "lack-.*", show=sorted_lines)
        tools.cluster.start(2)
        for topic in ("lack-two", "lack-three"):
            tools.cluster.wait_for_partition(topic, isr=BROKERS)
        tools.cluster.wait_for_partition("lack-all", leader=2, isr=[2])
        describe(tools)

    pair.play(script)


def elected_of(topic: str, output: str) -> list[str]:
    """Return the elected partitions of a topic; those of earlier tests may have been spread at random."""
    heading, _, partitions = output.strip().partition(" for partitions ")
    return [heading, *(name for name in partitions.split(", ") if name.startswith(f"{topic}-"))]


def test_preferred_elections(pair: ClusterPair) -> None:
    def restart(tools: Tools) -> None:
        tools.cluster.restart(0)
        for partition in (0, 1):
            tools.cluster.wait_for_partition("preferred", partition, leader=1, isr=BROKERS)

    def elect(tools: Tools, *selection: str, status: int = 0) -> None:
        tools.run(
            LEADER_ELECTION, "--election-type", "preferred", *selection, show=sorted_lines, status=status
        )

    def script(tools: Tools) -> None:
        create(tools, "preferred", [0, 1, 2], [0, 1, 2], [1, 2, 0])
        restart(tools)
        elect(tools, "--topic", "preferred", "--partition", "0")
        tools.cluster.wait_for_partition("preferred", 0, leader=0)
        elect(tools, "--topic", "preferred", "--partition", "0")
        partitions = [{"topic": "preferred", "partition": number} for number in range(3)]
        elect(tools, "--path-to-json-file", tools.json_file("elections", {"partitions": partitions}))
        tools.cluster.wait_for_partition("preferred", 1, leader=0)
        restart(tools)
        everything = ("--election-type", "preferred", "--all-topic-partitions")
        tools.run(LEADER_ELECTION, *everything, show=lambda output: elected_of("preferred", output))
        tools.cluster.wait_for_partition("preferred", 0, leader=0)
        tools.run(TOPICS, "--describe", "--topic", "preferred")
        elect(tools, "--topic", "preferred", "--partition", "9", status=1)
        elect(tools, "--topic", "absent", "--partition", "0", status=1)

    pair.play(script)


def test_unclean_election(pair: ClusterPair) -> None:
    def elect(tools: Tools) -> None:
        tools.run(LEADER_ELECTION, "--election-type", "unclean", "--topic", "unclean", "--partition", "0")

    def script(tools: Tools) -> None:
        create(tools, "unclean", [1, 2])
        elect(tools)
        tools.cluster.stop(2)
        tools.cluster.wait_for_partition("unclean", leader=1, isr=[1])
        tools.cluster.kill(1)
        tools.cluster.wait_for_partition("unclean", leader=-1, isr=[1])
        tools.cluster.start(2)
        tools.run(TOPICS, "--describe", "--topic", "unclean")
        elect(tools)
        tools.cluster.wait_for_partition("unclean", leader=2, isr=[2])
        tools.cluster.start_until_registered(1)
        tools.cluster.wait_for_partition("unclean", leader=2, isr=[1, 2])
        tools.run(TOPICS, "--describe", "--topic", "unclean")

    pair.play(script)


def current_assignment(output: str) -> object:
    """Return the first of the two assignments that --generate prints; the second is random."""
    lines = output.splitlines()
    proposed = json.loads(lines[lines.index("Proposed partition reassignment configuration") + 1])
    (partition,) = proposed["partitions"]
    assert sorted(partition["replicas"]) in ([0, 1], [0, 2], [1, 2])
    return sorted_json(lines[lines.index("Current partition replica assignment") + 1])


def test_reassignment(pair: ClusterPair) -> None:
    def script(tools: Tools) -> None:
        create(tools, "moved", [0, 1])
        fill(tools, "moved")
        topics = tools.json_file("topics", {"version": 1, "topics": [{"topic": "moved"}]})
        tools.run(
            REASSIGN,
            "--topics-to-move-json-file",
            topics,
            "--broker-list",
            "0,1,2",
            "--generate",
            show=current_assignment,
        )
        target = {"topic": "moved", "partition": 0, "replicas": [0, 2], "log_dirs": ["any", "any"]}
        file = ("--reassignment-json-file", tools.json_file("target", {"version": 1, "partitions": [target]}))
        tools.run(REASSIGN, "--list")
        tools.run(REASSIGN, *file, "--verify")
        tools.run(REASSIGN, *file, "--execute", "--throttle", THROTTLE)
        tools.run(REASSIGN, "--list")
        tools.run(REASSIGN, *file, "--verify")
        tools.run(REASSIGN, *file, "--execute", status=1)
        tools.run(CONFIGS, "--entity-type", "topics", "--entity-name", "moved", "--describe")
        tools.run(CONFIGS, "--entity-type", "brokers", "--entity-name", "2", "--describe")
        tools.run(TOPICS, "--describe", "--topic", "moved")
        tools.run(REASSIGN, *file, "--cancel")
        tools.cluster.wait_for_partition("moved", leader=0, isr=[0, 1])
        tools.run(REASSIGN, *file, "--cancel")
        tools.run(REASSIGN, "--list")
        tools.run(REASSIGN, *file, "--execute")
        tools.cluster.wait_for_partition("moved", leader=0, isr=[0, 2])
        tools.cluster.wait_until(lambda: not tools.cluster.replica_path(1, "moved").exists())
        tools.run(REASSIGN, *file, "--verify")
        tools.run(CONFIGS, "--entity-type", "topics", "--entity-name", "moved", "--describe")
        tools.run(TOPICS, "--describe", "--topic", "moved")

    pair.play(script)


def test_configs(pair: ClusterPair) -> None:
    def script(tools: Tools) -> None:
        create(tools, "set", [0, 1, 2], retention_ms="1000")
        topic = ("--entity-type", "topics", "--entity-name", "set")
        tools.run(CONFIGS, *topic, "--describe")
        tools.run(
            CONFIGS, *topic, "--alter", "--add-config", "cleanup.policy=[compact,delete],segment.ms=2000"
        )
        tools.run(CONFIGS, *topic, "--alter", "--delete-config", "retention.ms")
        tools.run(CONFIGS, *topic, "--describe", show=sorted_lines)
        tools.run(CONFIGS, *topic, "--describe", "--all", show=sorted_lines)
        tools.run(CONFIGS, *topic, "--alter", "--add-config", "retention.ms=soon", status=1)
        tools.run(CONFIGS, *topic, "--alter", "--add-config", "no.such=1", status=1)
        tools.run(CONFIGS, *topic, "--alter", "--delete-config", "segment.bytes", status=1)
        broker = ("--entity-type", "brokers", "--entity-name", "1")
        default = ("--entity-type", "brokers", "--entity-default")
        tools.run(
            CONFIGS,
            *default,
            "--alter",
            "--add-config",
            "log.retention.ms=86400000,message.max.bytes=2000000",
        )
        tools.run(CONFIGS, *broker, "--alter", "--add-config", "message.max.bytes=3000000")
        tools.run(CONFIGS, *default, "--describe", show=sorted_lines)
        tools.run(CONFIGS, *broker, "--describe", show=sorted_lines)
        tools.run(CONFIGS, *topic, "--describe", "--all", show=sorted_lines)
        tools.run(CONFIGS, *broker, "--alter", "--add-config", "broker.id=7", status=1)
        tools.run(CONFIGS, *broker, "--alter", "--add-config", "message.max.bytes=-1", status=1)
        tools.run(CONFIGS, *broker, "--alter", "--delete-config", "message.max.bytes")
        tools.run(CONFIGS, *default, "--alter", "--delete-config", "log.retention.ms,message.max.bytes")
        tools.run(CONFIGS, *broker, "--describe")

    pair.play(script)


def test_log_dirs(pair: ClusterPair) -> None:
    def script(tools: Tools) -> None:
        create(tools, "stored", [0, 1, 2], [1, 2, 0])
        Clients(tools.cluster.bootstrap).produce("stored", 1, 1)
        selection = ("--describe", "--topic-list", "stored", "--broker-list")
        tools.run(LOG_DIRS, *selection, "0,1,2", show=sorted_json)
        tools.run(LOG_DIRS, *selection, "1", show=sorted_json)
        tools.run(LOG_DIRS, *selection, "7", status=1)

    pair.play(script)


def test_cluster_features_and_quorum(pair: ClusterPair) -> None:
    def script(tools: Tools) -> None:
        tools.run(FEATURES, "describe")
        tools.run(BROKER_API_VERSIONS, show=known_apis)
        tools.run_command(CLUSTER, "cluster-id")
        tools.run_command(CLUSTER, "unregister", "--id", "7")
        tools.run(METADATA_QUORUM, "describe", "--status", status=1)
        tools.run(METADATA_QUORUM, "describe", "--replication", status=1)

    pair.play(script)


def test_replica_verification(pair: ClusterPair) -> None:
    def script(tools: Tools) -> None:
        create(tools, "verified", [0, 1, 2], [1, 2, 0])
        for partition in (0, 1):
            Clients(tools.cluster.bootstrap).produce("verified", partition, 100)
        interval = ("--report-interval-ms", "1000")
        brokers = ("--broker-list", tools.cluster.bootstrap)
        expected = r"max lag is 0 .* at offset 100 among 2 partitions"
        tools.read_until(expected, REPLICA_VERIFICATION, *brokers, "--topics-include", "verified", *interval)

    pair.play(script)
