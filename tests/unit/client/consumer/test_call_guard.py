"""One call at a time: by thread, by task, and calls inside calls."""

from __future__ import annotations

import asyncio
import threading

import pytest

from odradek.client.consumer.call_guard import TaskCallGuard, ThreadCallGuard
from odradek.model.client_errors import ConcurrentUse


def test_a_thread_may_call_inside_its_own_call_and_others_must_wait_their_turn() -> None:
    exclusive = ThreadCallGuard("consumer c")
    told: list[str] = []

    def other() -> None:
        try:
            with exclusive:
                told.append("in")
        except ConcurrentUse as error:
            told.append(str(error))

    def from_elsewhere() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    with exclusive:
        with exclusive:
            from_elsewhere()
        from_elsewhere()
    from_elsewhere()
    assert [words[:32] for words in told] == ["consumer c is used by two thread"] * 2 + ["in"]


def test_tasks_that_a_call_starts_belong_to_it_and_others_do_not() -> None:
    async def main() -> None:
        exclusive = TaskCallGuard("consumer c")
        outside = asyncio.Event()

        async def enter() -> str:
            with exclusive:
                return "in"

        async def stranger() -> str:
            await outside.wait()
            return await enter()

        waiting = asyncio.create_task(stranger())
        with exclusive:
            assert await asyncio.create_task(enter()) == "in"
            outside.set()
            with pytest.raises(ConcurrentUse, match="two tasks"):
                await waiting
        assert await asyncio.create_task(enter()) == "in"

    asyncio.run(main())


def test_a_call_of_one_consumer_opens_no_other() -> None:
    async def main() -> None:
        mine, theirs = TaskCallGuard("mine"), TaskCallGuard("theirs")
        entered, leave = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            with theirs:
                entered.set()
                await leave.wait()

        holding = asyncio.create_task(hold())
        await entered.wait()
        with mine, pytest.raises(ConcurrentUse, match="theirs"), theirs:
            pass
        leave.set()
        await holding
        with mine, theirs:
            pass

    asyncio.run(main())


def test_what_a_consumer_calls_may_enter_even_if_that_call_has_ended() -> None:
    async def main() -> None:
        exclusive = TaskCallGuard("consumer c")
        go = asyncio.Event()

        async def listener() -> str:
            await go.wait()
            with exclusive:
                return "in"

        async def called() -> str:
            result: str = await (await exclusive.as_insider(listener))
            return result

        with exclusive:
            calling = asyncio.create_task(called())
            await asyncio.sleep(0)
        with exclusive:  # another call, while the listener of the first is still at work
            go.set()
            assert await calling == "in"
        with exclusive:
            pass

    asyncio.run(main())
