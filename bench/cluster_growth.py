"""CPU of a cluster in memory, by its number of partitions: three brokers in this process, on virtual time.

``python -m bench.cluster_growth [PARTITIONS…]`` prints CPU seconds of creating all partitions (three
replicas), of an idle broker, of the failover of a dead broker, of its return and of a new controller, and
the slope from the smallest to the largest size (1: in proportion to the partitions). Sockets, disks and
ZooKeeper are not part of it, and other programs on the machine hardly affect it. ``PROFILE=idle`` (or another
column) prints the functions that take most of that phase at the last size.

Below are the requests of the controller to one other broker during the failover of a dead one: their number,
and KB of their bodies.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import logging
import math
import os
import pstats
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from odradek.broker.inter_broker.controller_channel import RemoteControllerChannel
from odradek.broker.topics.topic_planning import NewTopic
from odradek.system.process import collect_garbage_less_often
from odradek.testing.clock import run_virtually
from odradek.testing.own_controller.cluster import OwnControllerCluster
from odradek.wire.message_codecs import encoder

SIZES = (10, 100, 1_000, 10_000)
TOPIC_PARTITIONS_MAX = 100
SETTLE_SECONDS = 40.0  # the first run of retention loads timestamps, 30 seconds after the start
IDLE_SECONDS = 20.0
SETTLED_SECONDS = 1.0  # after the elections the dead broker is removed from the other ISRs
WAIT_SECONDS_MAX = 600.0
FUNCTIONS_SHOWN = 30
CREATE_TIMEOUT_MS = 300_000
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": "6000",
}
PHASES = ("create", "idle", "failover", "return", "controller")
REQUESTS = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")


class RequestSizes:
    """Records the sizes of the controller's requests to other brokers."""

    def __init__(self) -> None:
        self.sizes: dict[str, list[int]] = {name: [] for name in REQUESTS}

    @contextmanager
    def recording(self) -> Iterator[None]:
        send = RemoteControllerChannel._send

        def record(channel: RemoteControllerChannel, message: Any, version: int) -> Awaitable[Any]:
            kind: type = type(message)
            self.sizes[kind.__name__.removesuffix("Request")].append(len(encoder(kind, version)(message)))
            return send(channel, message, version)

        RemoteControllerChannel._send = record  # type: ignore[assignment,method-assign]
        try:
            yield
        finally:
            RemoteControllerChannel._send = send  # type: ignore[method-assign]


class Growth:
    """Measures the phases of one cluster."""

    def __init__(self, partition_count: int, profiled: str) -> None:
        self._count = partition_count
        self._profiled = profiled
        self.cpu_seconds: dict[str, float] = {}
        self.failover_requests = RequestSizes()

    async def run(self) -> None:
        cluster = OwnControllerCluster(1, settings=SETTINGS, delay_max_ms=1)
        await cluster.start()
        asyncio.get_running_loop().after_turn = None  # type: ignore[attr-defined]
        cluster.ensemble.on_write = lambda *_: None
        self._cluster = cluster
        await self._await(lambda: self._controller() is not None)
        with self._phase("create"):
            await self._create()
            await self._await(lambda: self._in_sync() == 3 * self._count)
        await asyncio.sleep(SETTLE_SECONDS)
        with self._phase("idle"):
            await asyncio.sleep(IDLE_SECONDS)
        self.cpu_seconds["idle"] /= IDLE_SECONDS * len(cluster.brokers)
        dead = next(b for b in cluster.brokers.values() if b.broker_id != self._controller())
        await dead.kill()
        with self.failover_requests.recording(), self._phase("failover"):
            await dead.expire_session()
            await self._await(lambda: self._led() == self._count)
            await asyncio.sleep(SETTLED_SECONDS)
        with self._phase("return"):
            await dead.start()
            await self._await(lambda: self._in_sync() == 3 * self._count)
        former = cluster.brokers[self._controller() or 0]
        await former.kill()
        with self._phase("controller"):
            await former.expire_session()
            await self._await(lambda: self._led() == self._count)
        await cluster.stop()

    async def _create(self) -> None:
        controller = self._cluster.brokers[self._controller() or 0]
        assert controller.broker is not None
        sizes = [
            min(TOPIC_PARTITIONS_MAX, self._count - first)
            for first in range(0, self._count, TOPIC_PARTITIONS_MAX)
        ]
        topics = [NewTopic(f"scale-{number}", size, 3) for number, size in enumerate(sizes)]
        admin = controller.broker._admin_manager
        await controller.process.run(admin.create_topics(topics, CREATE_TIMEOUT_MS, validate_only=False))

    # State of the cluster.

    def _controller(self) -> int | None:
        for broker in self._cluster.running():
            assert broker.broker is not None
            membership = broker.broker._membership
            if membership is not None and membership.controller is not None:
                return broker.broker_id
        return None

    def _led(self) -> int:
        return sum(
            partition.is_leader for broker in self._cluster.running() for partition in broker.replicas or ()
        )

    def _in_sync(self) -> int:
        return sum(
            len(partition.leader_state.isr)
            for broker in self._cluster.running()
            for partition in broker.replicas or ()
            if partition.leader_state is not None
        )

    async def _await(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            spent = time.process_time()
            if condition():
                return
            self._waiting_seconds += time.process_time() - spent
            assert time.monotonic() < deadline, "not reached"
            await asyncio.sleep(0.05)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        profile = cProfile.Profile() if name == self._profiled else None
        gc.collect()
        gc.freeze()  # as brokers do with their partitions
        self._waiting_seconds, began = 0.0, time.process_time()
        if profile is not None:
            profile.enable()
        yield
        if profile is not None:
            profile.disable()
            pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(FUNCTIONS_SHOWN)
        self.cpu_seconds[name] = time.process_time() - began - self._waiting_seconds

    _waiting_seconds = 0.0


def measure(partition_count: int, profiled: str = "") -> Growth:
    growth = Growth(partition_count, profiled)
    run_virtually(growth.run)
    return growth


def main(arguments: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    collect_garbage_less_often()
    sizes = [int(argument) for argument in arguments] or list(SIZES)
    print("CPU seconds; idle: per second and broker\npartitions " + "".join(f"{name:>12}" for name in PHASES))
    results = []
    for size in sizes:
        growth = measure(size, os.environ.get("PROFILE", "") if size == sizes[-1] else "")
        results.append(growth)
        print(f"{size:10,} " + "".join(f"{growth.cpu_seconds[name]:12.4f}" for name in PHASES), flush=True)
    if len(sizes) > 1:
        steps = math.log(sizes[-1] / sizes[0])
        first, last = results[0].cpu_seconds, results[-1].cpu_seconds
        print(
            "slope      " + "".join(f"{math.log(last[name] / first[name]) / steps:12.2f}" for name in PHASES)
        )
    print(
        "\nrequests of a failover to one broker: number, KB\npartitions "
        + "".join(f"{name:>18}" for name in REQUESTS)
    )
    for size, growth in zip(sizes, results, strict=True):
        columns = [growth.failover_requests.sizes[name] for name in REQUESTS]
        print(f"{size:10,} " + "".join(f"{len(column):8} {sum(column) / 1000:9.1f}" for column in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
