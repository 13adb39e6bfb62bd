"""Virtual time, and simulated processes that can be killed.

``VirtualLoop`` is asyncio's loop, except that it advances the clock to the next timer instead of waiting for
it: code runs unchanged, a day takes a millisecond, and a deadlock raises instead of hanging. Ready
callbacks keep their order; randomness enters through the network, the disk and crashes.

``Process`` simulates an operating system process: everything started inside its ``context`` belongs to it
(tasks and timers inherit a context variable). ``pause`` stops all of it as SIGSTOP does, ``kill`` ends it.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeVar

T = TypeVar("T")

WALL_START_MS: Final = 1_700_000_000_000
"""Wall clock time at the start of virtual time."""

# Of asyncio's loop.
_CLOCK_RESOLUTION_S: Final = 1e-9
_SLEEP_MAX_S: Final = 24 * 3600
_TIMERS_MIN: Final = 100
_CANCELLED_FRACTION_MAX: Final = 0.5

_TASKS_MIN: Final = 100

_PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Deadlock(Exception):
    """Raised when nothing is ready and no timer is scheduled."""


class _UnusedSelector(selectors.BaseSelector):
    """A selector that is never asked: on virtual time nothing happens outside the process."""

    def __init__(self) -> None:
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        raise AssertionError("a virtual loop waits for nothing")

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        self._keys[fileobj] = key = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class _VirtualHandle(asyncio.Handle):
    """A callback without what asyncio keeps for its debug mode."""

    __slots__ = ()

    _callback: Any
    _args: Any
    _context: contextvars.Context
    _cancelled: bool

    def __init__(
        self,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None


class _VirtualTimerHandle(asyncio.TimerHandle):
    """A timer without what asyncio keeps for its debug mode."""

    __slots__ = ()

    _callback: Any
    _args: Any
    _context: contextvars.Context
    _cancelled: bool
    _scheduled: bool

    def __init__(
        self,
        when: float,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = self._args = None
            if self._scheduled:
                self._loop.cancelled_timers += 1


class _DueTime(float):
    """Due time of a timer: a float, so that the heap compares without calls of Python functions."""

    __slots__ = ("timer",)

    timer: _VirtualTimerHandle


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, without threads or sockets.

    Callbacks run in the order in which asyncio would run them. One that belongs to a process waits while the
    process is paused, and never runs once it is dead.
    """

    # Of asyncio's loop, which reads them too.
    _stopping: bool
    _closed: bool

    def __init__(self, start_s: float = 0.0) -> None:
        super().__init__(_UnusedSelector())
        self._now_s = start_s
        self._ready: deque[_VirtualHandle | _VirtualTimerHandle] = deque()
        self._scheduled: list[_DueTime] = []
        self.cancelled_timers = 0
        """Number of cancelled timers that are still in the heap."""
        self.after_turn: Callable[[], None] | None = None
        """Called after each iteration of the loop: the place for checks of invariants."""
        self.ran: set[Process] = set()
        """Processes of which a callback has run; cleared by those who ask."""

    def _run_once(self) -> None:
        ready = self._ready
        self._drop_cancelled_timers()
        scheduled = self._scheduled
        if not ready and not self._stopping:
            if not scheduled:
                raise Deadlock("nothing is ready and no timer is scheduled")
            self._now_s += min(max(0, scheduled[0] - self._now_s), _SLEEP_MAX_S)
        end_s = self._now_s + _CLOCK_RESOLUTION_S
        while scheduled and scheduled[0] < end_s:
            timer = heappop(scheduled).timer
            timer._scheduled = False
            ready.append(timer)
        ran = self.ran
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(_PROCESS)
            if process is not None:
                if process.is_paused:
                    process.held.append(handle)
                    continue
                ran.add(process)
                if process.is_dead:
                    continue
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - asyncio reports all of them
                self._report(handle, error)
        handle = None  # type: ignore[assignment]  # breaks a cycle after an exception
        if self.after_turn is not None:
            self.after_turn()

    def _report(self, handle: asyncio.Handle, error: BaseException) -> None:
        self.call_exception_handler(
            {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
        )

    def _drop_cancelled_timers(self) -> None:
        """Drop timers as asyncio does: timers of one time run in an order that depends on the heap."""
        scheduled = self._scheduled
        count = len(scheduled)
        if count > _TIMERS_MIN and self.cancelled_timers / count > _CANCELLED_FRACTION_MAX:
            for due in scheduled:
                due.timer._scheduled = not due.timer._cancelled
            self._scheduled = [due for due in scheduled if due.timer._scheduled]
            heapify(self._scheduled)
            self.cancelled_timers = 0
        else:
            while scheduled and scheduled[0].timer._cancelled:
                self.cancelled_timers -= 1
                heappop(scheduled).timer._scheduled = False

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        if self._closed:
            self._check_closed()  # type: ignore[attr-defined]
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        process = _PROCESS.get()
        if process is not None:
            process.add_task(task)
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            self._check_closed()  # type: ignore[attr-defined]
        handle = _VirtualHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _VirtualTimerHandle(when, callback, args, self, context)
        due = _DueTime(when)
        due.timer = timer
        heappush(self._scheduled, due)
        return timer

    def run_soon(self, handles: list[_VirtualHandle | _VirtualTimerHandle]) -> None:
        """Run handles of a resumed process in the next iteration, in their order."""
        self._ready.extend(handle for handle in handles if not handle.cancelled())

    def time(self) -> float:
        return self._now_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("threads are not available in virtual time")

    def cancel_callbacks_of(self, process: Process) -> None:
        """Cancel the callbacks and timers of a process."""
        for handle in [*self._ready, *(due.timer for due in self._scheduled)]:
            if handle._context.get(_PROCESS) is process and not _is_task_step(handle):
                handle.cancel()


def _is_task_step(handle: asyncio.Handle) -> bool:
    """Return whether a handle is a task's next step: the task itself is cancelled."""
    return isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)  # type: ignore[attr-defined]


