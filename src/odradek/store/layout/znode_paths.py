"""Kafka's znode layout: constants for fixed nodes, functions for the nodes of topics, brokers and so on.

Names of topics, groups and entities are inserted as they are: the caller validates names that come from a
client. The store rejects empty, ``.`` and ``..`` names with ``BadPath``.
"""

from __future__ import annotations

from typing import Final

from odradek.model.ids import TopicPartition

ADMIN: Final = "/admin"
BROKERS: Final = "/brokers"
CLUSTER: Final = "/cluster"
CONFIG: Final = "/config"
CONSUMERS: Final = "/consumers"

BROKER_IDS: Final = f"{BROKERS}/ids"
BROKER_SEQUENCE_ID: Final = f"{BROKERS}/seqid"
TOPICS: Final = f"{BROKERS}/topics"

CLUSTER_ID: Final = f"{CLUSTER}/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
FEATURE: Final = "/feature"
LATEST_PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

CONFIG_TOPICS: Final = f"{CONFIG}/topics"
CONFIG_BROKERS: Final = f"{CONFIG}/brokers"
CONFIG_CLIENTS: Final = f"{CONFIG}/clients"
CONFIG_USERS: Final = f"{CONFIG}/users"
CONFIG_IPS: Final = f"{CONFIG}/ips"
CONFIG_CHANGES: Final = f"{CONFIG}/changes"
CONFIG_CHANGE_PREFIX: Final = "config_change_"
DEFAULT_ENTITY: Final = "<default>"

DELETE_TOPICS: Final = f"{ADMIN}/delete_topics"
REASSIGN_PARTITIONS: Final = f"{ADMIN}/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = f"{ADMIN}/preferred_replica_election"

ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
ISR_CHANGE_PREFIX: Final = "isr_change_"
LOG_DIR_EVENT_NOTIFICATION: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"

ACL: Final = "/kafka-acl"
ACL_EXTENDED: Final = "/kafka-acl-extended"
ACL_CHANGES: Final = "/kafka-acl-changes"
ACL_EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
ACL_CHANGE_PREFIX: Final = "acl_changes_"

DELEGATION_TOKEN: Final = "/delegation_token"
DELEGATION_TOKENS: Final = f"{DELEGATION_TOKEN}/tokens"
DELEGATION_TOKEN_CHANGES: Final = f"{DELEGATION_TOKEN}/token_changes"
DELEGATION_TOKEN_CHANGE_PREFIX: Final = "token_change_"

PERSISTENT: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGE_NOTIFICATION,
    LATEST_PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    CONFIG_TOPICS,
    CONFIG_CLIENTS,
    CONFIG_USERS,
    CONFIG_BROKERS,
    CONFIG_IPS,
)
"""Paths that a broker creates at startup, in Kafka's order."""


def delegation_token(token_id: str) -> str:
    return f"{DELEGATION_TOKENS}/{token_id}"


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(topic_partition: TopicPartition) -> str:
    return f"{TOPICS}/{topic_partition[0]}/partitions/{topic_partition[1]}"


def partition_state(topic_partition: TopicPartition) -> str:
    return f"{TOPICS}/{topic_partition[0]}/partitions/{topic_partition[1]}/state"


def config(entity_type: str, name: str) -> str:
    """``entity_type`` is ``topics``, ``brokers``, ``clients``, ``users`` or ``ips``."""
    return f"{CONFIG}/{entity_type}/{name}"


def broker_config(broker_id: int) -> str:
    return f"{CONFIG_BROKERS}/{broker_id}"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def consumer_offset(group: str, topic_partition: TopicPartition) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic_partition[0]}/{topic_partition[1]}"
