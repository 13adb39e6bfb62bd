"""A workload in which a broker of each kind has each role, and a chosen broker is the controller."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from kio.schema.find_coordinator.v2 import request as find_coordinator
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.harness.run_choice import KAFKA, OURS, others_than
from tests.mixed.roles.role_matrix import Cell, Operation, Role
from tests.mixed.workload.workload import Workload
from tests.support.raw_connection import RawConnection

GROUP, TRANSACTION = 0, 1
ACTORS: Final = (OURS, KAFKA)
"""The brokers whose roles are checked, one of each kind."""


class Stage:
    def __init__(self, cluster: MixedCluster, workload: Workload, controller: int) -> None:
        self.cluster = cluster
        self.workload = workload
        self.controller = controller

    def cells(self, *operations: Operation, brokers: Collection[int] = ACTORS) -> Iterator[Cell]:
        """Yield cells of operations with these brokers, each in all roles that it has."""
        for broker in brokers:
            for role in Role:
                if role is not Role.CONTROLLER or broker == self.controller:
                    for operation in operations:
                        yield Cell(role, self.cluster.specs[broker].kind, operation)

    def check_roles(self) -> None:
        """Check that a broker of each kind leads, follows and coordinates, and who the controller is."""
        assert self.cluster.znodes.controller() == self.controller
        for broker in ACTORS:
            assert self.roles(broker) == set(Role) - (
                {Role.CONTROLLER} if broker != self.controller else set()
            )

    def leaders(self) -> set[int]:
        """Return the leaders of the records."""
        return {self._state(partition)["leader"] for partition in range(3)}

    def check_without_roles(self, broker: int) -> None:
        """Check that other brokers have taken over all roles."""
        assert self.roles(broker) == set()
        assert self.leaders() <= set(others_than(broker))

    def roles(self, broker: int) -> set[Role]:
        """Return the roles of a broker; its partition of the records is the one with its id."""
        roles = self._controller_role(broker)
        if self._state(broker)["leader"] == broker:
            roles.add(Role.LEADER)
        followed = [self._state(other) for other in others_than(broker)]
        if any(broker in state["isr"] and state["leader"] != broker for state in followed):
            roles.add(Role.FOLLOWER)
        if broker in {self._coordinator(reader.group, GROUP) for reader in self.workload.readers}:
            roles.add(Role.GROUP_COORDINATOR)
        producers = self.workload.transactions
        if broker in {self._coordinator(each.transactional_id, TRANSACTION) for each in producers}:
            roles.add(Role.TRANSACTION_COORDINATOR)
        return roles

    def _controller_role(self, broker: int) -> set[Role]:
        return {Role.CONTROLLER} if self.cluster.znodes.controller() == broker else set()

    def _state(self, partition: int) -> dict[str, Any]:
        return self.cluster.znodes.partition_state(self.workload.records, partition)

    def _coordinator(self, key: str, key_type: int) -> int:
        """Return the coordinator of a group or transactional id, as a running broker tells clients."""
        message = find_coordinator.FindCoordinatorRequest(
            key=key,
            key_type=key_type,  # type: ignore[arg-type]
        )
        with RawConnection(self.cluster.address(self.cluster.running[0])) as connection:
            response = connection.exchange(message)
        assert not int(response.error_code), f"the coordinator of {key} must be known, got {response}"
        return int(response.node_id)
