"""Threads that wait for coroutines of an event loop on another thread."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections import deque

import pytest

from odradek.client.blocking.loop_thread import LoopThread, _Call, blocking, on_caller
from odradek.model.client_errors import ClientClosed, InvalidState, TimedOut


@pytest.fixture(params=["uvloop", "asyncio"])
def thread(request, monkeypatch):
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    made = LoopThread("tester-1")
    assert ("uvloop" in type(made.loop).__module__) == (request.param == "uvloop")
    yield made
    made.close()
    assert "tester-1" not in {one.name for one in threading.enumerate()}


async def echo(value):
    await asyncio.sleep(0)
    return value


async def fail(error):
    raise error


def test_a_result_comes_back(thread):
    assert [thread.run(echo(number)) for number in range(100)] == list(range(100))


def test_an_exception_comes_back_as_it_was_raised(thread):
    given = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        thread.run(fail(given))
    assert caught.value is given


def test_many_threads_wait_at_once(thread):
    found = []

    def work(start):
        found.extend(thread.run(echo(start + number)) for number in range(200))

    workers = [threading.Thread(target=work, args=(1000 * index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(found) == [1000 * index + number for index in range(4) for number in range(200)]


def test_time_that_is_over_cancels_the_coroutine(thread):
    ended = threading.Event()

    async def linger():
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    with pytest.raises(TimedOut):
        thread.run(linger(), timeout_s=0.01)
    assert ended.is_set()
    assert thread.run(echo(1)) == 1


def test_an_interrupt_cancels_the_coroutine_it_waits_for(thread):
    ended = threading.Event()

    async def interrupted():
        try:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            ended.set()

    # Who starts the tests may have had interrupts ignored, as shells do for programs in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.run(interrupted())
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()
    assert thread.run(echo(1)) == 1


def test_no_wait_is_so_long_that_a_signal_just_before_it_would_be_heard_late(thread):
    waits = []

    class Silent:
        def acquire(self, timeout):
            waits.append(timeout)
            return False

    call = _Call(lambda: echo(1))
    call.lock = Silent()
    with pytest.raises(TimedOut):
        thread._await(call, 2.5)
    assert waits == [1.0, 1.0, 0.5]


def test_calls_are_served_by_the_thread_that_waits(thread):
    served = []

    def listener(word):
        served.append((word, threading.get_ident(), thread.run(echo("nested"))))
        return word.upper()

    async def poll():
        return [await on_caller(listener, "one"), await on_caller(listener, "two")]

    assert thread.run(poll()) == ["ONE", "TWO"]
    here = threading.get_ident()
    assert served == [("one", here, "nested"), ("two", here, "nested")]


def test_what_a_served_call_raises_is_raised_in_the_coroutine(thread):
    def listener():
        raise LookupError("mine")

    async def poll():
        try:
            await on_caller(listener)
        except LookupError as failed:
            return str(failed)

    assert thread.run(poll()) == "mine"


def test_an_interrupt_in_a_served_call_ends_the_coroutine_and_not_the_loop(thread):
    def listener():
        raise KeyboardInterrupt

    async def poll():
        await on_caller(listener)

    with pytest.raises(KeyboardInterrupt):
        thread.run(poll())
    assert thread.run(echo(1)) == 1


def test_an_interrupt_in_a_served_call_is_told_to_whoever_asked_for_it(thread):
    def press():
        raise KeyboardInterrupt

    asking = []

    async def ask_and_wait():
        asking.append(asyncio.get_running_loop().create_task(on_caller(press)))
        await asyncio.wait(asking)

    async def told():
        await asyncio.wait(asking, timeout=5)
        return asking[0].done() and asking[0].exception()

    with pytest.raises(KeyboardInterrupt):
        thread.run(ask_and_wait())
    assert "KeyboardInterrupt" in str(thread.run(told()))


def test_a_request_that_comes_just_before_the_end_is_served(thread):
    served = []
    call = _Call(lambda: echo(1))
    answer = thread.loop.create_future()

    class RequestsWithLatecomer(deque):
        def __len__(self):
            """Say that there is none; then the loop's thread adds one, and the coroutine ends."""
            count = super().__len__()
            if not call.is_done:
                self.append((lambda: served.append(threading.get_ident()), (), answer))
                call.is_done = True
            return count

    call.requests = RequestsWithLatecomer()
    call.lock.release()
    thread._await(call, None)
    assert served == [threading.get_ident()]


