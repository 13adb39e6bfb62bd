"""Znode contents as encoded by Kafka 3.9.1 (kafka.zk.ZkData), older versions, invalid payloads."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.ids import TopicPartition
from odradek.model.uuids import parse_uuid
from odradek.store.layout import znodes as p
from odradek.store.port import BadPayload

TOPIC_ID = parse_uuid("3Q0bVG5OTqSGsa-9nrsmOg")

PLAIN = p.RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "h1", 9092)
REPLICATION = p.RegisteredEndpoint("REPLICATION", "SASL_SSL", "h2", 9093)
V6 = p.RegisteredEndpoint("V6", "SSL", "::1", 9094)

# Name, the value, its encoder and decoder, and what Kafka 3.9.1 writes for it.
GOLDEN = [
    (
        "broker with one listener",
        p.BrokerRegistration((PLAIN,), 1794729854289),
        p.encode_broker,
        p.decode_broker,
        '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        '"endpoints":["PLAINTEXT://h1:9092"],"jmx_port":-1,"port":9092,"host":"h1","version":5,'
        '"timestamp":"1794729854289"}',
    ),
    (
        "broker with rack and features",
        p.BrokerRegistration((PLAIN, REPLICATION), 1794729854291, 'dc"1/é', {"f": (1, 3)}, 9999),
        p.encode_broker,
        p.decode_broker,
        '{"features":{"f":{"min_version":1,"max_version":3}},"listener_security_protocol_map":'
        '{"PLAINTEXT":"PLAINTEXT","REPLICATION":"SASL_SSL"},"endpoints":["PLAINTEXT://h1:9092",'
        '"REPLICATION://h2:9093"],"rack":"dc\\"1/é","jmx_port":9999,"port":9092,"host":"h1","version":5,'
        '"timestamp":"1794729854291"}',
    ),
    (
        "broker without a plain listener",
        p.BrokerRegistration((REPLICATION, V6), 1794729854302),
        p.encode_broker,
        p.decode_broker,
        '{"features":{},"listener_security_protocol_map":{"REPLICATION":"SASL_SSL","V6":"SSL"},'
        '"endpoints":["REPLICATION://h2:9093","V6://[::1]:9094"],"jmx_port":-1,"port":-1,"host":null,'
        '"version":5,"timestamp":"1794729854302"}',
    ),
    (
        "topic under reassignment",
        p.TopicAssignment(
            TOPIC_ID, {0: p.ReplicaAssignment((1, 2)), 1: p.ReplicaAssignment((2, 3, 1), (3,), (1,))}
        ),
        p.encode_topic,
        p.decode_topic,
        '{"partitions":{"0":[1,2],"1":[2,3,1]},"topic_id":"3Q0bVG5OTqSGsa-9nrsmOg",'
        '"adding_replicas":{"1":[3]},"removing_replicas":{"1":[1]},"version":3}',
    ),
    (
        "topic without an id",
        p.TopicAssignment(None, {0: p.ReplicaAssignment((1, 2))}),
        p.encode_topic,
        p.decode_topic,
        '{"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{},"version":3}',
    ),
    (
        "partition state",
        p.LeaderIsrAndControllerEpoch(1, 4, (1, 2), 9),
        p.encode_partition_state,
        p.decode_partition_state,
        '{"controller_epoch":9,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}',
    ),
    (
        "partition state of a leader that recovers",
        p.LeaderIsrAndControllerEpoch(1, 4, (1, 2), 9, True),
        p.encode_partition_state,
        p.decode_partition_state,
        '{"controller_epoch":9,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":4,"isr":[1,2]}',
    ),
    ("empty config", {}, p.encode_config, p.decode_config, '{"version":1,"config":{}}'),
    (
        "config with odd characters",
        {"cleanup.policy": "compact,delete", "x": 'é"\\/\n\u2028<', "retention.ms": "60000"},
        p.encode_config,
        p.decode_config,
        '{"version":1,"config":{"cleanup.policy":"compact,delete","x":"é\\"\\\\/\\n\u2028<",'
        '"retention.ms":"60000"}}',
    ),
    (
        "config change",
        "topics/t",
        p.encode_config_change,
        p.decode_config_change,
        '{"version":2,"entity_path":"topics/t"}',
    ),
    (
        "controller",
        p.ControllerRegistration(3, 1700000000000),
        p.encode_controller,
        p.decode_controller,
        '{"version":2,"brokerid":3,"timestamp":"1700000000000","kraftControllerEpoch":-1}',
    ),
    ("controller epoch", 7, p.encode_number, p.decode_number, "7"),
    (
        "cluster id",
        "r2ZBpvlJSAOxRG6Ck0D8Zw",
        p.encode_cluster_id,
        p.decode_cluster_id,
        '{"version":"1","id":"r2ZBpvlJSAOxRG6Ck0D8Zw"}',
    ),
    (
        "producer id block",
        p.ProducerIdBlock(1, 1000, 1999),
        p.encode_producer_id_block,
        p.decode_producer_id_block,
        '{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}',
    ),
    (
        "features, none",
        p.FinalizedFeatures(True, {}),
        p.encode_features,
        p.decode_features,
        '{"features":{},"version":2,"status":1}',
    ),
    (
        "features",
        p.FinalizedFeatures(True, {"f": 3}),
        p.encode_features,
        p.decode_features,
        '{"features":{"f":{"max_version_level":3}},"version":2,"status":1}',
    ),
    (
        "features before protocol 3.3, none",
        p.FinalizedFeatures(True, {}, 1),
        p.encode_features,
        p.decode_features,
        '{"features":{},"version":1,"status":1}',
    ),
    (
        "features before protocol 3.3",
        p.FinalizedFeatures(True, {"f": 3}, 1),
        p.encode_features,
        p.decode_features,
        '{"features":{"f":{"max_version_level":3,"min_version_level":3}},"version":1,"status":1}',
    ),
    (
        "isr change notification",
        [TopicPartition("t", 0), TopicPartition("u", 5)],
        p.encode_partitions,
        p.decode_partitions,
        '{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":5}]}',
    ),
    (
        "reassignment",
        {TopicPartition("t", 0): (1, 2)},
        p.encode_reassignment,
        p.decode_reassignment,
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
    ),
    (
        "log directory event",
        2,
        p.encode_log_dir_event,
        p.decode_log_dir_event,
        '{"version":1,"broker":2,"event":1}',
    ),
]

DECODERS = list({decode.__name__: decode for _, _, _, decode, _ in GOLDEN}.values())


@pytest.mark.parametrize(
    ("value", "encode", "decode", "text"), [g[1:] for g in GOLDEN], ids=[g[0] for g in GOLDEN]
)
def test_value_is_written_as_kafka_does_and_read_back(value, encode, decode, text) -> None:
    assert encode(value).decode() == text
    assert decode("/n", text.encode()) == value


def test_broker_version_1() -> None:
    text = b'{"version":1,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"2233345666"}'
    assert p.decode_broker("/b", text) == p.BrokerRegistration(
        (p.RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092),), 2233345666, jmx_port=9999
    )


def test_broker_version_3() -> None:
    text = (
        b'{"version":3,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1",'
        b'"endpoints":["PLAINTEXT://h:9092","SSL://h:9093"],"rack":"r"}'
    )
    assert p.decode_broker("/b", text) == p.BrokerRegistration(
        (
            p.RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),
            p.RegisteredEndpoint("SSL", "SSL", "h", 9093),
        ),
        1,
        "r",
    )


def test_topic_version_1() -> None:
    got = p.decode_topic("/t", b'{"version":1,"partitions":{"0":[0,1],"10":[1]}}')
    assert got == p.TopicAssignment(None, {0: p.ReplicaAssignment((0, 1)), 10: p.ReplicaAssignment((1,))})


def test_controller_version_1() -> None:
    got = p.decode_controller("/controller", b'{"version":1,"brokerid":5,"timestamp":"12"}')
    assert got == p.ControllerRegistration(5, 12)


def test_config_change_version_1() -> None:
    text = b'{"version":1,"entity_type":"clients","entity_name":"c"}'
    assert p.decode_config_change("/c", text) == "clients/c"


def test_features_version_1_with_a_lower_min_version() -> None:
    text = b'{"features":{"f":{"max_version_level":3,"min_version_level":2}},"version":1,"status":1}'
    assert p.decode_features("/feature", text) == p.FinalizedFeatures(True, {"f": 3}, 1)


def test_empty_config_node() -> None:
    assert p.decode_config("/config/topics/t", b"") == {}
    assert p.decode_config("/config/topics/t", b'{"version":1}') == {}


@pytest.mark.parametrize(
    ("decode", "text"),
    [
        (p.decode_broker, b'{"version":0,"host":"h","port":1}'),
        (p.decode_broker, b'{"version":5,"endpoints":["no listener"],"timestamp":"1"}'),
        (p.decode_broker, b'{"version":5,"endpoints":"PLAINTEXT://h:1","timestamp":"1"}'),
        (p.decode_topic, b'{"version":3,"partitions":{"x":[1]}}'),
        (p.decode_topic, b'{"version":3,"partitions":{"0":["1"]}}'),
        (p.decode_topic, b'{"version":3,"partitions":{"0":[true]}}'),
        (p.decode_topic, b'{"version":3,"partitions":{},"topic_id":"short"}'),
        (p.decode_topic, b'{"version":3,"partitions":[]}'),
        (p.decode_partition_state, b'{"leader":1,"leader_epoch":0,"isr":[1]}'),
        (p.decode_partition_state, b'{"leader":1.5,"leader_epoch":0,"isr":[1],"controller_epoch":1}'),
        (
            p.decode_partition_state,
            b'{"leader":1,"leader_epoch":0,"isr":[1],"controller_epoch":1,"leader_recovery_state":2}',
        ),
        (p.decode_config, b'{"config":{"a":1}}'),
        (p.decode_config, b'{"config":NaN}'),
        (p.decode_config_change, b'{"version":3,"entity_path":"topics/t"}'),
        (p.decode_controller, b'{"version":2}'),
        (p.decode_number, b"7x"),
        (p.decode_number, b""),
        (p.decode_producer_id_block, b'{"broker":1,"block_start":"9","block_end":"1"}'),
        (p.decode_features, b'{"features":{},"version":3,"status":1}'),
        (p.decode_features, b'{"features":{"f":{"max_version_level":0}},"version":2,"status":1}'),
        (p.decode_partitions, b'{"partitions":[3]}'),
    ],
)
def test_invalid_payload_is_rejected_with_path(decode, text) -> None:
    with pytest.raises(BadPayload, match="/the/node"):
        decode("/the/node", text)


@pytest.mark.parametrize("decode", DECODERS)
@given(
    data=st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["version", "partitions", "config", "features", "0", "id"]), inner
            )
        ),
        max_leaves=6,
    ).map(lambda value: json.dumps(value).encode())
)
def test_arbitrary_bytes_decode_or_raise_bad_payload(decode, data) -> None:
    with contextlib.suppress(BadPayload):
        decode("/n", data)


def test_deeply_nested_json_is_rejected() -> None:
    with pytest.raises(BadPayload):
        p.decode_config("/n", b"[" * 200_000)


states = st.builds(
    p.LeaderIsrAndControllerEpoch,
    st.integers(-2, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.lists(st.integers(0, 9), max_size=5).map(tuple),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)
assignments = st.builds(
    p.TopicAssignment,
    st.none() | st.binary(min_size=16, max_size=16),
    st.dictionaries(
        st.integers(0, 10_000),
        st.builds(p.ReplicaAssignment, *[st.lists(st.integers(0, 99), max_size=4).map(tuple)] * 3),
        max_size=20,
    ),
)


@given(states)
def test_partition_state_round_trip(state) -> None:
    assert p.decode_partition_state("/n", p.encode_partition_state(state)) == state


@given(assignments)
def test_topic_assignment_round_trip(topic) -> None:
    assert p.decode_topic("/n", p.encode_topic(topic)) == topic


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_config_round_trip(config) -> None:
    assert p.decode_config("/n", p.encode_config(config)) == config
