"""Admin API of log directories and the replicas in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.admin.api_driver import AdminApi
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
    """A replica of a partition on a broker.

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
    """A replica in a log directory. ``is_future`` if it is being moved there."""

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory. Brokers before 3.3 do not report the size of the disk (-1)."""

    path: str
    error: ClientError | None
    replicas: Mapping[TopicPartition, ReplicaInLogDir]
    total_bytes: int
    usable_bytes: int


class LogDirsApi(AdminApi):
    """Log directory methods of ``Admin``."""

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_s: float | None = None,
    ) -> dict[int, dict[str, LogDir]]:
        """Return log directories by broker and path, of all or some brokers, with all or some replicas.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> (broker, directories), *_ = admin.describe_log_dirs().items()
        >>> all(directory.error is None for directory in directories.values())
        True
        >>> admin.close()
        """
        topics = (
            None
            if partitions is None
            else [DescribableLogDirTopic(*topic) for topic in by_topic(partitions).items()]
        )

        def read(
            keys: Sequence[int], response: DescribeLogDirsResponse
        ) -> Iterable[tuple[int, dict[str, LogDir] | ApiError]]:
            if response.error_code:
                yield keys[0], ApiError(ErrorCode(response.error_code))
            else:
                yield keys[0], {result.log_dir: _log_dir(result) for result in response.results}

        handler: AdminApiHandler[int, dict[str, LogDir]] = AdminApiHandler(
            call="describe log dirs",
            key_name=lambda broker: f"broker {broker}",
            lookup=at_broker(int),
            build_request=lambda keys, timeout_ms: DescribeLogDirsRequest(topics),
            read_response=read,
        )
        broker_ids = await self._driver.brokers(timeout_s) if brokers is None else brokers
        return await self._driver.run(handler, broker_ids, timeout_s)

    async def alter_replica_log_dirs(
        self, moves: Mapping[Replica, str], *, timeout_s: float | None = None
    ) -> None:
        """Move replicas to other log directories of their brokers. The moves continue in the background:
        ``describe_log_dirs`` shows their progress.

        >>> from odradek import Admin, Replica
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["moved"])
        >>> broker, directories = next(iter(admin.describe_log_dirs().items()))
        >>> admin.alter_replica_log_dirs({Replica("moved", 0, broker): next(iter(directories))})
        >>> admin.close()
        """

        def request(replicas: Sequence[Replica], timeout_ms: int) -> AlterReplicaLogDirsRequest:
            by_path: dict[str, list[TopicPartition]] = {}
            for replica in replicas:
                partition = TopicPartition(replica.topic, replica.partition)
                by_path.setdefault(moves[replica], []).append(partition)
            return AlterReplicaLogDirsRequest(
                [
                    AlterReplicaLogDir(
                        path, [AlterReplicaLogDirTopic(*topic) for topic in by_topic(partitions).items()]
                    )
                    for path, partitions in by_path.items()
                ]
            )

        def read(
            replicas: Sequence[Replica], response: AlterReplicaLogDirsResponse
        ) -> Iterable[tuple[Replica, ApiError | None]]:
            for topic in response.results:
                for partition in topic.partitions:
                    code = ErrorCode(partition.error_code)
                    replica = Replica(topic.topic_name, partition.partition_index, replicas[0].broker)
                    yield replica, ApiError(code) if code else None

        handler: AdminApiHandler[Replica, None] = AdminApiHandler(
            call="alter replica log dirs",
            key_name=str,
            lookup=at_broker(lambda replica: replica.broker),
            build_request=request,
            read_response=read,
        )
        await self._driver.run(handler, moves, timeout_s)


def _log_dir(result: DescribeLogDirsResult) -> LogDir:
    code = ErrorCode(result.error_code)
    return LogDir(
        result.log_dir,
        broker_error(code, f"log directory {result.log_dir}") if code else None,
        {
            TopicPartition(topic.name, entry.partition_index): ReplicaInLogDir(
                entry.partition_size, entry.offset_lag, entry.is_future_key
            )
            for topic in result.topics
            for entry in topic.partitions
        },
        result.total_bytes,
        result.usable_bytes,
    )
