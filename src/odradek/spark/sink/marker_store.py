"""Markers where they are kept: read from their groups, and the topic that they need.

Tasks make that topic, not the driver: writers are made on the driver for the end of a batch, too, and whoever
reports a failure must not wait for brokers that may be its cause.
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
from odradek.spark.sink.markers import RETENTION_SETTING, Marker, MarkerKey, Markers, group_prefix, marker_of
from odradek.spark.sink.row_sender import OpenTransaction
from odradek.spark.worker.client_pool import admin_of, forget

_REPLICAS_MAX: Final = 3
_TRUSTED_MS: Final = 60_000
"""How long a topic that was there is not looked for again."""
_TOPICS_MAX: Final = 64


def read_marker(options: SinkOptions, key: MarkerKey) -> Marker:
    """The marker as it is when no transaction of the partition is open any more."""
    place = TopicPartition(options.marker_topic, 0)
    admin = admin_of(options.admin_settings)
    try:
        found = admin.list_group_offsets(key.group, [place], require_stable=True)[place]
    except ClientError:
        forget(admin)
        raise
    return Marker(0) if found is None else marker_of(found.offset, found.metadata)


def read_markers(options: SinkOptions, query: str) -> Markers:
    """The markers of all partitions of a query, as far as they are committed now.

    It waits for no transaction: those of tasks that run at the same time are open.
    """
    place, prefix = TopicPartition(options.marker_topic, 0), group_prefix(query)
    admin = admin_of(options.admin_settings)
    try:
        names = [name for name in admin.list_groups() if name.startswith(prefix)]
        partitions = {name: int(number) for name in names if (number := name.removeprefix(prefix)).isdigit()}
        found = admin.list_offsets_of_groups({name: [place] for name in partitions}) if partitions else {}
    except ClientError:
        forget(admin)
        raise
    committed = {partitions[name]: offsets[place] for name, offsets in found.items()}
    return {
        number: marker_of(one.offset, one.metadata) for number, one in committed.items() if one is not None
    }


def describe_transaction(options: SinkOptions, key: MarkerKey) -> TransactionDescription | None:
    """A partition's transactional id as its coordinator knows it; None if it does not, or cannot tell."""
    name = key.transactional_id(options.transactional_id_prefix)
    admin = admin_of(options.admin_settings)
    try:
        return admin.describe_transactions([name])[name]
    except PartialFailure as failed:
        error = failed.errors[name]
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND or isinstance(error, UnsupportedVersion):
            return None
        forget(admin)
        raise
    except ClientError:
        forget(admin)
        raise


def end_transaction(options: SinkOptions, transaction: OpenTransaction, *, committed: bool) -> None:
    """Commit or abort a transaction that a task has left open."""
    admin = admin_of(options.admin_settings)
    name, producer_id, epoch = transaction
    try:
        admin.end_transaction(name, producer_id, epoch, committed=committed)
    except ClientError:
        forget(admin)
        raise


def offsets_retention_ms(admin: Admin) -> int | None:
    """How long the cluster keeps markers of a query that writes nothing; None if it does not tell."""
    try:
        brokers = [node.id for node in admin.describe_cluster().nodes]
        resources = [ConfigResource.broker(number) for number in brokers]
        found = admin.describe_configs(resources, names=[RETENTION_SETTING])
    except ClientError:
        # Whoever may not read settings can still write: then Kafka's default is assumed.
        return None
    minutes = [entries[RETENTION_SETTING].value for entries in found.values() if RETENTION_SETTING in entries]
    known = [int(value) for value in minutes if value is not None]
    return min(known) * 60_000 if known else None


@dataclass(slots=True)
class MarkerTopics:
    """Marker topics that were seen a moment ago, in this process."""

    now_ms: Callable[[], int]
    _seen_ms: dict[tuple[str, str], int] = field(default_factory=dict)

    def ensure(self, options: SinkOptions, *, afresh: bool = False) -> None:
        """Make the marker topic if it is not there: offsets of unknown topics cannot be committed.

        ``afresh``: even if it was there a moment ago.
        """
        servers = options.admin_settings["bootstrap.servers"]
        key, now_ms = (servers, options.marker_topic), self.now_ms()
        if not afresh and now_ms - self._seen_ms.get(key, -_TRUSTED_MS) < _TRUSTED_MS:
            return
        admin = admin_of(options.admin_settings)
        try:
            _ensure_topic(admin, options.marker_topic)
        except ClientError as failed:
            forget(admin)
            raise SinkFailed(
                f"guarantee=exactly_once needs the topic {options.marker_topic}, and it can be neither found "
                f"nor made: {failed}; make it with one partition, or name another with markerTopic"
            ) from failed
        if len(self._seen_ms) >= _TOPICS_MAX:
            self._seen_ms.clear()
        self._seen_ms[key] = now_ms


def _ensure_topic(admin: Admin, name: str) -> None:
    # It never holds a record; replicas only keep it known when a broker is away.
    replicas = min(_REPLICAS_MAX, len(admin.describe_cluster().nodes))
    try:
        admin.create_topics([NewTopic(name, 1, replicas)])
    except PartialFailure as failed:
        # Whoever may not make topics finds the one that an administrator has made.
        if failed.code is not ErrorCode.TOPIC_ALREADY_EXISTS and name not in admin.list_topics():
            raise


marker_topics: Final = MarkerTopics(system_environment().clock.monotonic_ms)
