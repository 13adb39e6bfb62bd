"""Call guards: concurrent calls of threads and tasks, and nested calls."""

from __future__ import annotations

import asyncio
import threading

import pytest

from odradek.client.consumer.call_guard import TaskCallGuard, ThreadCallGuard
from odradek.model.client_errors import ConcurrentUse


def test_thread_guard_allows_nested_calls_only() -> None:
    guard = ThreadCallGuard("consumer c")
    outcomes: list[str] = []

    def other() -> None:
        try:
            with guard:
                outcomes.append("in")
        except ConcurrentUse as error:
            outcomes.append(str(error))

    def enter_in_thread() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    with guard:
        with guard:
            enter_in_thread()
        enter_in_thread()
    enter_in_thread()
    assert [outcome[:44] for outcome in outcomes] == [
        *["consumer c must not be used by two threads a"] * 2,
        "in",
    ]


def test_task_guard_admits_tasks_started_by_call() -> None:
    async def main() -> None:
        guard = TaskCallGuard("consumer c")
        outside = asyncio.Event()

        async def enter() -> str:
            with guard:
                return "in"

        async def enter_later() -> str:
            await outside.wait()
            return await enter()

        waiting = asyncio.create_task(enter_later())
        with guard:
            assert await asyncio.create_task(enter()) == "in"
            outside.set()
            with pytest.raises(ConcurrentUse, match="two tasks"):
                await waiting
        assert await asyncio.create_task(enter()) == "in"

    asyncio.run(main())


def test_call_does_not_admit_calls_of_other_consumer() -> None:
    async def main() -> None:
        first, second = TaskCallGuard("first"), TaskCallGuard("second")
        entered, leave = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            with second:
                entered.set()
                await leave.wait()

        holding = asyncio.create_task(hold())
        await entered.wait()
        with first, pytest.raises(ConcurrentUse, match="second"), second:
            pass
        leave.set()
        await holding
        with first, second:
            pass

    asyncio.run(main())


def test_callback_can_call_consumer_after_its_call_ended() -> None:
    async def main() -> None:
        guard = TaskCallGuard("consumer c")
        go = asyncio.Event()

        async def listener() -> str:
            await go.wait()
            with guard:
                return "in"

        async def called() -> str:
            result: str = await (await guard.run_inside_call(listener))
            return result

        with guard:
            calling = asyncio.create_task(called())
            await asyncio.sleep(0)
        with guard:  # another call, while the listener of the first one still runs
            go.set()
            assert await calling == "in"
        with guard:
            pass

    asyncio.run(main())
