# ruff: noqa: E501 - lines of code are as long as they are
"""Known mistakes of replication, each planted as one change, that a simulation must find.

``before`` occurs once in the module and becomes ``after``. Where two checks guard the same thing, a plant
removes both: without one of them nothing can go wrong.
"""

from __future__ import annotations

from typing import Final, NamedTuple

REPLICATION: Final = "odradek/replication"


class Edit(NamedTuple):
    path: str
    before: str
    after: str


class SimulationPlant(NamedTuple):
    mistake: str
    path: str
    before: str
    after: str
    also: tuple[Edit, ...] = ()

    @property
    def edits(self) -> tuple[Edit, ...]:
        return (Edit(self.path, self.before, self.after), *self.also)


PLANTS: Final = [
    SimulationPlant(
        "truncate to the high watermark when becoming follower",
        f"{REPLICATION}/partition.py",
        "            follower = Follower(self.topic_partition, self.log, state.leader, state.leader_epoch)\n",
        "            self.log.truncate_to(self.log.high_watermark, 0)\n            follower = Follower(self.topic_partition, self.log, state.leader, state.leader_epoch)\n",
    ),
    SimulationPlant(
        "do not truncate what the leader does not have",
        f"{REPLICATION}/fetchers/truncation.py",
        "    return OffsetTruncation(min(own.end_offset, leader.end_offset, local.log_end_offset), is_complete=True)\n",
        "    return OffsetTruncation(local.log_end_offset, is_complete=True)\n",
    ),
    SimulationPlant(
        "withdraw an ISR change that the controller may have made",
        f"{REPLICATION}/leader.py",
        "        if result.error in _REJECTED:\n",
        "        if result.error:\n",
    ),
    SimulationPlant(
        "count the committed ISR instead of the maximal one",
        f"{REPLICATION}/leader.py",
        "broker_id in self.maximal_isr or",
        "broker_id in self.isr or",
    ),
    SimulationPlant(
        "count a proposed removal before it is confirmed",
        f"{REPLICATION}/leader.py",
        "        self.maximal_isr = self.isr + tuple(broker_id for broker_id in isr if broker_id not in self.isr)\n",
        "        self.maximal_isr = isr\n",
    ),
    SimulationPlant(
        "let a follower join before it has reached the start of the epoch",
        f"{REPLICATION}/leader.py",
        "max(high_watermark, self.leader_epoch_start_offset)",
        "high_watermark",
    ),
    SimulationPlant(
        "let a follower join before it has reached the high watermark",
        f"{REPLICATION}/leader.py",
        "max(high_watermark, self.leader_epoch_start_offset)",
        "0",
    ),
    SimulationPlant(
        "acknowledge before the high watermark",
        f"{REPLICATION}/acks.py",
        "    if high_watermark < required_offset:\n        return None\n",
        "",
    ),
    SimulationPlant(
        "acknowledge although another broker became leader meanwhile",
        f"{REPLICATION}/partition.py",
        "        if leader is None or leader is not appended_by:\n            return self._not_leader_error()\n",
        "        if leader is None:\n            return ErrorCode.NONE\n",
    ),
    SimulationPlant(
        "serve fetches of another leader epoch",
        f"{REPLICATION}/leader_epochs.py",
        "    if current_leader_epoch == NO_LEADER_EPOCH:\n        return\n    if current_leader_epoch < leader_epoch:\n",
        "    return\n    if current_leader_epoch < leader_epoch:\n",
    ),
    SimulationPlant(
        "keep follower offsets of an earlier leadership",
        f"{REPLICATION}/leader.py",
        "        self.log_end_offset = self.log_start_offset = self.last_fetch_leader_end_offset = UNKNOWN_OFFSET\n        self.last_fetch_ms = NEVER_MS\n",
        "        self.log_end_offset = 1 << 62\n",
    ),
    SimulationPlant(
        "accept an outdated LeaderAndIsr",
        f"{REPLICATION}/control_requests.py",
        "    if state.leader_epoch > current_epoch:\n",
        "    if True:\n",
    ),
    SimulationPlant(
        "accept requests of a former controller",
        f"{REPLICATION}/state_changes.py",
        "        if controller_epoch < self.controller_epoch:\n",
        "        if False:\n",
    ),
    SimulationPlant(
        "accept requests for an earlier registration",
        "odradek/broker/requests/broker_epoch.py",
        "    return requested != UNKNOWN_BROKER_EPOCH and requested < current\n",
        "    return False\n",
    ),
    SimulationPlant(
        "follower passes on a high watermark beyond its log",
        f"{REPLICATION}/follower.py",
        "        high_watermark = min(leader_high_watermark, log.log_end_offset)\n",
        "        high_watermark = leader_high_watermark\n",
    ),
    SimulationPlant(
        "append the response to a fetch of an earlier epoch",
        f"{REPLICATION}/follower.py",
        "        if not self.is_active:\n",
        "        if False:\n",
        (
            Edit(
                f"{REPLICATION}/fetchers/fetcher.py",
                "        return self.partitions.get(partition.topic_partition) is partition and partition.follower.is_active\n",
                "        return True\n",
            ),
            Edit(
                f"{REPLICATION}/fetchers/fetcher.py",
                "            if not partition.is_in_session or not partition.follower.is_active:\n",
                "            if False:\n",
            ),
        ),
    ),
    SimulationPlant(
        "acknowledge follower appends before they are flushed",
        f"{REPLICATION}/follower.py",
        "        return self.log.is_flush_due\n",
        "        return False\n",
    ),
    SimulationPlant(
        "no start offset for a new leader epoch",
        f"{REPLICATION}/partition.py",
        "            self.log.assign_leader_epoch(state.leader_epoch)\n",
        "            pass\n",
    ),
    SimulationPlant(
        "serve a follower whose log diverges",
        f"{REPLICATION}/leader_epochs.py",
        "    if epoch < last_fetched_epoch or end_offset < fetch_offset:\n        return epoch, end_offset\n    return None\n",
        "    return None\n",
    ),
    SimulationPlant(
        "commit with fewer replicas than min.insync.replicas",
        f"{REPLICATION}/leader.py",
        "        return len(self.isr) < effective_min_isr(min_isr, self.replica_count)\n",
        "        return False\n",
    ),
    SimulationPlant(
        "keep the leader epochs of truncated records",
        "odradek/log/leader_epoch_cache.py",
        "        keep = bisect_left(self._entries, end_offset, key=_start_of)\n",
        "        keep = len(self._entries)\n",
    ),
    SimulationPlant(
        "never shrink the ISR",
        f"{REPLICATION}/leader.py",
        "        return None if len(in_sync) == len(self.isr) else in_sync\n",
        "        return None\n",
    ),
    SimulationPlant(
        "a diverging fetch counts as progress",
        "odradek/broker/handlers/fetch.py",
        "                if result.diverging_epoch < 0:\n",
        "                if True:\n",
    ),
    SimulationPlant(
        "keep follower offsets over an epoch that the leader missed",
        f"{REPLICATION}/leader.py",
        "        stayed_leader = NO_LEADER_EPOCH != self.leader_epoch == leader_epoch - 1\n",
        "        stayed_leader = self.leader_epoch != NO_LEADER_EPOCH\n",
    ),
    SimulationPlant(
        "truncate to the leader's end of an epoch that the follower does not know",
        f"{REPLICATION}/fetchers/truncation.py",
        "        return OffsetTruncation(min(own.end_offset, local.log_end_offset), is_complete=False)\n",
        "        return OffsetTruncation(min(leader.end_offset, local.log_end_offset), is_complete=True)\n",
    ),
    SimulationPlant(
        "take over the high watermark of a leader that lags behind",
        f"{REPLICATION}/follower.py",
        "        log.high_watermark = max(log.high_watermark, high_watermark)\n",
        "        log.high_watermark = high_watermark\n",
    ),
    SimulationPlant(
        "show consumers what is not committed",
        f"{REPLICATION}/partition.py",
        "        end_offset = stable if is_committed else high_watermark\n",
        "        end_offset = stable if is_committed else log.log_end_offset\n",
    ),
    SimulationPlant(
        "register again under the broker epoch of before",
        "odradek/broker/membership.py",
        "        self.broker_epoch = await register_broker(store, self._broker_id, registration, former_session_ids)\n",
        "        epoch = await register_broker(store, self._broker_id, registration, former_session_ids)\n        if self.broker_epoch == NO_EPOCH:\n            self.broker_epoch = epoch\n",
    ),
]