def test_without_another_thread_a_call_is_made_at_once():
    async def poll():
        return await on_caller(threading.get_ident)

    assert asyncio.run(poll()) == threading.get_ident()


def test_posts_are_made_in_order_on_the_loops_thread(thread):
    seen = []
    for number in range(1000):
        thread.post(seen.append, number)
    thread.run(echo(None))
    assert seen == list(range(1000))


def test_waiting_on_its_own_thread_is_refused(thread):
    refused = []

    def callback():
        coroutine = echo(1)
        with pytest.raises(InvalidState, match="wait for ever") as caught:
            thread.run(coroutine)
        refused.append(caught.value)
        with pytest.raises(InvalidState, match="own thread"):
            thread.close()

    thread.post(callback)
    thread.run(echo(None))
    assert len(refused) == 1


def test_after_close_a_call_is_refused_and_what_waited_is_told(thread):
    outcome = []
    waiting = threading.Event()

    async def linger():
        waiting.set()
        await asyncio.sleep(60)

    def work():
        try:
            thread.run(linger())
        except ClientClosed as closed:
            outcome.append(str(closed))

    worker = threading.Thread(target=work)
    worker.start()
    waiting.wait()
    thread.close()
    thread.close()
    worker.join()
    assert outcome == ["tester-1 was closed while this call was under way"]
    with pytest.raises(ClientClosed, match="tester-1 has been closed"):
        thread.run(echo(1))
    with pytest.raises(ClientClosed):
        thread.post(print)


def test_a_forked_child_is_told_to_make_its_own(thread):
    told_in, told_out = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer interpreters warn of what is tested here
        child = os.fork()
    if child == 0:
        try:
            thread.run(echo(1))
        except InvalidState as refused:
            os.write(told_out, str(refused).encode())
        thread.close()
        os._exit(0)
    os.close(told_out)
    with os.fdopen(told_in) as told:
        assert "made before this process was forked" in told.read()
    assert os.waitpid(child, 0)[1] == 0
    assert thread.run(echo(1)) == 1


def test_a_call_cancelled_before_its_first_step_ends_as_well(thread):
    for _ in range(50):
        with pytest.raises(TimedOut):
            thread.run(asyncio.sleep(60), timeout_s=0)


def test_a_posted_function_that_raises_does_not_hold_up_the_others(thread):
    seen, broken = [], []
    thread.loop.set_exception_handler(lambda loop, context: broken.append(context["exception"]))

    def fail_now():
        raise LookupError("mine")

    thread.run(asyncio.sleep(0))
    for function in (fail_now, seen.append, fail_now, seen.append):
        thread.post(function, *(() if function is fail_now else (len(seen),)))
    while len(seen) < 2:
        thread.run(echo(None))
    assert len(broken) == 2


def test_calls_that_race_with_close_all_end(thread):
    outcomes = []

    def work():
        while True:
            try:
                thread.run(echo(1))
            except ClientClosed:
                outcomes.append("closed")
                return

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    thread.close()
    for worker in workers:
        worker.join(10)
    assert outcomes == ["closed"] * 8


def test_a_thread_that_nobody_closed_does_not_keep_a_program_from_ending():
    program = (
        "import asyncio\n"
        "from odradek.client.blocking.loop_thread import LoopThread\n"
        "thread = LoopThread('left-open')\n"
        "print(thread.run(asyncio.sleep(0, 'done')))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("done\n", "", 0)


def test_blocking_methods_are_those_of_the_client_without_await(thread):
    class Client:
        async def double(self, number, *, extra=0):
            """Twice as much."""
            return 2 * number + extra

    class Blocking:
        double = blocking(Client.double)

        def __init__(self):
            self._client = Client()
            self._thread = thread

    assert Blocking().double(4, extra=1) == 9
    assert Blocking.double.__doc__ == "Twice as much."
    assert Blocking.double.__name__ == "double"


def test_a_call_makes_its_coroutine_on_the_loops_thread_and_only_if_it_is_carried_out():
    """An interrupt of the calling thread can then leave no coroutine behind that nobody awaits."""
    made_by = []

    def make():
        made_by.append(threading.current_thread().name)
        return asyncio.sleep(0, 7)

    thread = LoopThread("maker-1")
    assert thread.call(make) == 7
    thread.close()
    with pytest.raises(ClientClosed):
        thread.call(make)
    assert made_by == ["maker-1"]
