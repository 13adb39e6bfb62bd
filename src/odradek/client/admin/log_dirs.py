"""Data directories of brokers: what lies in them, and replicas on their way from one to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.admin.admin_api import AdminApi
from odradek.client.admin.api_handler import AdminApiHandler, ApiError
from odradek.client.admin.lookup_strategies import at_broker, by_topic
from odradek.client.errors import broker_error
from odradek.model.client_errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from odradek.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


class Replica(NamedTuple):
    """A partition's copy at one broker.

    >>> from odradek import Replica
    >>> str(Replica("castle", 0, broker=1))
    'castle-0 of broker 1'
    """

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} of broker {self.broker}"


class ReplicaInLogDir(NamedTuple):
    """A replica in a directory. ``is_future`` marks one that is being moved there."""

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A data directory. Brokers before 3.3 do not tell how large the disk is (-1)."""

    path: str
    error: ClientError | None
    replicas: Mapping[TopicPartition, ReplicaInLogDir]
    total_bytes: int
    usable_bytes: int


class LogDirsApi(AdminApi):
    """The data directories of ``Admin``."""

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_s: float | None = None,
    ) -> dict[int, dict[str, LogDir]]:
        """Directories by broker and path, with the replicas in each: of all brokers and partitions, or some.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> (broker, directories), *_ = admin.describe_log_dirs().items()
        >>> all(one.error is None for one in directories.values())
        True
        >>> admin.close()
        """
        wanted = None if partitions is None else by_topic(partitions)
        topics = None if wanted is None else [DescribableLogDirTopic(*one) for one in wanted.items()]

        def read(
            asked: Sequence[int], answer: DescribeLogDirsResponse
        ) -> Iterable[tuple[int, dict[str, LogDir] | ApiError]]:
            if answer.error_code:
                yield asked[0], ApiError(ErrorCode(answer.error_code))
            else:
                yield asked[0], {one.log_dir: _log_dir(one) for one in answer.results}

        work: AdminApiHandler[int, dict[str, LogDir]] = AdminApiHandler(
            what="describe log dirs",
            name=lambda broker: f"broker {broker}",
            route=at_broker(int),
            request=lambda keys, timeout_ms: DescribeLogDirsRequest(topics),
            read=read,
        )
        asked = await self._driver.brokers(timeout_s) if brokers is None else brokers
        return await self._driver.run(work, asked, timeout_s)

    async def alter_replica_log_dirs(
        self, moves: Mapping[Replica, str], *, timeout_s: float | None = None
    ) -> None:
        """Have brokers move replicas to another of their directories. The moves go on after that:
        ``describe_log_dirs`` shows how far they are.

        >>> from odradek import Admin, Replica
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["moved"])
        >>> broker, directories = next(iter(admin.describe_log_dirs().items()))
        >>> admin.alter_replica_log_dirs({Replica("moved", 0, broker): next(iter(directories))})
        >>> admin.close()
        """

        def request(replicas: Sequence[Replica], timeout_ms: int) -> AlterReplicaLogDirsRequest:
            by_path: dict[str, list[TopicPartition]] = {}
            for one in replicas:
                by_path.setdefault(moves[one], []).append(TopicPartition(one.topic, one.partition))
            return AlterReplicaLogDirsRequest(
                [
                    AlterReplicaLogDir(
                        path, [AlterReplicaLogDirTopic(*one) for one in by_topic(those).items()]
                    )
                    for path, those in by_path.items()
                ]
            )

        def read(
            replicas: Sequence[Replica], answer: AlterReplicaLogDirsResponse
        ) -> Iterable[tuple[Replica, ApiError | None]]:
            for topic in answer.results:
                for one in topic.partitions:
                    code = ErrorCode(one.error_code)
                    replica = Replica(topic.topic_name, one.partition_index, replicas[0].broker)
                    yield replica, ApiError(code) if code else None

        work: AdminApiHandler[Replica, None] = AdminApiHandler(
            what="alter replica log dirs",
            name=str,
            route=at_broker(lambda replica: replica.broker),
            request=request,
            read=read,
        )
        await self._driver.run(work, moves, timeout_s)


def _log_dir(one: DescribeLogDirsResult) -> LogDir:
    code = ErrorCode(one.error_code)
    return LogDir(
        one.log_dir,
        broker_error(code, f"directory {one.log_dir}") if code else None,
        {
            TopicPartition(topic.name, entry.partition_index): ReplicaInLogDir(
                entry.partition_size, entry.offset_lag, entry.is_future_key
            )
            for topic in one.topics
            for entry in topic.partitions
        },
        one.total_bytes,
        one.usable_bytes,
    )
