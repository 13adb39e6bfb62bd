"""Virtual time, and simulated processes that can be killed.

``VirtualLoop`` is asyncio's loop on a selector that advances the clock to the next timer instead of waiting
for it: code runs unchanged, a day takes a millisecond, and a deadlock raises instead of hanging. Ready
callbacks keep their order; randomness enters through the network, the disk and crashes.

``Process`` simulates an operating system process: everything started inside its ``context`` belongs to it
(tasks and timers inherit a context variable). ``pause`` stops all of it as SIGSTOP does, ``kill`` ends it.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from heapq import heappush
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

WALL_START_MS: Final = 1_700_000_000_000
"""Wall clock time at the start of virtual time."""

_PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Deadlock(Exception):
    """Raised when nothing is ready and no timer is scheduled."""


class _VirtualSelector(selectors.BaseSelector):
    """A selector that advances the clock instead of waiting."""

    def __init__(self, start_s: float) -> None:
        self.now_s = start_s
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is scheduled")
        self.now_s += max(timeout, 0)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        self._keys[fileobj] = key = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class _PausableHandle(asyncio.Handle):
    """A callback that waits while its process is paused, and never runs once it is dead."""

    __slots__ = ()

    def _run(self) -> None:
        if _may_run(self):
            super()._run()


class _PausableTimerHandle(asyncio.TimerHandle):
    """A timer that waits while its process is paused, and never runs once it is dead."""

    __slots__ = ()

    def _run(self) -> None:
        if _may_run(self):
            super()._run()


def _may_run(handle: asyncio.Handle) -> bool:
    process = handle._context.get(_PROCESS)  # type: ignore[attr-defined]
    if process is None:
        return True
    if process.is_paused:
        process.held.append(handle)
        return False
    process.has_run = True
    return not process.is_dead


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, without threads or sockets."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._virtual_selector = _VirtualSelector(start_s)
        super().__init__(self._virtual_selector)
        self.set_task_factory(_make_task)
        self.after_turn: Callable[[], None] | None = None
        """Called after each iteration of the loop: the place for checks of invariants."""

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        if self.after_turn is not None:
            self.after_turn()

    def _call_soon(self, callback: Any, args: Any, context: Any) -> asyncio.Handle:
        handle = _PausableHandle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _PausableTimerHandle(when, callback, args, self, context)
        heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def run_soon(self, handles: list[asyncio.Handle]) -> None:
        """Run handles of a resumed process in the next iteration, in their order."""
        self._ready.extend(handle for handle in handles if not handle.cancelled())  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._virtual_selector.now_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("threads are not available in virtual time")

    def cancel_callbacks_of(self, process: Process) -> None:
        """Cancel the callbacks and timers of a process."""
        for handle in [*self._ready, *self._scheduled]:  # type: ignore[attr-defined]
            if handle._context.get(_PROCESS) is process and not _is_task_step(handle):
                handle.cancel()


def _make_task(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    process = _PROCESS.get()
    if process is not None:
        process.tasks[task] = None
    return task


def _is_task_step(handle: asyncio.Handle) -> bool:
    """Return whether a handle is a task's next step: the task itself is cancelled."""
    return isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)  # type: ignore[attr-defined]


class Process:
    """A simulated process: everything started inside ``context``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: WeakKeyDictionary[asyncio.Task[Any], None] = WeakKeyDictionary()
        """Tasks, oldest first: they are cancelled in an order that a seed repeats."""
        self.context = contextvars.copy_context()
        self.context.run(_PROCESS.set, self)
        self.is_paused = False
        self.is_dead = False
        self.has_run = False
        """Set by every callback of the process, for those who ask only now and then."""
        self.held: list[asyncio.Handle] = []

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
        tasks = [task for task in self.tasks if not task.done()]
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
