"""An event loop on a thread of its own, and how other threads have coroutines run there.

``run`` waits for a coroutine's result in the calling thread. While it waits, that thread serves calls that
the coroutine sends back with ``on_caller``: rebalance listeners run where the application polls, and may use
the client there. A raw lock is all that passes between the two: a future of the standard library costs more
than the whole rest of a round trip.
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
_LOOK_S: Final = 1.0
"""A signal that comes just before a wait does not end it, and is only heard after it: no wait is longer."""


class _Call:
    """One coroutine under way, and the thread that waits for it.

    The lock is held by default; whoever has news for the waiting thread releases it. Only the loop's thread
    does so, and only while it is held.
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
        self.task = loop.create_task(self._carry_out())
        self.task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Task[None]) -> None:
        """A task that was cancelled before its first step has told nobody."""
        del task
        if not self.is_done:
            self.give_up()

    def give_up(self) -> None:
        """It will not be carried out, or not to its end."""
        if self.coroutine is not None:
            self.coroutine.close()
        self.error = asyncio.CancelledError()
        self.is_done = True
        self.signal()

    async def _carry_out(self) -> None:
        """Tell the outcome in the coroutine's last step: a task's callbacks come a turn of the loop later."""
        _CALL.set(self)
        try:
            self.result = await self.make()
        except BaseException as failed:  # noqa: BLE001 - whatever it is, it is the waiting thread's
            self.error = failed
        self.is_done = True
        self.signal()

    def signal(self) -> None:
        if self.lock.locked():
            self.lock.release()


async def on_caller(function: Callable[..., T], *args: Any) -> T:
    """Run a function in the thread that waits for this coroutine; at once if nobody waits in another."""
    call = _CALL.get()
    if call is None or call.is_done:
        return function(*args)
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    call.requests.append((function, args, answer))
    call.signal()
    return await answer


class LoopThread:
    """An event loop on a daemon thread called ``name``. Runs from construction to ``close``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process_id = os.getpid()
        self._posted: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_woken = False
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

    # What other threads may do.

    def call(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a coroutine function on the loop's thread, and give its result.

        The coroutine is made there: an interrupt that came between its making and its running here would
        leave one that nobody awaits.
        """
        result: T = self._outcome(_Call(functools.partial(function, *args, **kwargs)), None)
        return result

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Have a coroutine run, and give its result; raises TimedOut after a time, and then cancels it."""
        result: T = self._outcome(_Call(lambda: coroutine, coroutine), timeout_s)
        return result

    def _outcome(self, call: _Call, timeout_s: float | None) -> Any:
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
                raise ClientClosed(f"{self._name} was closed while this call was under way")
            raise call.error
        return call.result

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Have a function called on the loop's thread, in the order of posts; returns at once."""
        self._posted.append((function, args))
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._serve_posted)
            except RuntimeError:
                self._is_woken = False  # the next one must not think that somebody comes
                raise ClientClosed(f"{self._name} has been closed") from None

    def close(self) -> None:
        """Cancel what is under way, end the loop and its thread. May be called again."""
        if self._process_id != os.getpid():
            self._is_closed = True  # the thread was left behind in the parent
            return
        if threading.get_ident() == self._thread.ident:
            raise InvalidState(f"{self._name} cannot be closed from a callback on its own thread")
        _OPEN.discard(self)
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _check(self) -> None:
        if self._process_id != os.getpid():
            raise InvalidState(
                f"{self._name} was made before this process was forked: make a new client in the child"
            )
        if self._is_closed:
            raise ClientClosed(f"{self._name} has been closed")
        if threading.get_ident() == self._thread.ident:
            raise InvalidState(
                f"a callback on the thread of {self._name} cannot wait for it: it would wait for ever"
            )

    # Waiting.

    def _await(self, call: _Call, timeout_s: float | None) -> None:
        wait_s = left_s = _FOREVER if timeout_s is None else max(timeout_s, 0)
        while not call.is_done:
            look_s = min(left_s, _LOOK_S)
            if call.lock.acquire(timeout=look_s):
                left_s = wait_s
            elif left_s <= look_s:
                raise TimedOut(f"no result within {timeout_s} s")
            else:
                left_s -= look_s
            self._serve_requests(call)
        # A request may have come after the last look and before the end; from then on none comes.
        self._serve_requests(call)

    def _serve_requests(self, call: _Call) -> None:
        while call.requests:
            self._serve_request(call)

    def _serve_request(self, call: _Call) -> None:
        function, args, answer = call.requests.popleft()
        try:
            result = function(*args)
        except (KeyboardInterrupt, SystemExit) as interrupt:
            # Such an exception would end the loop: the waiting call is cancelled instead. Another task of the
            # loop may have asked for this, and must not wait for ever.
            what = f"a callback was interrupted by {type(interrupt).__name__} before it was done"
            self.post(_fail, answer, InvalidState(what))
            raise
        except BaseException as failed:  # noqa: BLE001 - whatever a user's callback raises is the coroutine's
            self.post(_fail, answer, failed)
        else:
            self.post(_answer, answer, result)

    def _abandon(self, call: _Call) -> None:
        """Cancel a call that nobody waits for any more, and see it end."""
        try:
            self.post(lambda: call.task is not None and call.task.cancel())
        except ClientClosed:
            return
        while not call.is_done:
            call.lock.acquire()
            self._refuse_requests(call)
        self._refuse_requests(call)

    def _refuse_requests(self, call: _Call) -> None:
        while call.requests:
            self.post(_fail, call.requests.popleft()[2], TimedOut("the caller waits no longer"))

    # The loop's thread.

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._is_closed = True
            self._end()

    def _serve_posted(self) -> None:
        # Down before anything is taken: what is posted from here on wakes the loop again.
        self._is_woken = False
        posted = self._posted
        try:
            for _ in range(len(posted)):
                function, args = posted.popleft()
                function(*args)
        except BaseException:
            self._loop.call_soon(self._serve_posted)
            raise

    def _end(self) -> None:
        loop = self._loop
        try:
            self._serve_posted()
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
            self._is_woken = False
            # Calls that were posted while the loop ended; from here on a post is refused.
            for call in list(self._calls):
                if not call.is_done:
                    call.give_up()


@atexit.register
def _close_all() -> None:
    """A thread must not be in the middle of a loop when the interpreter ends."""
    for thread in list(_OPEN):
        thread.close()


def blocking(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """A method that runs one of ``self._client`` on ``self._thread``, with its name and documentation."""

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


def _answer(answer: asyncio.Future[Any], result: object) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[Any], failed: BaseException) -> None:
    if not answer.done():
        # A future cannot carry this one.
        answer.set_exception(RuntimeError(str(failed)) if isinstance(failed, StopIteration) else failed)
        answer.exception()  # whoever waited for it may have been cancelled: then nobody asks
