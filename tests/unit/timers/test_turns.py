"""Long work in turns: other work of the event loop runs between portions of it."""

from __future__ import annotations

import asyncio

import pytest

from odradek.timers.turns import TURN_ITEMS, in_turns


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (0, []),
        (1, [1]),
        (TURN_ITEMS, [TURN_ITEMS]),
        (TURN_ITEMS + 1, [TURN_ITEMS, 1]),
        (2 * TURN_ITEMS, [TURN_ITEMS, TURN_ITEMS]),
    ],
)
def test_portions_have_all_items_in_order(count, sizes):
    async def main():
        return [turn async for turn in in_turns(iter(range(count)))]

    portions = asyncio.run(main())
    assert [len(portion) for portion in portions] == sizes
    assert [item for portion in portions for item in portion] == list(range(count))


def test_other_work_runs_between_portions():
    async def main():
        seen: list[int | str] = []

        async def other():
            for _ in range(3):
                seen.append("other")
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        async for turn in in_turns(range(2 * TURN_ITEMS + 1)):
            seen.append(len(turn))
        await task
        return seen

    assert asyncio.run(main()) == [TURN_ITEMS, "other", TURN_ITEMS, "other", 1, "other"]
