"""Loop threads: calls, callbacks, timeouts, interrupts and close."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections import deque
from typing import Any

import pytest

from odradek.client.blocking.loop_thread import LoopThread, _Call, blocking, on_caller
from odradek.model.client_errors import ClientClosed, InvalidState, TimedOut


@pytest.fixture(params=["uvloop", "asyncio"])
def thread(request, monkeypatch):
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    loop_thread = LoopThread("tester-1")
    assert ("uvloop" in type(loop_thread.loop).__module__) == (request.param == "uvloop")
    yield loop_thread
    loop_thread.close()
    assert "tester-1" not in {running.name for running in threading.enumerate()}


async def echo(value):
    await asyncio.sleep(0)
    return value


async def fail(error):
    raise error


def test_run_returns_the_result(thread):
    assert [thread.run(echo(number)) for number in range(100)] == list(range(100))


def test_run_raises_the_original_exception(thread):
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        thread.run(fail(error))
    assert caught.value is error


def test_many_threads_can_wait_concurrently(thread):
    results: list[int] = []

    def work(start):
        results.extend(thread.run(echo(start + number)) for number in range(200))

    workers = [threading.Thread(target=work, args=(1000 * index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(results) == [1000 * index + number for index in range(4) for number in range(200)]


def test_timeout_cancels_the_coroutine(thread):
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


def test_interrupt_cancels_the_awaited_coroutine(thread):
    ended = threading.Event()

    async def interrupted():
        try:
            main_thread_id = threading.main_thread().ident
            assert main_thread_id is not None
            signal.pthread_kill(main_thread_id, signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            ended.set()

    # Interrupts may be ignored in the test process, as in background jobs of shells.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.run(interrupted())
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()
    assert thread.run(echo(1)) == 1


def test_long_waits_are_split_so_that_signals_are_handled(thread):
    waits = []

    class Silent:
        def acquire(self, timeout):
            waits.append(timeout)
            return False

    call: Any = _Call(lambda: echo(1))
    call.lock = Silent()
    with pytest.raises(TimedOut):
        thread._await(call, 2.5)
    assert waits == [1.0, 1.0, 0.5]


def test_on_caller_runs_in_the_waiting_thread(thread):
    calls = []

    def listener(argument):
        calls.append((argument, threading.get_ident(), thread.run(echo("nested"))))
        return argument.upper()

    async def poll():
        return [await on_caller(listener, "one"), await on_caller(listener, "two")]

    assert thread.run(poll()) == ["ONE", "TWO"]
    here = threading.get_ident()
    assert calls == [("one", here, "nested"), ("two", here, "nested")]


def test_exception_of_a_callback_is_raised_in_the_coroutine(thread):
    def listener():
        raise LookupError("mine")

    async def poll():
        try:
            await on_caller(listener)
        except LookupError as failed:
            return str(failed)

    assert thread.run(poll()) == "mine"


def test_interrupt_in_a_callback_cancels_the_call_and_not_the_loop(thread):
    def listener():
        raise KeyboardInterrupt

    async def poll():
        await on_caller(listener)

    with pytest.raises(KeyboardInterrupt):
        thread.run(poll())
    assert thread.run(echo(1)) == 1


def test_interrupt_in_a_callback_fails_the_task_that_requested_it(thread):
    def interrupt():
        raise KeyboardInterrupt

    tasks = []

    async def request_and_wait():
        tasks.append(asyncio.get_running_loop().create_task(on_caller(interrupt)))
        await asyncio.wait(tasks)

    async def failure():
        await asyncio.wait(tasks, timeout=5)
        return tasks[0].done() and tasks[0].exception()

    with pytest.raises(KeyboardInterrupt):
        thread.run(request_and_wait())
    assert "KeyboardInterrupt" in str(thread.run(failure()))


def test_callback_requested_just_before_completion_is_run(thread):
    calls = []
    call = _Call(lambda: echo(1))
    result = thread.loop.create_future()

    class RequestsWithLateAddition(deque):
        def __len__(self):
            """Return the old length; then add a request and complete the call, as the loop thread may do."""
            count = super().__len__()
            if not call.is_done:
                self.append((lambda: calls.append(threading.get_ident()), (), result))
                call.is_done = True
            return count

    call.requests = RequestsWithLateAddition()
    call.lock.release()
    thread._await(call, None)
    assert calls == [threading.get_ident()]


def test_on_caller_without_a_waiting_thread_calls_directly():
    async def poll():
        return await on_caller(threading.get_ident)

    assert asyncio.run(poll()) == threading.get_ident()


def test_posted_functions_run_in_order(thread):
    seen: list[int] = []
    for number in range(1000):
        thread.post(seen.append, number)
    thread.run(echo(None))
    assert seen == list(range(1000))


def test_run_on_the_loop_thread_is_rejected(thread):
    rejected = []

    def callback():
        coroutine = echo(1)
        with pytest.raises(InvalidState, match="deadlock") as caught:
            thread.run(coroutine)
        rejected.append(caught.value)
        with pytest.raises(InvalidState, match="on its own thread"):
            thread.close()

    thread.post(callback)
    thread.run(echo(None))
    assert len(rejected) == 1


def test_close_fails_pending_and_later_calls(thread):
    errors = []
    waiting = threading.Event()

    async def linger():
        waiting.set()
        await asyncio.sleep(60)

    def work():
        try:
            thread.run(linger())
        except ClientClosed as closed:
            errors.append(str(closed))

    worker = threading.Thread(target=work)
    worker.start()
    waiting.wait()
    thread.close()
    thread.close()
    worker.join()
    assert errors == ["tester-1 was closed during this call"]
    with pytest.raises(ClientClosed, match="tester-1 has been closed"):
        thread.run(echo(1))
    with pytest.raises(ClientClosed):
        thread.post(print)


def test_use_after_fork_is_rejected(thread):
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer interpreters warn about fork with threads
        child = os.fork()
    if child == 0:
        try:
            thread.run(echo(1))
        except InvalidState as error:
            os.write(write_end, str(error).encode())
        thread.close()
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as message:
        assert "created before this process was forked" in message.read()
    assert os.waitpid(child, 0)[1] == 0
    assert thread.run(echo(1)) == 1


def test_call_cancelled_before_it_starts_completes(thread):
    for _ in range(50):
        with pytest.raises(TimedOut):
            thread.run(asyncio.sleep(60), timeout_s=0)


def test_failing_posted_function_does_not_block_later_ones(thread):
    seen: list[int] = []
    broken: list[BaseException] = []
    thread.loop.set_exception_handler(lambda loop, context: broken.append(context["exception"]))

    def fail_now():
        raise LookupError("mine")

    thread.run(asyncio.sleep(0))
    for function in (fail_now, seen.append, fail_now, seen.append):
        thread.post(function, *(() if function is fail_now else (len(seen),)))
    while len(seen) < 2:
        thread.run(echo(None))
    assert len(broken) == 2


def test_calls_racing_with_close_all_complete(thread):
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


def test_unclosed_thread_does_not_block_interpreter_exit():
    program = (
        "import asyncio, logging\n"
        "logging.getLogger('asyncio').setLevel(logging.ERROR)  # no warnings of a slow machine\n"
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


def test_blocking_wraps_async_methods(thread):
    class Client:
        async def double(self, number, *, extra=0):
            """Return twice the number."""
            return 2 * number + extra

    class Blocking:
        double = blocking(Client.double)

        def __init__(self):
            self._client = Client()
            self._thread = thread

    assert Blocking().double(4, extra=1) == 9
    assert Blocking.double.__doc__ == "Return twice the number."
    assert Blocking.double.__name__ == "double"


def test_call_creates_its_coroutine_on_the_loop_thread():
    """So an interrupt of the calling thread leaves no coroutine that is never awaited."""
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
