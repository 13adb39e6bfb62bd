"""An event loop on its own thread, and calls of other threads into it.

``run`` waits for a coroutine's result in the calling thread. While it waits, that thread runs the callbacks
that the coroutine requests with ``on_caller``: rebalance listeners run where the application polls, and may
use the client there. The two threads are synchronized by a raw lock: a ``concurrent.futures.Future`` costs
more than the rest of the round trip.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import functools
import math
import os
import threading
from _thread import LockType, allocate_lock
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast
from weakref import WeakSet

from odradek.model.client_errors import ClientClosed, InvalidState, TimedOut

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")

_CALL: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("call", default=None)
_OPEN: WeakSet[LoopThread] = WeakSet()
_FOREVER: Final = math.inf
_WAIT_MAX_S: Final = 1.0
"""Longest single wait: a signal that arrives just before a wait does not interrupt it."""


class _Call:
    """A running coroutine, and the thread that waits for it.

    The lock is held by default and released to wake the waiting thread. Only the loop thread releases it, and
    only while it is held.
    """

    __slots__ = ("coroutine", "error", "is_done", "lock", "make", "requests", "result", "task")

    def __init__(
        self, make: Callable[[], Coroutine[Any, Any, Any]], coroutine: Coroutine[Any, Any, Any] | None = None
    ) -> None:
        self.make = make
        self.coroutine = coroutine
        self.task: asyncio.Task[Any] | None = None
        self.lock: LockType = allocate_lock()
        self.lock.acquire()
        self.requests: deque[tuple[Callable[..., Any], tuple[Any, ...], asyncio.Future[Any]]] = deque()
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self.task = loop.create_task(self._run())
        self.task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Complete a call whose task was cancelled before its first step."""
        del task
        if not self.is_done:
            self.cancel()

    def cancel(self) -> None:
        """Complete the call as cancelled."""
        if self.coroutine is not None:
            self.coroutine.close()
        self.error = asyncio.CancelledError()
        self.is_done = True
        self.signal()

    async def _run(self) -> None:
        """Complete the call in the coroutine's last step: done callbacks run one loop iteration later."""
        _CALL.set(self)
        try:
            self.result = await self.make()
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            self.error = error
        self.is_done = True
        self.signal()

    def signal(self) -> None:
        if self.lock.locked():
            self.lock.release()


async def on_caller(function: Callable[..., T], *args: Any) -> T:
    """Run a function in the thread that waits for this coroutine; directly if there is none."""
    call = _CALL.get()
    if call is None or call.is_done:
        return function(*args)
    result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    call.requests.append((function, args, result))
    call.signal()
    return await result


