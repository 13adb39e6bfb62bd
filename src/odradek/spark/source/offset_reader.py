"""The driver's requests to the cluster: partitions, topic ids, log offsets, offsets of timestamps and groups.

It connects on the first request, and holds nothing that cannot be pickled. Retriable errors are retried a
bounded number of times, on top of the client's own retries within ``default.api.timeout.ms``; others are
raised at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from odradek.client.admin.offsets import OffsetSpec
from odradek.client.blocking.admin import Admin
from odradek.client.environment import block_thread, system_environment
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ClientError, ConnectionFailed, PartialFailure, TimedOut, UnknownTopic
from odradek.model.ids import TopicPartition
from odradek.spark.options.offsets import OffsetLimit, Offsets
from odradek.spark.options.source_options import SourceOptions
from odradek.spark.source.data_loss import LogOffsets
from odradek.spark.source.offset_resolution import (
    offset_specs,
    partition_limits,
    resolve_offsets,
    timestamp_partitions,
)
from odradek.spark.worker.client_pool import discard, get_admin
from odradek.telemetry import events

T = TypeVar("T")

_COMMIT_TIMEOUT_S: Final = 5.0
"""Short, because the group's offsets are for monitoring only."""
_log: Final = events.logger("spark")


class QueryPartitions(NamedTuple):
    """The partitions of the query, sorted, and their topic ids where brokers have them."""

    partitions: tuple[TopicPartition, ...]
    topic_ids: Mapping[str, str]
    missing: tuple[str, ...]
    """Requested topics or partitions that do not exist."""


class OffsetReader:
    """Sends the driver's requests of one query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reached = False
        self._cached_partitions: tuple[int, QueryPartitions] | None = None

    def fetch_partitions(self) -> QueryPartitions:
        """Return the partitions of the query; raise UnknownTopic if a requested one does not exist."""
        metadata = self._retry(self._fetch_metadata)
        if metadata.missing:
            raise UnknownTopic(
                f"{', '.join(metadata.missing)} does not exist: create it, or correct {self._options.topics}"
            )
        return metadata

    def fetch_log_offsets(self, expected: Mapping[TopicPartition, int]) -> LogOffsets:
        """Return the current log offsets. If they are below ``expected``, the request is repeated.

        A new leader may not know its log end yet, and a broker that has just started may not know all topics.
        """
        log_offsets = self._retry(self._fetch_log_offsets)
        for _ in range(self._options.retry_count_max - 1):
            if all(log_offsets.ends.get(partition, -1) >= offset for partition, offset in expected.items()):
                break
            self._pause()
            self._cached_partitions = None
            log_offsets = self._retry(self._fetch_log_offsets)
        return log_offsets

    def fetch_offsets(
        self, offset_limit: OffsetLimit, partitions: Iterable[TopicPartition], *, late_is_error: bool = False
    ) -> Offsets:
        """Return the offsets of a range limit for these partitions."""
        limits = partition_limits(
            offset_limit, partitions, self.fetch_committed() if offset_limit.needs_group else {}
        )
        with_timestamp = timestamp_partitions(limits)
        ends = self._retry(lambda admin: self._list(admin, dict.fromkeys(with_timestamp, OffsetSpec.LATEST)))
        listed_offsets = self._retry(lambda admin: self._list(admin, offset_specs(limits)))
        return resolve_offsets(limits, listed_offsets, ends, late_is_error=late_is_error)

    def fetch_committed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets."""
        group_id = self._options.group_id
        if group_id is None:
            return {}
        offsets = self._retry(lambda admin: admin.list_group_offsets(group_id))
        return {partition: offset for partition, offset in offsets.items() if offset is not None}

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets of the group, without retries; raise ClientError."""
        if self._options.group_id is not None and offsets:
            admin = get_admin(self._options.admin_settings)
            admin.alter_group_offsets(self._options.group_id, offsets, timeout_s=_COMMIT_TIMEOUT_S)

    # Requests.

    def _fetch_metadata(self, admin: Admin) -> QueryPartitions:
        now_ms = system_environment().clock.monotonic_ms()
        cached = self._cached_partitions
        if cached is not None and now_ms - cached[0] < self._options.metadata_age_max_ms:
            return cached[1]
        selection = self._options.topics
        names = (
            selection.named_topics if selection.pattern is None else selection.matching(admin.list_topics())
        )
        try:
            described = admin.describe_topics(names) if names else {}
        except PartialFailure as failed:
            if not all(isinstance(error, UnknownTopic) for error in failed.errors.values()):
                raise
            described = {topic.name: topic for topic in failed.results.values()}
        partitions = selection.selected({name: len(topic.partitions) for name, topic in described.items()})
        ids = {name: topic.topic_id for name, topic in described.items() if topic.topic_id is not None}
        missing = [name for name in selection.named_topics if name not in described]
        missing += [
            str(partition)
            for partition in selection.partitions
            if partition.topic in described and partition not in partitions
        ]
        query_partitions = QueryPartitions(tuple(partitions), ids, tuple(missing))
        self._cached_partitions = (now_ms, query_partitions)
        return query_partitions

    def _fetch_log_offsets(self, admin: Admin) -> LogOffsets:
        query_partitions = self._fetch_metadata(admin)
        ends = self._list(admin, dict.fromkeys(query_partitions.partitions, OffsetSpec.LATEST))
        starts = self._list(admin, dict.fromkeys(query_partitions.partitions, OffsetSpec.EARLIEST))
        return LogOffsets(query_partitions.topic_ids, starts, ends)

    def _list(self, admin: Admin, specs: Mapping[TopicPartition, OffsetSpec | int]) -> Offsets:
        if not specs:
            return {}
        listed_offsets = admin.list_offsets(specs, isolation_level=self._options.isolation_level)
        return {partition: result.offset for partition, result in listed_offsets.items()}

    # Retries.

    def _retry(self, request: Callable[[Admin], T]) -> T:
        """Send a request with retries; with none before the first response: the address may be wrong."""
        attempts = self._options.retry_count_max if self._reached else 1
        while True:
            attempts -= 1
            admin = get_admin(self._options.admin_settings)
            try:
                response = request(admin)
            except ClientError as error:
                self._cached_partitions = None
                if not self._reached and isinstance(error, ConnectionFailed | TimedOut):
                    raise self._unreachable(error) from error
                if attempts <= 0 or not _is_retriable(error):
                    raise
                _log.warning("offset_fetch_retried", reason=str(error), attempts_left=attempts)
                discard(admin)
                self._pause()
            else:
                self._reached = True
                return response

    def _unreachable(self, error: ClientError) -> ConnectionFailed:
        servers = self._options.client_settings["bootstrap.servers"]
        return ConnectionFailed(
            f"no broker reachable at {servers}: start it, or correct kafka.bootstrap.servers "
            f"(kafka.default.api.timeout.ms is the time to try): {error}"
        )

    def _pause(self) -> None:
        block_thread(self._options.retry_interval_ms / 1000)


def _is_retriable(error: ClientError) -> bool:
    """Return True if a retry may succeed. A topic deleted between two requests is absent from the next."""
    if isinstance(error, PartialFailure):
        return all(_is_retriable(partial) for partial in error.errors.values())
    return error.retriable or isinstance(error, UnknownTopic)
