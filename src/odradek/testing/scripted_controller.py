"""A controller for simulations: Kafka's rules for leaders and ISR, driven by a test.

It is a broker without replicas on a host of its own: it registers in the store, is named as controller in
UpdateMetadata, and serves AlterPartition, AllocateProducerIds and ControlledShutdown. Requests to one broker
keep their order and are retried until that broker's epoch is gone.

Tests make it slow and unreliable: ``fail_over`` replaces it by its successor with the next controller epoch,
while queued requests of the former one are lost or come late; ``replay`` sends an old request once more, as a
retry does whose first attempt was only slow; ``hold_requests`` delays what one broker is told;
``hold_responses`` delays responses to AlterPartition whose changes are stored.

Decisions are in ``ControllerState``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, TopicId, TopicPartition
from odradek.ports.entropy import Entropy
from odradek.store.broker_registration import RegisteredBroker, read_brokers, register_broker
from odradek.store.controller_election import elect
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    BrokerRegistration,
    LeaderIsrAndControllerEpoch,
    RegisteredEndpoint,
    ReplicaAssignment,
    TopicAssignment,
)
from odradek.store.partition_states import (
    VersionedLeaderAndIsr,
    create_partition_states,
    write_partition_states,
)
from odradek.store.port import Store
from odradek.store.topics import create_topic
from odradek.testing.controller.channel import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    ControllerChannel,
)
from odradek.testing.controller.requests import (
    CONTROLLER_ID,
    leader_and_isr_request,
    stop_replica_request,
    update_metadata_request,
)
from odradek.testing.controller.state import ControllerState, PartitionState
from odradek.testing.network import MemoryHost
from odradek.testing.request_server import RequestServer
from odradek.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from odradek.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

CONTROLLER_HOST: Final = "controller"
PORT: Final = 9092
LISTENER: Final = "PLAINTEXT"
CONTROLLED_SHUTDOWN: Final = 7
ALTER_PARTITION: Final = 56
ALLOCATE_PRODUCER_IDS: Final = 67
PRODUCER_ID_BLOCK: Final = 1000


class ScriptedController:
    def __init__(self, store: Store, host: MemoryHost, entropy: Entropy, delay_max_ms: int = 500) -> None:
        """``delay_max_ms`` delays the reaction to broker changes, so that several may be seen at once."""
        self.state = ControllerState()
        self._store = store
        self._host = host
        self._entropy = entropy
        self._delay_max_ms = delay_max_ms
        self._changes: asyncio.Queue[Callable[[], Any]] = asyncio.Queue()
        self._channels: dict[int, ControllerChannel] = {}
        self._next_producer_id = 0
        self._former_channels: list[ControllerChannel] = []
        """Channels of former controllers that may still send."""
        self._sent: dict[int, Sequence[tuple[int, Any]]] = {}
        """Requests sent to the last incarnation of each broker."""
        self._may_respond = asyncio.Event()
        self._may_respond.set()
        self._server = RequestServer(
            {
                ALTER_PARTITION: (range(4), self._alter_partition),
                CONTROLLED_SHUTDOWN: (range(4), self._controlled_shutdown),
                ALLOCATE_PRODUCER_IDS: (range(1), self._allocate_producer_ids),
            }
        )
        self._task: asyncio.Task[None] | None = None
        self.on_elected: Callable[[TopicPartition, PartitionState], None] = lambda partition, state: None
        """Called with each committed state that has a new leader epoch."""
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        """Called if the controller itself fails."""

    # Life cycle.

    async def start(self) -> None:
        await self._server.listen(self._host, PORT)
        await self._store.ensure_path(znode_paths.BROKER_IDS)
        endpoint = RegisteredEndpoint(LISTENER, "PLAINTEXT", CONTROLLER_HOST, PORT)
        await register_broker(self._store, CONTROLLER_ID, BrokerRegistration((endpoint,), 0, None))
        await elect(self._store, CONTROLLER_ID, 0)
        await self._watch_brokers()
        self._task = asyncio.get_running_loop().create_task(self._process())
        self._task.add_done_callback(self._on_ended)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            error = task.exception()
            assert error is not None, "the controller runs until it is stopped"
            self.on_failure(error)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for channel in [*self._channels.values(), *self._former_channels]:
            channel.close()
        self._server.close()

    async def _process(self) -> None:
        while True:
            change = await self._changes.get()
            await asyncio.sleep(self._entropy.below(self._delay_max_ms + 1) / 1000)
            await change()

    async def run(self, change: Callable[[], Any]) -> None:
        """Run a change after those before it, and wait for it."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def wrapped() -> None:
            await change()
            if not done.done():  # the broker that waited is gone
                done.set_result(None)

        self._changes.put_nowait(wrapped)
        await done

    async def _watch_brokers(self) -> None:
        await self._store.watch_children(
            znode_paths.BROKER_IDS, lambda event: self._changes.put_nowait(self._on_brokers_changed)
        )

    # Brokers.

    async def _on_brokers_changed(self) -> None:
        await self._watch_brokers()
        registered = await read_brokers(self._store)
        known = {broker_id: broker.broker_epoch for broker_id, broker in self.state.brokers.items()}
        dead = [broker_id for broker_id in known if broker_id not in registered]
        bounced = [
            broker_id
            for broker_id, broker in registered.items()
            if broker_id in known and known[broker_id] != broker.broker_epoch
        ]
        new = [broker_id for broker_id in registered if broker_id not in known]
        await self._on_failure(dead + bounced)
        await self._on_startup({broker_id: registered[broker_id] for broker_id in new + bounced})

    async def _on_failure(self, broker_ids: Sequence[int]) -> None:
        for broker_id in broker_ids:
            self.state.brokers.pop(broker_id, None)
            self.state.shutting_down.discard(broker_id)
            self.state.offline = {item for item in self.state.offline if item[1] != broker_id}
            channel = self._channels.pop(broker_id, None)
            if channel is not None:
                self._sent[broker_id] = tuple(channel.sent)
                channel.close()
        if not broker_ids:
            return
        led = [p for p, state in self.state.states.items() if state.leader in broker_ids]
        await self._write({p: elected for p in led if (elected := self.state.elect(p)) is not None})
        for broker_id in broker_ids:
            await self._remove_from_isr(broker_id, list(self.state.states))
        self._send_update_metadata(self.state.brokers, ())

    async def _remove_from_isr(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        changed = {p: self.state.without_replica(p, broker_id) for p in partitions}
        await self._write({p: state for p, state in changed.items() if state is not None})

    async def _on_startup(self, brokers: Mapping[int, RegisteredBroker]) -> None:
        if not brokers:
            return
        self.state.brokers.update(brokers)
        for broker_id, broker in brokers.items():
            if broker_id != CONTROLLER_ID:
                self._channels[broker_id] = ControllerChannel(
                    self._host, broker_id, broker, self._sent.get(broker_id, ())
                )
        self._send_update_metadata(self.state.brokers, ())
        self._send_update_metadata(brokers, self.state.states)
        hosted = [p for p, replicas in self.state.replicas.items() if set(replicas) & brokers.keys()]
        self._send_leader_and_isr(hosted, brokers)
        await self._elect_offline()

    async def _elect_offline(self) -> None:
        offline = [p for p, state in self.state.states.items() if not self.state.can_lead(p, state.leader)]
        await self._write({p: elected for p in offline if (elected := self.state.elect(p)) is not None})

    # Topics and leaders.

    async def create_topic(
        self, name: str, assignment: Mapping[int, tuple[int, ...]], topic_id: TopicId
    ) -> None:
        """Create a topic with leaders; to be called through ``run``."""
        replicas = {number: ReplicaAssignment(members) for number, members in assignment.items()}
        await self._store.ensure_path(znode_paths.TOPICS)
        await create_topic(self._store, name, TopicAssignment(topic_id, replicas), {})
        self.state.topic_ids[name] = topic_id
        states = {}
        for number, members in assignment.items():
            partition = TopicPartition(name, number)
            self.state.replicas[partition] = members
            live = tuple(member for member in members if member in self.state.brokers)
            states[partition] = PartitionState(live[0], 0, live, 0, self.state.controller_epoch)
        stored = {partition: _stored(state) for partition, state in states.items()}
        for partition, version in (await create_partition_states(self._store, stored)).items():
            assert isinstance(version, int), version
            self.state.states[partition] = replace(states[partition], partition_epoch=version)
            self.on_elected(partition, self.state.states[partition])
        self._send_leader_and_isr(list(states), self.state.brokers, is_new=True)
        self._send_update_metadata(self.state.brokers, states)

    async def move_leader(self, partition: TopicPartition, leader: int) -> None:
        """Elect another ISR member, as a preferred election does; to be called through ``run``."""
        state = self.state.states[partition]
        if leader in state.isr and leader != state.leader and self.state.can_lead(partition, leader):
            await self._write({partition: self.state.next_state(state, leader, state.isr)})

    async def elect_uncleanly(self, partition: TopicPartition, leader: int) -> None:
        """Elect a live replica although it is not in the ISR, which loses records; call through ``run``."""
        state = self.state.states[partition]
        assert self.state.can_lead(partition, leader), f"broker {leader} cannot lead {partition}"
        await self._write({partition: self.state.next_state(state, leader, (leader,))})

    async def fail_over(self) -> None:
        """Become the next controller: send the whole state under the next epoch, on new connections.

        Requests that the former controller has queued are lost, or sent late: it may not know yet.
        """
        self.state.controller_epoch += 1
        for channel in self._former_channels:
            channel.close()
        self._former_channels = []
        for broker_id, channel in self._channels.items():
            if self._entropy.below(2):
                channel.close()
            else:
                channel.release()
                self._former_channels.append(channel)
            self._channels[broker_id] = ControllerChannel(
                self._host, broker_id, self.state.brokers[broker_id], channel.sent
            )
        self._send_update_metadata(self.state.brokers, self.state.states)
        self._send_leader_and_isr(list(self.state.states), self.state.brokers)
        await self._elect_offline()

    async def bump_leader_epoch(self, partition: TopicPartition) -> None:
        """Keep the leader under a new leader epoch, as a reassignment does when it begins."""
        state = self.state.states[partition]
        if state.leader != NO_LEADER:
            await self._write({partition: self.state.next_state(state, state.leader, state.isr)})

    def replay(self) -> bool:
        """Send an old request again on a connection of its own; return whether there was one.

        Not an UpdateMetadata request of this controller: nothing fences those, in Kafka neither. A broker
        that believes an old one may not know the next leader as alive, and would ignore its election.
        """
        channels = [channel for channel in self._channels.values() if channel.sent]
        if not channels:
            return False
        channel = channels[self._entropy.below(len(channels))]
        index = self._entropy.below(len(channel.sent))
        api_key, request = channel.sent[index]
        if api_key == UPDATE_METADATA and request.controller_epoch == self.state.controller_epoch:
            return False
        channel.replay(index)
        return True

    def replay_latest(self, broker_id: int, count: int = 1) -> None:
        """Send the latest LeaderAndIsr requests to a broker again, also those to its last incarnation."""
        channel = self._channels.get(broker_id)
        if channel is not None:
            sent = [index for index, (api_key, _) in enumerate(channel.sent) if api_key == LEADER_AND_ISR]
            for index in sent[-count:]:
                channel.replay(index)

    def hold_requests(self, broker_id: int) -> None:
        """Queue requests to a broker until ``release_requests``."""
        if broker_id in self._channels:
            self._channels[broker_id].hold()

    def release_requests(self) -> None:
        for channel in self._channels.values():
            channel.release()

    def hold_responses(self) -> None:
        """Respond to no AlterPartition request until ``release_responses``; changes are stored at once."""
        self._may_respond.clear()

    def release_responses(self) -> None:
        self._may_respond.set()

    async def _write(self, changed: Mapping[TopicPartition, PartitionState]) -> None:
        """Write states to the store, then tell the replicas and all brokers."""
        if not changed:
            return
        stored = {
            partition: VersionedLeaderAndIsr(_stored(state), state.partition_epoch)
            for partition, state in changed.items()
        }
        for partition, version in (await write_partition_states(self._store, stored)).items():
            assert isinstance(version, int), version  # this controller is the only writer
            previous = self.state.states[partition]
            self.state.states[partition] = replace(changed[partition], partition_epoch=version)
            if changed[partition].leader_epoch > previous.leader_epoch:
                self.on_elected(partition, self.state.states[partition])
        self._send_leader_and_isr(list(changed), self.state.brokers)
        self._send_update_metadata(self.state.brokers, changed)

    # Requests to brokers.

    def _send_leader_and_isr(
        self, partitions: Iterable[TopicPartition], broker_ids: Iterable[int], *, is_new: bool = False
    ) -> None:
        for broker_id in broker_ids:
            hosted = [p for p in partitions if broker_id in self.state.replicas[p]]
            if hosted and broker_id in self._channels:
                request = leader_and_isr_request(self.state, broker_id, hosted, is_new=is_new)
                self._channels[broker_id].send(LEADER_AND_ISR, request, self._on_leader_and_isr_response)

    def _send_update_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        partitions = list(partitions)
        for broker_id in broker_ids:
            if broker_id in self._channels:
                self._channels[broker_id].send(
                    UPDATE_METADATA, update_metadata_request(self.state, broker_id, partitions)
                )

    def _on_leader_and_isr_response(self, broker_id: int, response: Any) -> None:
        """Take replicas in failed log directories out of service."""
        names = {topic_id: name for name, topic_id in self.state.topic_ids.items()}
        failed = [
            TopicPartition(names[topic.topic_id], error.partition_index)
            for topic in response.topics
            for error in topic.partition_errors
            if error.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        ]
        new = [p for p in failed if (p, broker_id) not in self.state.offline]
        if not new:
            return

        async def apply() -> None:
            self.state.offline.update((p, broker_id) for p in new)
            led = [p for p in new if self.state.states[p].leader == broker_id]
            await self._write({p: elected for p in led if (elected := self.state.elect(p)) is not None})
            await self._remove_from_isr(broker_id, new)

        self._changes.put_nowait(apply)

    # Requests of brokers.

    async def _alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        broker = self.state.brokers.get(request.broker_id)
        if broker is None or broker.broker_epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        response: AlterPartitionResponse | None = None

        async def apply() -> None:
            nonlocal response
            response = await self._apply_alter_partition(request, version)

        await self.run(apply)
        await self._may_respond.wait()
        assert response is not None
        return response

    async def _apply_alter_partition(
        self, request: AlterPartitionRequest, version: int
    ) -> AlterPartitionResponse:
        names = {topic_id: name for name, topic_id in self.state.topic_ids.items()}
        response = AlterPartitionResponse()
        for topic in request.topics:
            name = topic.topic_name if version < 2 else names.get(topic.topic_id, "")
            results = [
                await self._apply_change(TopicPartition(name, change.partition_index), change, request)
                for change in topic.partitions
            ]
            response.topics.append(AlterPartitionResponseTopicData(name, topic.topic_id, results))
        return response

    async def _apply_change(
        self,
        partition: TopicPartition,
        change: AlterPartitionRequestPartitionData,
        request: AlterPartitionRequest,
    ) -> AlterPartitionResponsePartitionData:
        code, isr = self.state.check_alter_partition(partition, change, request.broker_id)
        if code is not ErrorCode.NONE:
            return AlterPartitionResponsePartitionData(partition.partition, code)
        state = self.state.states[partition]
        if isr != state.isr:
            written = replace(state, isr=isr, controller_epoch=self.state.controller_epoch)
            stored = VersionedLeaderAndIsr(_stored(written), state.partition_epoch)
            version = (await write_partition_states(self._store, {partition: stored}))[partition]
            assert isinstance(version, int), version
            state = self.state.states[partition] = replace(written, partition_epoch=version)
            self._send_update_metadata(self.state.brokers, [partition])
        return AlterPartitionResponsePartitionData(
            partition.partition,
            ErrorCode.NONE,
            state.leader,
            state.leader_epoch,
            list(state.isr),
            0,
            state.partition_epoch,
        )

    async def _controlled_shutdown(
        self, request: ControlledShutdownRequest, version: int
    ) -> ControlledShutdownResponse:
        broker_id = request.broker_id
        broker = self.state.brokers.get(broker_id)
        if broker is None or request.broker_epoch < broker.broker_epoch:
            return ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)

        async def apply() -> None:
            self.state.shutting_down.add(broker_id)
            shared = [p for p, r in self.state.replicas.items() if broker_id in r and len(r) > 1]
            led = [p for p in shared if self.state.states[p].leader == broker_id]
            await self._write({p: elected for p in led if (elected := self.state.elect(p)) is not None})
            followed = [p for p in shared if self.state.states[p].leader != broker_id]
            await self._remove_from_isr(broker_id, followed)
            self._send_stop_replica(broker_id, followed)

        await self.run(apply)
        remaining = [
            RemainingPartition(*p) for p, state in self.state.states.items() if state.leader == broker_id
        ]
        return ControlledShutdownResponse(ErrorCode.NONE, remaining)

    async def _allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, version: int
    ) -> AllocateProducerIdsResponse:
        broker = self.state.brokers.get(request.broker_id)
        if broker is None or broker.broker_epoch != request.broker_epoch:
            return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        first = self._next_producer_id
        self._next_producer_id += PRODUCER_ID_BLOCK
        return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK)

    def _send_stop_replica(
        self, broker_id: int, partitions: Sequence[TopicPartition], *, delete: bool = False
    ) -> None:
        if not partitions or broker_id not in self._channels:
            return
        request = stop_replica_request(self.state, broker_id, partitions, delete=delete)
        self._channels[broker_id].send(STOP_REPLICA, request)


def _stored(state: PartitionState) -> LeaderIsrAndControllerEpoch:
    return LeaderIsrAndControllerEpoch(state.leader, state.leader_epoch, state.isr, state.controller_epoch)
