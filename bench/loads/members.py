"""A group of many members, each with a connection of its own: joining, heartbeats, one more rebalance.

All members join at once, as after a deployment, and go on by what they are told: a member without an id asks
again with the one it was given, the leader assigns, everyone heartbeats and joins again when a heartbeat says
so. The group has settled once all members have synced in one generation.

Then three things are measured: how long settling took; what the heartbeats of the settled group cost; and how
long it takes from the leader's joining again until all have synced in the next generation, where everyone
hears of it at once (with real clients, the interval of heartbeats comes on top).
"""

from __future__ import annotations

import asyncio
import statistics
import struct
import time
from contextlib import suppress

from bench.loads import group_frames as frames
from bench.loads.exchange import ANSWER_SECONDS_MAX
from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

COMING = (14, 15, 16)
ANEW = (22, 25)
REBALANCING = 27
MEMBER_ID_REQUIRED = 79
SETTLE_SECONDS_MAX = 150.0
TOPIC = "members"


class Member:
    """One member and its connection; one request at a time."""

    def __init__(self, group: Group, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._group = group
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()
        self.name = ""
        self.generation = -1
        self.is_leader = False

    async def ask(self, frame: bytes) -> bytes:
        async with self._turn:
            self._writer.write(frame)
            prefix = await self._reader.readexactly(4)
            return prefix + await self._reader.readexactly(struct.unpack(">i", prefix)[0])

    async def settle(self) -> None:
        """Join and sync until both are answered without an error."""
        while True:
            answer = frames.joined(await self.ask(frames.join(self._group.name, self.name, TOPIC)))
            self.name = "" if answer.error_code in ANEW else answer.member or self.name
            if answer.error_code == 0 and await self._sync(answer):
                return
            if answer.error_code in COMING:
                await asyncio.sleep(0.05)
            elif answer.error_code not in (0, *ANEW, REBALANCING, MEMBER_ID_REQUIRED):
                raise ConnectionError(f"join was answered with {answer.error_code}")

    async def _sync(self, answer: frames.Joined) -> bool:
        self.is_leader = answer.leader == self.name
        asked = frames.sync(self._group.name, answer.generation, self.name, TOPIC, answer.members)
        code = frames.answered(await self.ask(asked))
        if code not in (0, *ANEW, REBALANCING):
            raise ConnectionError(f"sync was answered with {code}")
        if code == 0:
            self.generation = answer.generation
            self._group.look()
        return code == 0

    async def beat(self) -> bool:
        """Whether the group stands."""
        code = frames.answered(await self.ask(frames.heartbeat(self._group.name, self.generation, self.name)))
        if code not in (0, *ANEW, REBALANCING):
            raise ConnectionError(f"heartbeat was answered with {code}")
        self._group.beats += 1
        return code == 0

    async def live(self, interval: float, phase: float) -> None:
        """Be a member until the group ends; beats of different members are spread over the interval."""
        await self.settle()
        pause = phase * interval
        while not await self._group.ends_within(pause):
            pause = interval
            if not await self.beat():
                await self.settle()

    def close(self) -> None:
        self._writer.close()


class Group:
    """All members, and when they were last of one mind."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: list[Member] = []
        self.beats = 0
        self.settled = asyncio.Event()
        self.settled_at = 0.0
        self.ending = asyncio.Event()

    def look(self) -> None:
        newest = self.members[0].generation
        if newest >= 0 and all(one.generation == newest for one in self.members):
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
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while code := frames.found(await self.members[0].ask(frames.find_coordinator(self.name))):
            if code not in COMING or time.monotonic() > deadline:
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
        for one in done:
            one.result()
        raise ConnectionError(f"not settled in {SETTLE_SECONDS_MAX:.0f} s")


async def _settle(group: Group, spec: Spec) -> Result:
    """From nothing to the end of a window of heartbeats."""
    meter = Meter(spec["broker_pid"])
    meter.start()
    began = time.perf_counter()
    count = len(group.members)
    work = [
        asyncio.create_task(one.live(spec["heartbeat_seconds"], number / count))
        for number, one in enumerate(group.members)
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
    """Once more, from the leader's joining to the last answer; the seconds it took."""
    leader = next(one for one in group.members if one.is_leader)
    followers = [one for one in group.members if one is not leader]
    group.settled.clear()
    leader.generation = -1
    began = time.perf_counter()
    work = [asyncio.create_task(leader.settle())]
    while followers and await followers[0].beat():
        await asyncio.sleep(0.001)
    work += [asyncio.create_task(one.settle()) for one in followers]
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
        for one in group.members:
            one.close()


def run(spec: Spec) -> Result:
    return asyncio.run(_run(spec))


if __name__ == "__main__":
    serve(run)
