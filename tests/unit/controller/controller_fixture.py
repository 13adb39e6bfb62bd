"""A controller on an embedded store, with a channel that records its requests."""

import asyncio
from typing import Any

from odradek.cluster.metadata_update import LEADER_DURING_DELETE
from odradek.controller.actions import (
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from odradek.controller.channels import BrokerRequest
from odradek.controller.controller import Controller, ControllerOptions
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.control_requests import ControlResult
from odradek.store.broker_registration import register_broker
from odradek.store.controller_election import elect
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    BrokerRegistration,
    RegisteredEndpoint,
    ReplicaAssignment,
    TopicAssignment,
)
from odradek.testing.entropy import SeededEntropy

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = b"o" * 16


class Channel:
    """Records the requests to brokers."""

    def __init__(self):
        self.partition_states = {}
        self.metadata_updates = []
        self.deleted_topics = set()
        self.stopped = []

    async def send(self, request: BrokerRequest) -> ControlResult:
        match request:
            case SendLeaderAndIsr():
                self.partition_states.update(request.partition_states)
            case SendUpdateMetadata():
                self.metadata_updates.append(request)
                states = request.partition_states.items()
                self.deleted_topics |= {
                    p.topic for p, state in states if state.leader == LEADER_DURING_DELETE
                }
            case SendStopReplica():
                self.stopped += [p for p, state in request.partitions.items() if state.is_delete]
                return ControlResult(ErrorCode.NONE, dict.fromkeys(request.partitions, ErrorCode.NONE))
        return ControlResult(ErrorCode.NONE, {})

    async def close(self) -> None:
        """Do nothing."""


def assignment(partitions=1, replicas=(1,)):
    return TopicAssignment(TOPIC_ID, {number: ReplicaAssignment(replicas) for number in range(partitions)})


def registration(port=9092):
    return BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "h", port),), 0)


class ControllerFixture:
    def __init__(self, ensemble, clock):
        self.ensemble = ensemble
        self.clock = clock
        self.store = ensemble.connect()
        self.channel = Channel()
        self.controller: Any = None
        self.fence: Any = None
        self.options = ControllerOptions()

    async def open(self):
        await self.store.ensure_path(znode_paths.BROKER_IDS)
        await register_broker(self.store, 1, registration())
        self.fence = await elect(self.store, 1, 0)
        assert self.fence is not None
        self.controller = self.make_controller(self.store)

    def make_controller(self, store):
        return Controller(
            store,
            self.fence,
            lambda _id, _broker: self.channel,
            self.clock,
            SeededEntropy(0),
            self.options,
        )

    async def start(self):
        await self.controller.start()
        await self.controller.settle()

    async def run_loop(self):
        for _ in range(200):
            await asyncio.sleep(0)
