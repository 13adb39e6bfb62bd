"""A simulated cluster whose brokers elect a controller among themselves, over links to the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.model.ids import TopicPartition
from odradek.replication.partition import Partition
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch, ReplicaAssignment, decode_controller
from odradek.store.port import BadPayload
from odradek.testing.clock import Process
from odradek.testing.cluster import BrokerSessions, ClusterOfBrokers, SimulatedBroker
from odradek.testing.entropy import SeededEntropy
from odradek.testing.invariants import InvariantChecker, UncleanChecker
from odradek.testing.own_controller.store_links import LinkedSessions, StoreLink
from odradek.testing.own_controller.store_observer import ObservedEnsemble, StoreObserver

SESSION_TIMEOUT_S: Final = 6.0


class OwnControllerCluster(ClusterOfBrokers):
    """Brokers of which one is the controller. ``store`` is a session of the test."""

    ensemble: ObservedEnsemble

    def _make_ensemble(self, entropy: SeededEntropy) -> ObservedEnsemble:
        return ObservedEnsemble(self.clock, entropy)

    def _prepare(self) -> None:
        self.links: dict[str, StoreLink] = {}
        self.observer = StoreObserver(self.report, self._has_proposed)
        self.ensemble.on_write = self.observer.on_write
        self.store = self.ensemble.connect()
        self._keys: dict[Partition, TopicPartition] = {}

    def _make_checker(self) -> InvariantChecker:
        is_unclean = self.settings.get("unclean.leader.election.enable") == "true"
        return (UncleanChecker if is_unclean else InvariantChecker)(
            self.current_incarnations, self.observer.states_by_key.get, self._copies_min, self.key_of
        )

    def _stored_version(self) -> object:
        return self.observer.change_count

    def make_sessions(self, host: str, process: Process) -> BrokerSessions:
        link = self.links.setdefault(host, StoreLink())
        return LinkedSessions(self.ensemble, process, link, SESSION_TIMEOUT_S)

    # Partitions.

    def key_of(self, partition: Partition) -> TopicPartition:
        key = self._keys.get(partition)
        if key is None:
            key = self.observer.key(*partition.topic_partition, partition.topic_id)
            self._keys[partition] = key
        return key

    def _copies_min(self, key: TopicPartition) -> int:
        topic = self.observer.topics.get(key.topic.rpartition("#")[0])
        assignment = None if topic is None else topic.partitions.get(key.partition)
        # Replicas that are being added do not count before the leader knows them.
        count = 1 if assignment is None else len(assignment.replicas) - len(assignment.adding)
        return min(self._min_isr, count)

    def _has_proposed(self, partition: TopicPartition, state: LeaderIsrAndControllerEpoch) -> bool:
        """Return False if the leader runs, in the same leader epoch, and has no ISR change pending."""
        broker = self.brokers.get(state.leader)
        replicas = None if broker is None else broker.replicas
        replica = None if replicas is None else replicas.get_partition(*partition)
        leader = None if replica is None else replica.leader_state
        return (
            leader is None
            or replica is None
            or replica.leader_epoch != state.leader_epoch
            or (leader.is_isr_change_pending)
        )

    def assignments(self) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the stored assignments of all partitions."""
        return {
            TopicPartition(topic, number): assignment
            for topic, stored in sorted(self.observer.topics.items())
            for number, assignment in sorted(stored.partitions.items())
        }

    # The controller.

    def controller_id(self) -> int | None:
        """Return the broker that ``/controller`` names."""
        node = self.ensemble.tree.nodes.get(znode_paths.CONTROLLER)
        try:
            return None if node is None else decode_controller(znode_paths.CONTROLLER, node[0]).broker_id
        except BadPayload:
            return None

    def controller(self) -> SimulatedBroker | None:
        """Return the broker that is the controller, if it runs."""
        controller_id = self.controller_id()
        broker = None if controller_id is None else self.brokers.get(controller_id)
        return broker if broker is not None and broker.is_running else None
