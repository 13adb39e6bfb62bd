"""Admin API of partition reassignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.admin.api_driver import AdminApi
from odradek.client.admin.api_handler import CONTROLLER_MOVED, AdminApiHandler, ApiError
from odradek.client.admin.lookup_strategies import at_controller, by_topic
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


class PartitionReassignment(NamedTuple):
    """A reassignment in progress: all replicas, those being added, and those being removed.

    >>> from odradek import PartitionReassignment
    >>> reassignment = PartitionReassignment((3, 1, 2), adding=(3,), removing=(2,))
    >>> reassignment.origin, reassignment.target
    ((1, 2), (3, 1))
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment, to which a cancellation returns."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


class ReassignmentsApi(AdminApi):
    """Reassignment methods of ``Admin``."""

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Move partitions to these replicas, the preferred leader first; None cancels a reassignment.

        The moves continue in the background: ``list_partition_reassignments`` shows their progress. Brokers
        since 2.4.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["staying"])
        >>> broker = admin.describe_cluster().nodes[0].id
        >>> admin.alter_partition_reassignments({TopicPartition("staying", 0): [broker]})
        >>> admin.close()
        """

        def request(
            partitions: Sequence[TopicPartition], timeout_ms: int
        ) -> AlterPartitionReassignmentsRequest:
            topics = [
                ReassignableTopic(
                    topic,
                    [_reassignable(number, targets[TopicPartition(topic, number)]) for number in numbers],
                )
                for topic, numbers in by_topic(partitions).items()
            ]
            return AlterPartitionReassignmentsRequest(timeout_ms, topics)

        handler: AdminApiHandler[TopicPartition, None] = AdminApiHandler(
            call="alter partition reassignments",
            key_name=lambda partition: f"partition {partition}",
            lookup=at_controller,
            build_request=request,
            read_response=read_altered,
            retry_codes=CONTROLLER_MOVED,
        )
        await self._driver.run(handler, targets, timeout_s)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress, of some or all partitions. Brokers since 2.4.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.list_partition_reassignments()
        {}
        >>> admin.close()
        """
        topics = (
            None
            if partitions is None
            else [ListPartitionReassignmentsTopics(*topic) for topic in by_topic(partitions).items()]
        )
        handler: AdminApiHandler[None, dict[TopicPartition, PartitionReassignment]] = AdminApiHandler(
            call="list partition reassignments",
            key_name=lambda _: "list partition reassignments",
            lookup=at_controller,
            build_request=lambda keys, timeout_ms: ListPartitionReassignmentsRequest(timeout_ms, topics),
            read_response=read_listed,
            retry_codes=CONTROLLER_MOVED,
        )
        return await self._driver.run_single(handler, timeout_s)


def _reassignable(partition: int, replicas: Sequence[int] | None) -> ReassignablePartition:
    return ReassignablePartition(partition, None if replicas is None else list(replicas))


def read_altered(
    partitions: Sequence[TopicPartition], response: AlterPartitionReassignmentsResponse
) -> Iterable[tuple[TopicPartition, ApiError | None]]:
    """Yield None or an error for each partition."""
    if response.error_code:
        error = ApiError(ErrorCode(response.error_code), response.error_message)
        yield from ((partition, error) for partition in partitions)
        return
    for topic in response.responses:
        for result in topic.partitions:
            code = ErrorCode(result.error_code)
            partition = TopicPartition(topic.name, result.partition_index)
            yield partition, ApiError(code, result.error_message) if code else None


def read_listed(
    keys: Sequence[None], response: ListPartitionReassignmentsResponse
) -> Iterable[tuple[None, dict[TopicPartition, PartitionReassignment] | ApiError]]:
    """Yield the reassignments by partition, or an error."""
    if response.error_code:
        yield None, ApiError(ErrorCode(response.error_code), response.error_message)
        return
    yield (
        None,
        {
            TopicPartition(topic.name, partition.partition_index): PartitionReassignment(
                tuple(partition.replicas),
                tuple(partition.adding_replicas),
                tuple(partition.removing_replicas),
            )
            for topic in response.topics
            for partition in topic.partitions
        },
    )
