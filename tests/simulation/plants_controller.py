# ruff: noqa: E501 - lines of code are as long as they are
"""Known mistakes of the controller, each planted as one change, that a simulation under it must find."""

from __future__ import annotations

from typing import Final

from tests.simulation.plants import Edit, SimulationPlant

CONTROLLER: Final = "odradek/controller"
MACHINE: Final = "odradek/controller/machine"

CONTROLLER_PLANTS: Final = [
    SimulationPlant(
        "write partition states without a fence",
        f"{CONTROLLER}/store_actions.py",
        "outcomes |= await write_partition_states(self._store, changed_states, self._fence)",
        "outcomes |= await write_partition_states(self._store, changed_states, None)",
    ),
    SimulationPlant(
        "keep the leader epoch when a broker bounces",
        f"{MACHINE}/broker_changes.py",
        "        yield from _fail_brokers(context, bounced)\n",
        "",
    ),
    SimulationPlant(
        "elect outside the ISR after a failure",
        f"{MACHINE}/leader_election.py",
        "    live_isr = tuple(replica for replica in leader_and_isr.isr if replica in live)\n",
        "    live_isr = tuple(replica for replica in replicas if replica in live)\n",
    ),
    SimulationPlant(
        "elect a preferred leader that is not in sync",
        f"{MACHINE}/leader_election.py",
        "if replica in live and replica in isr), None)",
        "if replica in live), None)",
    ),
    SimulationPlant(
        "remove a replica from the ISR without a new leader epoch",
        f"{MACHINE}/leader_election.py",
        "    return _with(leader_and_isr, leader, isr, controller_epoch)\n",
        "    return replace(leader_and_isr, leader=leader, isr=isr, controller_epoch=controller_epoch)\n",
    ),
    SimulationPlant(
        "drop the last replica from the ISR",
        f"{MACHINE}/leader_election.py",
        "if member != replica) or leader_and_isr.isr\n",
        "if member != replica)\n",
    ),
    SimulationPlant(
        "forget deletions after a failover",
        f"{MACHINE}/startup.py",
        "    yield from topic_deletion.resume_deletions(context, frozenset(context.deletions.queued))\n",
        "",
    ),
    SimulationPlant(
        "forget reassignments after a failover",
        f"{MACHINE}/startup.py",
        "    yield from initialize_reassignments(context)\n",
        "",
    ),
    SimulationPlant(
        "elect nobody after a failover",
        f"{MACHINE}/startup.py",
        "    yield from trigger_online_state_change(context)\n",
        "",
    ),
    SimulationPlant(
        "keep dead replicas in the ISR after a failover",
        f"{MACHINE}/startup.py",
        "    yield from handle_replica_state_changes(context, offline, ReplicaState.OFFLINE, failed_in)\n",
        "",
    ),
    SimulationPlant(
        "send LeaderAndIsr before UpdateMetadata",
        f"{MACHINE}/broker_changes.py",
        "    yield from send_update_metadata(context, broker_ids, led)\n",
        "",
        (
            Edit(
                f"{MACHINE}/startup.py",
                "    yield from send_update_metadata(context, context.brokers)\n",
                "",
            ),
        ),
    ),
    SimulationPlant(
        "drop a request whose connection broke",
        f"{CONTROLLER}/channels.py",
        "                is_logged = True\n            await self._sleep_ms(RETRY_MS)\n",
        "                return ControlResult(0, {})\n",
    ),
    SimulationPlant(
        "keep the queue of a former broker epoch",
        f"{CONTROLLER}/channels.py",
        "            if broker is None or broker.broker_epoch != queue.broker.broker_epoch:\n",
        "            if broker is None:\n",
    ),
    SimulationPlant(
        "complete a reassignment before its target is in sync",
        f"{MACHINE}/reassignment.py",
        "    return set(target) <= set(stored.leader_and_isr.isr) and any(\n",
        "    return any(\n",
    ),
    SimulationPlant(
        "start a reassignment without a new leader epoch",
        f"{MACHINE}/reassignment.py",
        "    else:\n        yield from _bump_leader_epoch(context, partition)\n        for replica in",
        "    else:\n        for replica in",
    ),
    SimulationPlant(
        "never complete a reassignment after an ISR change",
        f"{MACHINE}/alter_partition.py",
        "        if not isinstance(result, ErrorCode):\n            yield from maybe_complete_reassignment(context, partition)\n",
        "        pass\n",
    ),
    SimulationPlant(
        "leave a finished reassignment in the topic's znode",
        f"{MACHINE}/reassignment.py",
        "    yield from _write_assignment(context, partition, completed)\n",
        "",
    ),
    SimulationPlant(
        "send a restarted broker its former leader epoch after a failover",
        f"{MACHINE}/startup.py",
        "    restarted = restarted_replicas(context, event.zxids)\n",
        "    restarted = {}\n",
    ),
    SimulationPlant(
        "keep removed replicas in the ISR when a reassignment completes",
        f"{MACHINE}/leader_election.py",
        "    isr = tuple(replica for replica in leader_and_isr.isr if replica in target)\n",
        "    isr = leader_and_isr.isr\n",
    ),
    SimulationPlant(
        "drop a topic from metadata while it is reassigned",
        f"{MACHINE}/context.py",
        "        return topic in self.deletions.queued and not self.is_reassigning(topic)\n",
        "        return topic in self.deletions.queued\n",
    ),
    SimulationPlant(
        "remove a topic before all its replicas are deleted",
        f"{MACHINE}/topic_deletion.py",
        "        if states <= {ReplicaState.DELETION_SUCCESSFUL}:\n",
        "        if ReplicaState.DELETION_SUCCESSFUL in states:\n",
    ),
    SimulationPlant(
        "forget deletions that waited for a broker",
        f"{MACHINE}/broker_changes.py",
        "    yield from topic_deletion.resume_deletions_for(context, {replica.partition.topic for replica in replicas})\n",
        "",
    ),
    SimulationPlant(
        "store an ISR change of a former leader epoch",
        f"{MACHINE}/alter_partition.py",
        "        return ErrorCode.FENCED_LEADER_EPOCH\n",
        "        pass\n",
        (
            Edit(
                f"{MACHINE}/alter_partition.py",
                "        return ErrorCode.INVALID_UPDATE_VERSION\n",
                "        pass\n",
            ),
        ),
    ),
    SimulationPlant(
        "do not read a conflict again",
        f"{MACHINE}/partition_state_updates.py",
        "    conflicts = yield from read_again(context, outcome.conflicts)\n",
        "    conflicts: list[TopicPartition] = []\n",
    ),
    SimulationPlant(
        "tell only the replicas of an election",
        f"{MACHINE}/request_batch.py",
        "        self._is_metadata_for_all = True\n",
        "",
    ),
    SimulationPlant(
        "watch /controller only once",
        "odradek/broker/membership.py",
        "        await store.watch_exists(znode_paths.CONTROLLER, self._on_controller_changed)\n",
        "        if self.controller is None:\n            await store.exists(znode_paths.CONTROLLER)\n",
    ),
    SimulationPlant(
        "go on after /controller was deleted",
        "odradek/broker/membership.py",
        '            self._dismiss("/controller was deleted")\n',
        "            pass\n",
        (
            Edit(
                "odradek/broker/membership.py",
                "            if await is_elected(store, self._broker_id):\n                return\n",
                "            return\n",
            ),
        ),
    ),
    SimulationPlant(
        "take an election without a response for lost",
        "odradek/store/controller_election.py",
        "            return await _fence_if_elected(store, stat)\n",
        "            return None\n",
    ),
]
