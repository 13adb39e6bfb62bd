"""The controller's queue: order, reads that are queued once, replies, bounds."""

from __future__ import annotations

import asyncio

import pytest

from odradek.controller import event_queue
from odradek.controller.event_queue import EventQueue
from odradek.controller.events import ContextLoaded, LeaderBalanceDue, ReassignmentsListed
from odradek.model.errors import BrokerError, ErrorCode
from odradek.testing.clock import run_virtually


async def read_nothing() -> None:
    return None


async def read_balance() -> LeaderBalanceDue:
    return LeaderBalanceDue()


def test_events_keep_their_order():
    async def main():
        queue = EventQueue()
        queue.put(ContextLoaded())
        queue.put_read("topics", read_balance)
        queue.put(LeaderBalanceDue())
        taken = [await queue.get() for _ in range(3)]
        assert [item.event for item in taken] == [ContextLoaded(), None, LeaderBalanceDue()]
        assert taken[1].read is read_balance
        assert queue.is_empty

    run_virtually(main)


def test_read_is_queued_once_until_it_is_taken():
    async def main():
        queue = EventQueue()
        for _ in range(1_000):
            queue.put_read("topics", read_nothing)
            queue.put_read("brokers", read_nothing)
        assert [(await queue.get()).key for _ in range(2)] == ["topics", "brokers"]
        assert queue.is_empty
        # A change during the read must be read again.
        queue.put_read("topics", read_nothing)
        assert (await queue.get()).key == "topics"

    run_virtually(main)


def test_reply_reaches_the_one_who_submitted():
    async def main():
        queue = EventQueue()
        reply = queue.submit(ReassignmentsListed(None))
        queued = await queue.get()
        queued.complete({"a": 1})
        queued.fail(BrokerError(ErrorCode.NOT_CONTROLLER))
        assert await reply == {"a": 1}

    run_virtually(main)


def test_cancelled_caller_does_not_disturb_the_reply():
    async def main():
        queue = EventQueue()
        reply = queue.submit(ReassignmentsListed(None))
        reply.cancel()
        (await queue.get()).complete(1)

    run_virtually(main)


def test_closed_queue_refuses_what_waits_and_what_comes():
    async def main():
        queue = EventQueue()
        queue.put(ContextLoaded())
        reply = queue.submit(ReassignmentsListed(None))
        queue.close()
        with pytest.raises(BrokerError) as refusal:
            await reply
        assert refusal.value.code is ErrorCode.NOT_CONTROLLER
        queue.put(ContextLoaded())
        queue.put_read("topics", read_nothing)
        assert queue.is_empty
        with pytest.raises(BrokerError):
            queue.submit(ReassignmentsListed(None))
        await asyncio.wait_for(queue.join(), 1)

    run_virtually(main)


def test_waiting_requests_are_bounded(monkeypatch):
    monkeypatch.setattr(event_queue, "SUBMITTED_MAX", 2)

    async def main():
        queue = EventQueue()
        replies = [queue.submit(ReassignmentsListed(None)) for _ in range(2)]
        with pytest.raises(BrokerError) as refusal:
            queue.submit(ReassignmentsListed(None))
        assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT
        await queue.get()
        queue.submit(ReassignmentsListed(None)).cancel()
        assert not any(reply.done() for reply in replies)

    run_virtually(main)
