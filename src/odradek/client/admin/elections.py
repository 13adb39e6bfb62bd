"""Admin API of leader elections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.client.admin.api_driver import AdminApi
from odradek.client.admin.api_handler import CONTROLLER_MOVED, AdminApiHandler, ApiError
from odradek.client.admin.lookup_strategies import at_any_broker, at_controller, by_topic
from odradek.model.client_errors import UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import ElectionType
from odradek.net.api_versions import RequestBuilder
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse

ELECTION_TYPES_SINCE = 1
"""Version 0 elects preferred leaders only."""


class ElectionsApi(AdminApi):
    """Election methods of ``Admin``."""

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: ElectionType | str = ElectionType.PREFERRED,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elect leaders of some or all partitions; return True for partitions with a new leader, False for
        those that needed no election.

        ``"preferred"`` moves leadership to the first replica. ``"unclean"`` gives a partition without a
        leader a replica that is not in sync: acknowledged records may be lost.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["led"])
        >>> admin.elect_leaders([TopicPartition("led", 0)])
        {TopicPartition(topic='led', partition=0): False}
        >>> admin.close()
        """
        kind = _election_type(election_type)
        # Named one by one, because a broker that is not the controller responds to a request for all
        # partitions as if no partition needed an election.
        if partitions is None:
            partitions = await self._driver.run_single(_all_partitions(), timeout_s)
        return await self._driver.run(_elections(kind), partitions, timeout_s)


def _all_partitions() -> AdminApiHandler[None, list[TopicPartition]]:
    def read(keys: Sequence[None], response: MetadataResponse) -> Iterable[tuple[None, list[TopicPartition]]]:
        topics = [topic for topic in response.topics if not topic.error_code]
        yield (
            None,
            [
                TopicPartition(topic.name or "", partition.partition_index)
                for topic in topics
                for partition in topic.partitions
            ],
        )

    return AdminApiHandler(
        call="list partitions",
        key_name=lambda _: "list partitions",
        lookup=at_any_broker,
        build_request=lambda keys, timeout_ms: MetadataRequest(None, allow_auto_topic_creation=False),
        read_response=read,
    )


def _election_type(value: ElectionType | str) -> ElectionType:
    if isinstance(value, ElectionType):
        return value
    try:
        return ElectionType[value.upper()]
    except KeyError:
        raise ValueError(f"election_type must be 'preferred' or 'unclean', got {value!r}") from None


def _elections(election_type: ElectionType) -> AdminApiHandler[TopicPartition, bool]:
    def request(partitions: Sequence[TopicPartition], timeout_ms: int) -> RequestBuilder:
        topics = [TopicPartitions(*topic) for topic in by_topic(partitions).items()]

        def build(version: int) -> ElectLeadersRequest:
            if version < ELECTION_TYPES_SINCE and election_type is not ElectionType.PREFERRED:
                raise UnsupportedVersion(f"ElectLeaders version 1 required, got {version}")
            return ElectLeadersRequest(election_type, topics, timeout_ms)

        return RequestBuilder(ElectLeadersRequest, build)

    return AdminApiHandler(
        call="elect leaders",
        key_name=lambda partition: f"partition {partition}",
        lookup=at_controller,
        build_request=request,
        read_response=read_elections,
        retry_codes=CONTROLLER_MOVED,
    )


def read_elections(
    partitions: Sequence[TopicPartition], response: ElectLeadersResponse
) -> Iterable[tuple[TopicPartition, bool | ApiError]]:
    """Yield the result of each partition: elected, not needed, or an error."""
    if response.error_code:
        error = ApiError(ErrorCode(response.error_code))
        yield from ((partition, error) for partition in partitions)
        return
    for topic in response.replica_election_results:
        for result in topic.partition_result:
            partition = TopicPartition(topic.topic, result.partition_id)
            code = ErrorCode(result.error_code)
            if code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                yield partition, code is ErrorCode.NONE
            else:
                yield partition, ApiError(code, result.error_message)
