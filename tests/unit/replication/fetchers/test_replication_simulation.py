"""Three replicas under random appends, elections (also unclean ones), crashes and power losses.

Whatever happens, the replicas end with the log of the last leader, batch by batch, and its leader epochs.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.unit.replication.fetchers.scripted_leader import (
    ORDERS,
    TOPIC_IDS,
    LogHost,
    OldMetadataVersion,
    ScriptedLeader,
    ScriptedRequests,
    append,
    settings,
)

from odradek.log.leader_epoch_cache import EpochEntry
from odradek.log.log import Log
from odradek.ports.files import FileSlice
from odradek.records.codec import read_headers
from odradek.replication.fetchers.fetcher_manager import ReplicaFetcherManager
from odradek.replication.follower import Follower
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.entropy import SeededEntropy

BROKERS = (1, 2, 3)
STEPS = 40
CONFIG: dict[str, Any] = {"segment_bytes": 600, "index_interval_bytes": 100}


class Replica:
    """A broker with one replica of one partition."""

    def __init__(self, broker_id: int, cluster: Cluster) -> None:
        self.broker_id = broker_id
        self.cluster = cluster
        self.host = LogHost()
        self.log = self.host.create(**CONFIG)
        self.leader = ScriptedLeader(cluster.clock)
        self.follower: Follower | None = None
        self.checkpoint = (0, 0, 0)
        """Checkpointed recovery point, log start offset and high watermark; may be old."""
        self.largest = (0, 0)
        self.manager: ReplicaFetcherManager

    def start(self) -> None:
        self.manager = ReplicaFetcherManager(
            ScriptedRequests(self.cluster.leaders),
            lambda: self.cluster.settings._replace(broker_id=self.broker_id),
            self.cluster.clock,
            SeededEntropy(self.broker_id),
            lambda _: self.check_high_watermark(),
            self.cluster.on_failure,
        )

    def become_leader(self, epoch: int) -> None:
        self.stop_following()
        self.leader.lead(self.log, epoch)

    def become_follower(self, leader_id: int, epoch: int) -> None:
        self.stop_following()
        self.leader.logs.clear()
        self.follower = Follower(ORDERS, self.log, leader_id, epoch)
        self.largest = (epoch, 0)
        self.manager.add_partitions({ORDERS: self.follower}, TOPIC_IDS)

    def stop_following(self) -> None:
        self.manager.remove_partitions([ORDERS])
        if self.follower is not None:
            self.follower.is_active = False
        self.follower = None

    def check_high_watermark(self) -> None:
        assert self.log.high_watermark <= self.log.log_end_offset
        assert self.log.log_start_offset <= self.log.high_watermark

    async def crash(self, seed: int, *, power_is_lost: bool) -> None:
        self.stop_following()
        self.leader.logs.clear()
        await self.manager.close()
        if power_is_lost:
            self.host.files.crash(SeededEntropy(seed))
        recovery_point, log_start_offset, high_watermark = self.checkpoint
        self.log = self.host.reopen(
            self.log, recovery_point=recovery_point, log_start_offset=log_start_offset
        )
        if recovery_point > self.log.log_end_offset:
            self.checkpoint = (self.log.log_end_offset, log_start_offset, high_watermark)
        self.log.high_watermark = max(min(high_watermark, self.log.log_end_offset), self.log.log_start_offset)
        check_epochs(self.log)
        self.start()


class Cluster:
    def __init__(self, seed: int, metadata_version: Any) -> None:
        self.random = random.Random(seed)
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.settings = settings(backoff_ms=100, wait_max_ms=50, partition_bytes_max=250)
        if metadata_version is not None:
            self.settings = self.settings._replace(metadata_version=metadata_version)
        self.failures: list[Exception] = []
        self.replicas = {number: Replica(number, self) for number in BROKERS}
        self.leaders = {number: replica.leader for number, replica in self.replicas.items()}
        self.epoch = 0
        self.leader_id = 1
        for replica in self.replicas.values():
            replica.start()

    def on_failure(self, partition: Any, error: Exception) -> None:
        self.failures.append(error)

    @property
    def leader(self) -> Replica:
        return self.replicas[self.leader_id]

    def elect(self, leader_id: int) -> None:
        """Elect any replica; the others learn it at once, or are told twice."""
        self.epoch += self.random.choice([1, 1, 2])
        self.leader_id = leader_id
        self.leader.become_leader(self.epoch)
        for replica in self.replicas.values():
            if replica is not self.leader:
                replica.become_follower(leader_id, self.epoch)

    def commit(self) -> None:
        """Advance the high watermark if all followers have fetched in this epoch."""
        ends = [self.leader.log.log_end_offset]
        for replica in self.replicas.values():
            if replica is not self.leader:
                for fetcher in replica.manager._fetchers.values():
                    partition = fetcher.partitions.get(ORDERS)
                    if partition is None or partition.state.lag is None:
                        return
                ends.append(replica.log.log_end_offset)
        self.leader.log.high_watermark = max(self.leader.log.high_watermark, min(ends))

    async def step(self) -> None:
        any_replica = self.replicas[self.random.choice(BROKERS)]
        log = any_replica.log
        match self.random.randrange(12):
            case 0 | 1 | 2 | 3:
                for _ in range(self.random.randrange(1, 5)):
                    append(self.leader.log, self.epoch, self.random.randrange(1, 5), b"%d" % self.epoch)
            case 4 | 5:
                self.elect(self.random.choice(BROKERS))
            case 6:
                power_is_lost = self.random.random() < 0.6
                await any_replica.crash(self.random.randrange(1000), power_is_lost=power_is_lost)
                if any_replica is self.leader or self.random.random() < 0.3:
                    self.elect(self.random.choice(BROKERS))
                else:
                    any_replica.become_follower(self.leader_id, self.epoch)
            case 7:
                self.commit()
                leader = self.leader.log
                if self.random.random() < 0.4:
                    leader.advance_log_start_offset(
                        self.random.randint(leader.log_start_offset, leader.high_watermark)
                    )
            case 8:
                log.roll(0)
            case 9:
                await log.flush()
            case 10:
                any_replica.checkpoint = (log.recovery_point, log.log_start_offset, log.high_watermark)
            case _:
                self.commit()
        await self.clock.sleep_ms(self.random.choice([0, 0, 1, 20, 60, 300]))

    async def settle(self) -> None:
        self.elect(self.random.choice(BROKERS))
        append(self.leader.log, self.epoch)
        end_ms = self.clock.monotonic_ms() + 60_000
        others = [replica for replica in self.replicas.values() if replica is not self.leader]
        end = self.leader.log.log_end_offset
        expected = (end, self.epoch, end)
        while any(
            (log.log_end_offset, log.epochs.latest, log.high_watermark) != expected
            for log in (replica.log for replica in others)
        ):
            assert self.clock.monotonic_ms() < end_ms, "the replicas do not converge"
            self.commit()
            await self.clock.sleep_ms(20)

    def check(self) -> None:
        expected = self.leader.log
        for replica in self.replicas.values():
            log = replica.log
            start = max(log.log_start_offset, expected.log_start_offset)
            assert batches_from(log, start) == batches_from(expected, start), replica.broker_id
            assert epochs_after(log, expected, start) == epochs_after(expected, log, start)
            check_epochs(log)
        assert not self.failures


def batches_from(log: Log, offset: int) -> list[bytes]:
    batches = []
    while offset < log.log_end_offset:
        data = log.read(offset, 1).data
        if not isinstance(data, FileSlice):
            break
        batch = data.read()
        batches.append(batch)
        offset = read_headers(batch)[0].next_offset
    return batches


def epochs_after(log: Log, other: Log, offset: int) -> list[EpochEntry]:
    """Return the leader epochs of a log after an offset, as far as the other log has not removed them."""
    start = max(
        [offset, *(entry.start_offset for entry in (*log.epochs.entries[:1], *other.epochs.entries[:1]))]
    )
    return [entry for entry in log.epochs.entries if entry.start_offset > start]


def check_epochs(log: Log) -> None:
    """Check that the leader epochs are those of the batches.

    Epochs before a log start offset are removed at once; the offset itself may go back in a crash.
    """
    known_from = log.epochs.entries[0].start_offset if log.epochs.entries else 0
    for segment in log.segments:
        for header in segment.headers():
            if header.base_offset >= max(log.log_start_offset, known_from):
                assert log.epochs.epoch_of(header.base_offset) == header.leader_epoch, header


def simulate(seed: int, metadata_version: Any = None) -> None:
    async def main() -> None:
        cluster = Cluster(seed, metadata_version)
        try:
            cluster.elect(1)
            for _ in range(STEPS):
                await cluster.step()
            await cluster.settle()
            cluster.check()
        finally:
            for replica in cluster.replicas.values():
                await replica.manager.close()

    run_virtually(main)


@pytest.mark.parametrize("seed", range(40))
def test_replicas_converge(seed: int) -> None:
    simulate(seed)


@pytest.mark.parametrize("seed", range(100, 120))
def test_replicas_converge_with_the_ends_of_epochs(seed: int) -> None:
    simulate(seed, OldMetadataVersion())