class LoopThread:
    """An event loop on a daemon thread. Runs from construction to ``close``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process_id = os.getpid()
        self._posted: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_wakeup_scheduled = False
        self._is_closed = False
        self._closing = threading.Lock()
        self._calls: set[_Call] = set()
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        _OPEN.add(self)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    # Called by other threads.

    def call(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a coroutine function on the loop thread, and return its result.

        The coroutine is created there: an interrupt between its creation and its start in this thread would
        leave a coroutine that is never awaited.
        """
        result: T = self._wait_for(_Call(functools.partial(function, *args, **kwargs)), None)
        return result

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine and return its result; cancel it and raise TimedOut after ``timeout_s``."""
        result: T = self._wait_for(_Call(lambda: coroutine, coroutine), timeout_s)
        return result

    def _wait_for(self, call: _Call, timeout_s: float | None) -> Any:
        try:
            self._check()
            self._calls.add(call)
            self.post(call.begin, self._loop)
        except BaseException:
            self._calls.discard(call)
            if call.coroutine is not None:
                call.coroutine.close()
            raise
        try:
            self._await(call, timeout_s)
        except BaseException:
            self._abandon(call)
            raise
        finally:
            self._calls.discard(call)
        if call.error is not None:
            if isinstance(call.error, asyncio.CancelledError):
                raise ClientClosed(f"{self._name} was closed during this call")
            raise call.error
        return call.result

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Schedule a function on the loop thread, in order, without waiting."""
        self._posted.append((function, args))
        if not self._is_wakeup_scheduled:
            self._is_wakeup_scheduled = True
            try:
                self._loop.call_soon_threadsafe(self._run_posted)
            except RuntimeError:
                self._is_wakeup_scheduled = False  # so that the next post fails as well
                raise ClientClosed(f"{self._name} has been closed") from None

    def close(self) -> None:
        """Cancel running calls, end the loop and its thread. May be called again."""
        if self._process_id != os.getpid():
            self._is_closed = True  # the thread only exists in the parent process
            return
        if threading.get_ident() == self._thread.ident:
            raise InvalidState(f"{self._name} must not be closed from a callback on its own thread")
        _OPEN.discard(self)
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _check(self) -> None:
        if self._process_id != os.getpid():
            raise InvalidState(
                f"{self._name} was created before this process was forked; create a new client in the child"
            )
        if self._is_closed:
            raise ClientClosed(f"{self._name} has been closed")
        if threading.get_ident() == self._thread.ident:
            raise InvalidState(
                f"{self._name} must not be waited for in a callback on its own thread: that would deadlock"
            )

    # Waiting.

    def _await(self, call: _Call, timeout_s: float | None) -> None:
        total_s = left_s = _FOREVER if timeout_s is None else max(timeout_s, 0)
        while not call.is_done:
            wait_s = min(left_s, _WAIT_MAX_S)
            if call.lock.acquire(timeout=wait_s):
                left_s = total_s
            elif left_s <= wait_s:
                raise TimedOut(f"no result within {timeout_s} s")
            else:
                left_s -= wait_s
            self._run_requests(call)
        # A request may have come after the last check and before the end; there are none later.
        self._run_requests(call)

    def _run_requests(self, call: _Call) -> None:
        while call.requests:
            self._run_request(call)

    def _run_request(self, call: _Call) -> None:
        function, args, future = call.requests.popleft()
        try:
            result = function(*args)
        except (KeyboardInterrupt, SystemExit) as interrupt:
            # Such an exception would end the loop: the waiting call is cancelled instead. The request may
            # come from another task of the loop, which must not wait forever.
            what = f"a callback was interrupted by {type(interrupt).__name__} before it completed"
            self.post(_set_exception, future, InvalidState(what))
            raise
        except BaseException as error:  # noqa: BLE001 - raised in the coroutine
            self.post(_set_exception, future, error)
        else:
            self.post(_set_result, future, result)

    def _abandon(self, call: _Call) -> None:
        """Cancel a call whose caller stopped waiting, and wait until it has ended."""
        try:
            self.post(lambda: call.task is not None and call.task.cancel())
        except ClientClosed:
            return
        while not call.is_done:
            call.lock.acquire()
            self._reject_requests(call)
        self._reject_requests(call)

    def _reject_requests(self, call: _Call) -> None:
        while call.requests:
            self.post(
                _set_exception, call.requests.popleft()[2], TimedOut("the calling thread stopped waiting")
            )

    # The loop thread.

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._is_closed = True
            self._end()

    def _run_posted(self) -> None:
        # Reset before the queue is read: later posts schedule another wakeup.
        self._is_wakeup_scheduled = False
        posted = self._posted
        try:
            for _ in range(len(posted)):
                function, args = posted.popleft()
                function(*args)
        except BaseException:
            self._loop.call_soon(self._run_posted)
            raise

    def _end(self) -> None:
        loop = self._loop
        try:
            self._run_posted()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            self._is_wakeup_scheduled = False
            # Calls posted while the loop ended; later posts are rejected.
            for call in list(self._calls):
                if not call.is_done:
                    call.cancel()


@atexit.register
def _close_all() -> None:
    """Close all loop threads: none may be running its loop when the interpreter exits."""
    for thread in list(_OPEN):
        thread.close()


def blocking(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return a method that runs an async method of ``self._client`` on ``self._thread``."""

    @functools.wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        thread: LoopThread = self._thread
        return thread.call(method, self._client, *args, **kwargs)

    return cast("Callable[Concatenate[Any, P], T]", call)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _set_result(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        # A future cannot hold a StopIteration.
        future.set_exception(RuntimeError(str(error)) if isinstance(error, StopIteration) else error)
        future.exception()  # marks it as retrieved: the waiting task may have been cancelled
