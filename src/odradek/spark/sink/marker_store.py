"""Reading of markers from the groups that hold them, and the marker topic.

Tasks create the topic, not the driver: Spark creates a writer on the driver also to end a batch, and
reporting a failure must not wait for brokers that may be its cause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from odradek.client.admin.configs import ConfigResource
from odradek.client.admin.topics import NewTopic
from odradek.client.admin.transactions import TransactionDescription
from odradek.client.blocking.admin import Admin
from odradek.client.environment import system_environment
from odradek.model.client_errors import ClientError, PartialFailure, UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.spark.options.sink_options import SinkOptions
from odradek.spark.sink.errors import SinkFailed
from odradek.spark.sink.markers import (
    RETENTION_SETTING,
    Marker,
    MarkerKey,
    Markers,
    group_prefix,
    parse_marker,
)
from odradek.spark.sink.row_sender import OpenTransaction
from odradek.spark.worker.client_pool import discard, get_admin

_REPLICAS_MAX: Final = 3
_RECHECK_MS: Final = 60_000
"""Time for which an existing topic is not checked again."""
_TOPICS_MAX: Final = 64


def read_marker(options: SinkOptions, key: MarkerKey) -> Marker:
    """Return the marker once no transaction of the partition is open."""
    marker_partition = TopicPartition(options.marker_topic, 0)
    admin = get_admin(options.admin_settings)
    try:
        offsets = admin.list_group_offsets(key.group, [marker_partition], require_stable=True)
    except ClientError:
        discard(admin)
        raise
    committed = offsets[marker_partition]
    return Marker(0) if committed is None else parse_marker(committed.offset, committed.metadata)


def read_markers(options: SinkOptions, query: str) -> Markers:
    """Return the committed markers of all partitions of a query.

    It does not wait for open transactions: those of concurrent tasks are open.
    """
    marker_partition, prefix = TopicPartition(options.marker_topic, 0), group_prefix(query)
    admin = get_admin(options.admin_settings)
    try:
        names = [name for name in admin.list_groups() if name.startswith(prefix)]
        partitions = {name: int(number) for name in names if (number := name.removeprefix(prefix)).isdigit()}
        groups = {name: [marker_partition] for name in partitions}
        offsets_by_group = admin.list_offsets_of_groups(groups) if partitions else {}
    except ClientError:
        discard(admin)
        raise
    committed = {partitions[name]: offsets[marker_partition] for name, offsets in offsets_by_group.items()}
    return {
        number: parse_marker(offset.offset, offset.metadata)
        for number, offset in committed.items()
        if offset is not None
    }


def describe_transaction(options: SinkOptions, key: MarkerKey) -> TransactionDescription | None:
    """Describe a partition's transactional id; None if unknown to its coordinator, or not supported."""
    name = key.transactional_id(options.transactional_id_prefix)
    admin = get_admin(options.admin_settings)
    try:
        return admin.describe_transactions([name])[name]
    except PartialFailure as failed:
        error = failed.errors[name]
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND or isinstance(error, UnsupportedVersion):
            return None
        discard(admin)
        raise
    except ClientError:
        discard(admin)
        raise


def end_transaction(options: SinkOptions, transaction: OpenTransaction, *, committed: bool) -> None:
    """Commit or abort a transaction that a task left open."""
    admin = get_admin(options.admin_settings)
    name, producer_id, epoch = transaction
    try:
        admin.end_transaction(name, producer_id, epoch, committed=committed)
    except ClientError:
        discard(admin)
        raise


def offsets_retention_ms(admin: Admin) -> int | None:
    """Return the cluster's retention of markers of an idle query; None if it cannot be read."""
    try:
        brokers = [node.id for node in admin.describe_cluster().nodes]
        resources = [ConfigResource.broker(number) for number in brokers]
        configs = admin.describe_configs(resources, names=[RETENTION_SETTING])
    except ClientError:
        # Without permission to read configs Kafka's default is assumed.
        return None
    values = [
        entries[RETENTION_SETTING].value for entries in configs.values() if RETENTION_SETTING in entries
    ]
    minutes = [int(value) for value in values if value is not None]
    return min(minutes) * 60_000 if minutes else None


@dataclass(slots=True)
class MarkerTopics:
    """Marker topics known to exist, by the time of the last check in this process."""

    now_ms: Callable[[], int]
    _checked_ms: dict[tuple[str, str], int] = field(default_factory=dict)

    def ensure(self, options: SinkOptions, *, recheck: bool = False) -> None:
        """Create the marker topic if missing: offsets of unknown topics cannot be committed.

        ``recheck``: check even if it existed a moment ago.
        """
        servers = options.admin_settings["bootstrap.servers"]
        key, now_ms = (servers, options.marker_topic), self.now_ms()
        if not recheck and now_ms - self._checked_ms.get(key, -_RECHECK_MS) < _RECHECK_MS:
            return
        admin = get_admin(options.admin_settings)
        try:
            _ensure_topic(admin, options.marker_topic)
        except ClientError as failed:
            discard(admin)
            raise SinkFailed(
                f"guarantee=exactly_once requires the topic {options.marker_topic}, which does not exist and "
                f"cannot be created: {failed}; create it with one partition, or set the option markerTopic"
            ) from failed
        if len(self._checked_ms) >= _TOPICS_MAX:
            self._checked_ms.clear()
        self._checked_ms[key] = now_ms


def _ensure_topic(admin: Admin, name: str) -> None:
    # It never holds a record; replicas only keep it available when a broker is down.
    replicas = min(_REPLICAS_MAX, len(admin.describe_cluster().nodes))
    try:
        admin.create_topics([NewTopic(name, 1, replicas)])
    except PartialFailure as failed:
        # Without permission to create topics the administrator must have created it.
        if failed.code is not ErrorCode.TOPIC_ALREADY_EXISTS and name not in admin.list_topics():
            raise


marker_topics: Final = MarkerTopics(system_environment().clock.monotonic_ms)
