"""A controller and followers as clients of a broker under test."""

from __future__ import annotations

from typing import Any

from odradek.model.ids import TopicPartition
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)

FETCH, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 1, 4, 5, 6
CONTROLLER_EPOCH = 100
FOLLOWER, OTHER_FOLLOWER = 7, 8


class ControllerClient:
    """Sends the requests of a controller on another broker."""

    def __init__(self, harness: Any) -> None:
        self._harness = harness
        self.broker_id = harness.broker.broker_id

    async def announce_brokers(
        self, *others: int, racks: dict[int, str] | None = None, listener: str = "PLAINTEXT"
    ) -> None:
        brokers = [
            UpdateMetadataBroker(
                number,
                endpoints=[UpdateMetadataEndpoint(9092, f"host{number}", listener, 0)],
                rack=(racks or {}).get(number),
            )
            for number in (self.broker_id, *others)
        ]
        request = UpdateMetadataRequest(
            controller_id=FOLLOWER, controller_epoch=CONTROLLER_EPOCH, live_brokers=brokers
        )
        assert (await self._harness.request(UPDATE_METADATA, 8, request)).error_code == 0

    async def set_leader(
        self,
        topic: str,
        leader: int | None = None,
        *,
        partitions: tuple[int, ...] = (0,),
        leader_epoch: int = 1,
        isr: tuple[int, ...] | None = None,
        followers: tuple[int, ...] = (FOLLOWER,),
    ) -> None:
        """Make the broker, or another, leader of partitions with these followers."""
        replicas = [self.broker_id, *followers]
        states = [
            LeaderAndIsrPartitionState(
                partition_index=number,
                controller_epoch=CONTROLLER_EPOCH,
                leader=self.broker_id if leader is None else leader,
                leader_epoch=leader_epoch,
                isr=list(replicas if isr is None else isr),
                partition_epoch=leader_epoch,
                replicas=replicas,
            )
            for number in partitions
        ]
        request = LeaderAndIsrRequest(
            controller_id=FOLLOWER,
            controller_epoch=CONTROLLER_EPOCH,
            topic_states=[LeaderAndIsrTopicState(topic, self._harness.topic_id(topic), states)],
        )
        response = await self._harness.request(LEADER_AND_ISR, 7, request)
        assert response.error_code == 0
        errors = [entry.error_code for entry in response.topics[0].partition_errors]
        assert errors == [0] * len(partitions)


class FollowerClient:
    """Fetches as a broker does, in a session."""

    def __init__(self, harness: Any, client: Any, broker_id: int = FOLLOWER) -> None:
        self._harness = harness
        self._client = client
        self._broker_id = broker_id
        self._session_id = self._session_epoch = 0

    @classmethod
    async def connect(cls, harness: Any, broker_id: int = FOLLOWER) -> FollowerClient:
        return cls(harness, await harness.memory_broker.connect(), broker_id)

    def send(
        self,
        offsets: dict[TopicPartition, int],
        *,
        leader_epoch: int = 1,
        last_epoch: int = -1,
        log_start_offset: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
    ) -> Any:
        """Send a fetch for these partitions, and for those of the session; return its future response."""
        topics: dict[str, FetchTopic] = {}
        for (topic, number), offset in offsets.items():
            entry = topics.setdefault(topic, FetchTopic(topic, self._harness.topic_id(topic), []))
            entry.partitions.append(
                FetchPartition(number, leader_epoch, offset, last_epoch, log_start_offset, 1 << 20)
            )
        request = FetchRequest(
            replica_state=ReplicaState(self._broker_id, -1),
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 24,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
        )
        return self._client.send(FETCH, 17, request)

    async def fetch(self, offsets: dict[TopicPartition, int], **options: Any) -> dict[TopicPartition, Any]:
        """Fetch; return the partitions in the response."""
        response = await self.send(offsets, **options)
        assert response.error_code == 0
        self._session_id = response.session_id
        self._session_epoch += 1
        names = {topic.topic_id: topic.name for topic in self._harness.broker.metadata_cache.topics.values()}
        return {
            TopicPartition(names[topic.topic_id], entry.partition_index): entry
            for topic in response.responses
            for entry in topic.partitions
        }
