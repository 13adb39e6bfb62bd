"""What the driver asks the cluster: partitions, ids of topics, ends of logs, offsets of times and of a group.

Nothing is connected before the first question, and nothing is kept that cannot be pickled. Failures that may
pass are tried again a bounded number of times, on top of what the client itself tries within
``default.api.timeout.ms``; others are told at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from odradek.client.admin.offsets import OffsetSpec
from odradek.client.blocking.admin import Admin
from odradek.client.environment import system_environment
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ClientError, ConnectionFailed, PartialFailure, TimedOut, UnknownTopic
from odradek.model.ids import TopicPartition
from odradek.spark.options.offsets import Offsets, Position
from odradek.spark.options.source_options import SourceOptions
from odradek.spark.source.data_loss import Sight
from odradek.spark.source.offset_resolution import questions, settled, spots_of, timed
from odradek.spark.worker.client_pool import admin_of, forget
from odradek.telemetry import events

T = TypeVar("T")

_COMMIT_TIMEOUT_S: Final = 5.0
"""The group's offsets are for others to look at: a batch does not wait long for them."""
_log: Final = events.logger("spark")


class Layout(NamedTuple):
    """The partitions of the query, sorted, and the ids of their topics where brokers tell them."""

    partitions: tuple[TopicPartition, ...]
    topic_ids: Mapping[str, str]
    missing: tuple[str, ...]
    """Topics or partitions that were named and do not exist."""


class OffsetReader:
    """The cluster as one query sees it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reached = False
        self._layout: tuple[int, Layout] | None = None

    def layout(self) -> Layout:
        """The partitions that the query reads; raises UnknownTopic if one that was named does not exist."""
        found = self._retried(self._ask_layout)
        if found.missing:
            raise UnknownTopic(
                f"{', '.join(found.missing)} does not exist: create it, or correct {self._options.topics}"
            )
        return found

    def look(self, expected: Mapping[TopicPartition, int]) -> Sight:
        """Where logs begin and end now. What contradicts ``expected`` is asked again before it is believed.

        A broker that has just become leader may not know the end of its log yet, and one that has just
        started may not know all topics.
        """
        sight = self._retried(self._ask_sight)
        for _ in range(self._options.retry_count_max - 1):
            if all(sight.ends.get(one, -1) >= offset for one, offset in expected.items()):
                break
            self._pause()
            self._layout = None
            sight = self._retried(self._ask_sight)
        return sight

    def offsets_of(
        self, position: Position, partitions: Iterable[TopicPartition], *, late_is_error: bool = False
    ) -> Offsets:
        """The offsets that a position means for these partitions."""
        spots = spots_of(position, partitions, self.committed() if position.needs_group else {})
        ends = self._retried(lambda admin: self._list(admin, dict.fromkeys(timed(spots), OffsetSpec.LATEST)))
        answers = self._retried(lambda admin: self._list(admin, questions(spots)))
        return settled(spots, answers, ends, late_is_error=late_is_error)

    def committed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed."""
        group_id = self._options.group_id
        if group_id is None:
            return {}
        found = self._retried(lambda admin: admin.list_group_offsets(group_id))
        return {one: value for one, value in found.items() if value is not None}

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit for the group, once; raises ClientError."""
        if self._options.group_id is not None and offsets:
            admin = admin_of(self._options.admin_settings)
            admin.alter_group_offsets(self._options.group_id, offsets, timeout_s=_COMMIT_TIMEOUT_S)

    # Questions.

    def _ask_layout(self, admin: Admin) -> Layout:
        now_ms = system_environment().clock.monotonic_ms()
        if self._layout is not None and now_ms - self._layout[0] < self._options.layout_age_max_ms:
            return self._layout[1]
        choice = self._options.topics
        names = choice.named_topics if choice.pattern is None else choice.fitting(admin.list_topics())
        try:
            described = admin.describe_topics(names) if names else {}
        except PartialFailure as failed:
            if not all(isinstance(error, UnknownTopic) for error in failed.errors.values()):
                raise
            described = {one.name: one for one in failed.results.values()}
        partitions = choice.chosen({name: len(one.partitions) for name, one in described.items()})
        ids = {name: one.topic_id for name, one in described.items() if one.topic_id is not None}
        missing = [name for name in choice.named_topics if name not in described]
        missing += [str(one) for one in choice.partitions if one.topic in described and one not in partitions]
        layout = Layout(tuple(partitions), ids, tuple(missing))
        self._layout = (now_ms, layout)
        return layout

    def _ask_sight(self, admin: Admin) -> Sight:
        layout = self._ask_layout(admin)
        ends = self._list(admin, dict.fromkeys(layout.partitions, OffsetSpec.LATEST))
        starts = self._list(admin, dict.fromkeys(layout.partitions, OffsetSpec.EARLIEST))
        return Sight(layout.topic_ids, starts, ends)

    def _list(self, admin: Admin, wanted: Mapping[TopicPartition, OffsetSpec | int]) -> Offsets:
        if not wanted:
            return {}
        found = admin.list_offsets(wanted, isolation_level=self._options.isolation_level)
        return {one: answer.offset for one, answer in found.items()}

    # Trying again.

    def _retried(self, ask: Callable[[Admin], T]) -> T:
        """An answer. A cluster that was never reached is tried once: its address may be wrong."""
        attempts = self._options.retry_count_max if self._reached else 1
        while True:
            attempts -= 1
            admin = admin_of(self._options.admin_settings)
            try:
                answer = ask(admin)
            except ClientError as error:
                self._layout = None
                if not self._reached and isinstance(error, ConnectionFailed | TimedOut):
                    raise self._unreached(error) from error
                if attempts <= 0 or not _may_pass(error):
                    raise
                _log.warning("offset_fetch_retried", reason=str(error), attempts_left=attempts)
                forget(admin)
                self._pause()
            else:
                self._reached = True
                return answer

    def _unreached(self, error: ClientError) -> ConnectionFailed:
        servers = self._options.client_settings["bootstrap.servers"]
        return ConnectionFailed(
            f"no broker answers at {servers}: start it, or correct kafka.bootstrap.servers "
            f"(kafka.default.api.timeout.ms says how long to try): {error}"
        )

    def _pause(self) -> None:
        time.sleep(self._options.retry_interval_ms / 1000)


def _may_pass(error: ClientError) -> bool:
    """Whether another try may do better. A topic deleted between two questions is gone in the next answer."""
    if isinstance(error, PartialFailure):
        return all(_may_pass(one) for one in error.errors.values())
    return error.retriable or isinstance(error, UnknownTopic)
