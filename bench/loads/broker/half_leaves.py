"""A group of many members in a cluster: the first assignment, then half of the members leave.

The others notice with their next heartbeat, as real clients do, and join again.
"""

from __future__ import annotations

import asyncio
import time

from bench.loads.broker import group_frames as frames
from bench.loads.broker.exchange import connect, send_request
from bench.loads.broker.members import RETRIABLE, SETTLE_SECONDS_MAX, Group
from bench.loads.worker import Result, Spec, serve

LOOK_SECONDS = 0.05


def coordinator_port(port: int, group: str) -> int:
    """Return the port of a group's coordinator, as soon as there is one."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while True:
        with connect(port) as connection:
            response = send_request(connection, frames.find_coordinator(group))
        code = frames.find_coordinator_error(response)
        if code == 0:
            return frames.find_coordinator_port(response)
        if code not in RETRIABLE or time.monotonic() > deadline:
            raise ConnectionError(f"the coordinator was not found: {code}")
        time.sleep(LOOK_SECONDS)


async def _run(spec: Spec) -> Result:
    group = Group(spec["group"])
    await group.connect(coordinator_port(spec["port"], spec["group"]), spec["members"])
    count, interval = len(group.members), spec["heartbeat_seconds"]
    began = time.perf_counter()
    lives = [
        asyncio.create_task(member.live(interval, number / count))
        for number, member in enumerate(group.members)
    ]
    await asyncio.wait_for(group.settled.wait(), SETTLE_SECONDS_MAX)
    first_seconds = group.settled_at - began
    await asyncio.sleep(interval)
    leaving = group.members[: count // 2]
    for life in lives[: count // 2]:
        life.cancel()
    await asyncio.gather(*lives[: count // 2], return_exceptions=True)
    group.members = group.members[count // 2 :]
    group.settled.clear()
    left = time.perf_counter()
    for member in leaving:
        member.close()
    with connect(coordinator_port(spec["port"], spec["group"])) as connection:
        for member in leaving:
            send_request(connection, frames.leave(group.name, member.name))
    await asyncio.wait_for(group.settled.wait(), SETTLE_SECONDS_MAX)
    group.ending.set()
    await asyncio.gather(*lives[count // 2 :])
    for member in group.members:
        member.close()
    return {"first_seconds": first_seconds, "rebalance_seconds": group.settled_at - left}


def run(spec: Spec) -> Result:
    return asyncio.run(_run(spec))


if __name__ == "__main__":
    serve(run)