class Process:
    """A simulated process: everything started inside ``context``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._tasks: list[asyncio.Task[Any]] = []
        """Tasks, oldest first: they are cancelled in an order that a seed repeats."""
        self._tasks_max = _TASKS_MIN
        self.context = contextvars.copy_context()
        self.context.run(_PROCESS.set, self)
        self.is_paused = False
        self.is_dead = False
        self.held: list[_VirtualHandle | _VirtualTimerHandle] = []

    def add_task(self, task: asyncio.Task[Any]) -> None:
        """Add a task of the process. Those that are done are dropped now and then."""
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_max:
            self._tasks = self._unfinished_tasks()
            self._tasks_max = max(_TASKS_MIN, 2 * len(self._tasks))

    def _unfinished_tasks(self) -> list[asyncio.Task[Any]]:
        return [task for task in self._tasks if not task.done()]

    def pause(self) -> None:
        """Stop running, as with SIGSTOP: due callbacks wait for ``resume``."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        held, self.held = self.held, []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "only on virtual time can a process be paused"
        loop.run_soon(held)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work as part of this process."""
        return await self.context.run(asyncio.get_running_loop().create_task, work)

    async def kill(self) -> None:
        """End the process. Tasks are cancelled and awaited; callbacks are never called."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "only on virtual time can a process be killed"
        if self.is_paused:
            # Its tasks must run once more to be cancelled; its callbacks are dropped.
            self.is_paused = False
            loop.run_soon([handle for handle in self.held if _is_task_step(handle)])
            self.held = []
        tasks = self._unfinished_tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        loop.cancel_callbacks_of(self)
        self.is_dead = True


class VirtualClock:
    """The clock port on a loop's time. The wall may be moved; the other hand never goes back."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wall_start_ms: int = WALL_START_MS) -> None:
        self._loop = loop
        self._wall_start_ms = wall_start_ms

    def wall_ms(self) -> int:
        return self._wall_start_ms + self.monotonic_ms()

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def monotonic_ms(self) -> int:
        # A timer for a whole millisecond may fire early by a rounding error.
        return int(self._loop.time() * 1000 + 1e-4)

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)

    def move_wall(self, by_ms: int) -> None:
        self._wall_start_ms += by_ms


def run_virtually(main: Callable[[], Awaitable[T]], start_s: float = 0.0) -> T:
    """Run a coroutine function on a new virtual loop."""

    async def body() -> T:
        return await main()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start_s)) as runner:
        return runner.run(body())
