"""A group of many members, one connection each: join, heartbeats, one more rebalance.

All members join at once, as after a deployment, and follow the responses: a member without an id rejoins with
the one it got, the leader assigns, all send heartbeats and rejoin when a heartbeat requires it. The group is
stable once all members have synced in one generation.

Measured are the time to become stable, the cost of heartbeats of the stable group, and the time from a rejoin
of the leader until all have synced in the next generation, with all members notified at once (real clients
notice with their next heartbeat).
"""

from __future__ import annotations

import asyncio
import statistics
import struct
import time
from contextlib import suppress

from bench.loads.broker import group_frames as frames
from bench.loads.broker.exchange import RESPONSE_SECONDS_MAX
from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

RETRIABLE = (14, 15, 16)
REJOIN_WITHOUT_ID = (22, 25)
REBALANCING = 27
MEMBER_ID_REQUIRED = 79
SETTLE_SECONDS_MAX = 150.0
TOPIC = "members"


class Member:
    """A member and its connection; one request at a time."""

    def __init__(self, group: Group, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._group = group
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()
        self.name = ""
        self.generation = -1
        self.is_leader = False

    async def send_request(self, frame: bytes) -> bytes:
        async with self._turn:
            self._writer.write(frame)
            prefix = await self._reader.readexactly(4)
            return prefix + await self._reader.readexactly(struct.unpack(">i", prefix)[0])

    async def settle(self) -> None:
        """Join and sync until both succeed."""
        while True:
            response = frames.decode_join(
                await self.send_request(frames.join(self._group.name, self.name, TOPIC))
            )
            self.name = "" if response.error_code in REJOIN_WITHOUT_ID else response.member or self.name
            if response.error_code == 0 and await self._sync(response):
                return
            if response.error_code in RETRIABLE:
                await asyncio.sleep(0.05)
            elif response.error_code not in (0, *REJOIN_WITHOUT_ID, REBALANCING, MEMBER_ID_REQUIRED):
                raise ConnectionError(f"JoinGroup failed with error code {response.error_code}")

    async def _sync(self, response: frames.JoinResponse) -> bool:
        self.is_leader = response.leader == self.name
        request = frames.sync(self._group.name, response.generation, self.name, TOPIC, response.members)
        code = frames.error_code(await self.send_request(request))
        if code not in (0, *REJOIN_WITHOUT_ID, REBALANCING):
            raise ConnectionError(f"SyncGroup failed with error code {code}")
        if code == 0:
            self.generation = response.generation
            self._group.look()
        return code == 0

    async def beat(self) -> bool:
        """Send a heartbeat; return whether the group is stable."""
        code = frames.error_code(
            await self.send_request(frames.heartbeat(self._group.name, self.generation, self.name))
        )
        if code not in (0, *REJOIN_WITHOUT_ID, REBALANCING):
            raise ConnectionError(f"Heartbeat failed with error code {code}")
        self._group.beats += 1
        return code == 0

    async def live(self, interval: float, phase: float) -> None:
        """Run the member until the group ends; heartbeats of members are spread over the interval."""
        await self.settle()
        pause = phase * interval
        while not await self._group.ends_within(pause):
            pause = interval
            if not await self.beat():
                await self.settle()

    def close(self) -> None:
        self._writer.close()


class Group:
    """All members, and the time they last became stable."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: list[Member] = []
        self.beats = 0
        self.settled = asyncio.Event()
        self.settled_at = 0.0
        self.ending = asyncio.Event()

    def look(self) -> None:
        newest = self.members[0].generation
        if newest >= 0 and all(member.generation == newest for member in self.members):
            self.settled_at = time.perf_counter()
            self.settled.set()

    async def ends_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.ending.wait(), seconds)
        return self.ending.is_set()

    async def connect(self, port: int, count: int) -> None:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            self.members.append(Member(self, reader, writer))
        deadline = time.monotonic() + RESPONSE_SECONDS_MAX
        while code := frames.find_coordinator_error(
            await self.members[0].send_request(frames.find_coordinator(self.name))
        ):
            if code not in RETRIABLE or time.monotonic() > deadline:
                raise ConnectionError(f"the coordinator was not found: {code}")
            await asyncio.sleep(0.05)


async def _first_of(work: list[asyncio.Task[None]], event: asyncio.Event) -> None:
    """Wait for an event; a task that fails meanwhile fails all."""
    waiting = asyncio.ensure_future(event.wait())
    done, _ = await asyncio.wait(
        [waiting, *work], timeout=SETTLE_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED
    )
    if waiting not in done:
        waiting.cancel()
        for task in done:
            task.result()
        raise ConnectionError(f"not settled in {SETTLE_SECONDS_MAX:.0f} s")


async def _settle(group: Group, spec: Spec) -> Result:
    """From nothing to the end of a window of heartbeats."""
    meter = Meter(spec["broker_pid"])
    meter.start()
    began = time.perf_counter()
    count = len(group.members)
    work = [
        asyncio.create_task(member.live(spec["heartbeat_seconds"], number / count))
        for number, member in enumerate(group.members)
    ]
    await _first_of(work, group.settled)
    settling = meter.stop()
    await asyncio.sleep(spec["heartbeat_seconds"])
    meter.start()
    beats = group.beats
    await asyncio.sleep(spec["window_seconds"])
    beating = meter.stop()
    beats = group.beats - beats
    group.ending.set()
    await asyncio.gather(*work)
    return {
        "settle_seconds": group.settled_at - began,
        "settling": settling.as_result(),
        "beating": beating.as_result(),
        "beats": beats,
    }


async def _rebalance(group: Group) -> float:
    """Once more, from the leader's joining to the last response; the seconds it took."""
    leader = next(member for member in group.members if member.is_leader)
    followers = [member for member in group.members if member is not leader]
    group.settled.clear()
    leader.generation = -1
    began = time.perf_counter()
    work = [asyncio.create_task(leader.settle())]
    while followers and await followers[0].beat():
        await asyncio.sleep(0.001)
    work += [asyncio.create_task(member.settle()) for member in followers]
    await asyncio.gather(*work)
    await asyncio.wait_for(group.settled.wait(), SETTLE_SECONDS_MAX)
    return group.settled_at - began


async def _rebalances(group: Group, spec: Spec) -> Result:
    meter = Meter(spec["broker_pid"])
    meter.start()
    seconds = [await _rebalance(group) for _ in range(spec["rounds"])]
    return {
        "rebalance_seconds": statistics.median(seconds),
        "rebalancing": meter.stop().as_result(),
        "rounds": spec["rounds"],
    }


async def _run(spec: Spec) -> Result:
    group = Group(spec["group"])
    try:
        await group.connect(spec["port"], spec["members"])
        result = await _settle(group, spec)
        return {**result, **await _rebalances(group, spec)}
    finally:
        for member in group.members:
            member.close()


def run(spec: Spec) -> Result:
    return asyncio.run(_run(spec))


if __name__ == "__main__":
    serve(run)
