"""Carries out what coordinators of this broker decided: ends each transaction in all of its partitions.

That takes as long as it takes: a partition that cannot be written to is tried again, less and less often. It
must not wait for a partition that was deleted, nor be lost for one that cannot be reached for a while.

Invariants: a partition is done with when its marker is committed there, or when the cluster no longer has it.
A task ends with the leadership of the partition that gave it: whoever leads that next begins it again.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from odradek.broker.coordinators.transaction_marker_writer import Codes, Ending, Markers
from odradek.cluster.metadata_cache import MetadataCache
from odradek.model.errors import ErrorCode
from odradek.model.ids import TRANSACTIONS_TOPIC, TopicPartition
from odradek.ports.clock import Clock
from odradek.telemetry import events

RETRY_MS_MIN: Final = 50
RETRY_MS_MAX: Final = 1_000
"""How long to wait before what failed is tried again; each time twice as long."""
APPENDS_A_TURN: Final = 16
"""Markers appended before others on the loop have their turn, of however many transactions: about a
millisecond."""

log = events.logger("transaction_markers")


class Verdict(enum.Enum):
    """What a code means for a partition that is to end a transaction."""

    DONE = enum.auto()
    AGAIN = enum.auto()
    FENCED = enum.auto()


def judge(code: ErrorCode) -> Verdict:
    """Fenced means that somebody newer decides, so that nothing is left to do here."""
    if code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
        return Verdict.DONE
    if code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        return Verdict.FENCED
    return Verdict.AGAIN


def _having(verdict: Verdict, codes: Codes) -> tuple[TopicPartition, ...]:
    return tuple(partition for partition, code in codes.items() if judge(code) is verdict)


def _reasons(codes: Codes, partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{partition}: {codes[partition].name}" for partition in partitions)


Told = Callable[[tuple[TopicPartition, ...]], None]


class _Line:
    """Writes that wait for their turn: after a start, very many transactions may have to be ended."""

    def __init__(self, markers: Markers) -> None:
        self._markers = markers
        self._waiting: deque[tuple[Ending, Sequence[TopicPartition], asyncio.Future[Codes]]] = deque()

    def add(self, ending: Ending, partitions: Sequence[TopicPartition]) -> asyncio.Future[Codes]:
        """Have markers written, soon; gives what became of them, once it is known."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Codes] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._take_turn)
        self._waiting.append((ending, partitions, answer))
        return answer

    def _take_turn(self) -> None:
        appended = 0
        while self._waiting and appended < APPENDS_A_TURN:
            ending, partitions, answer = self._waiting.popleft()
            if not answer.done():  # who gave a task up does not listen
                appended += len(partitions)
                self._write(ending, partitions, answer)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _write(
        self, ending: Ending, partitions: Sequence[TopicPartition], answer: asyncio.Future[Codes]
    ) -> None:
        def tell(codes: Codes) -> None:
            if not answer.done():
                answer.set_result(codes)

        try:
            self._markers.write(ending, partitions, tell)
        except Exception as broken:  # noqa: BLE001 - the edge of a callback: told to whoever waits
            answer.set_exception(broken)


class MarkerTasks:
    """The transactions that coordinators of this broker are ending."""

    def __init__(self, markers: Markers, image: MetadataCache, clock: Clock) -> None:
        self._line = _Line(markers)
        self._image = image
        self._clock = clock
        self._tasks: dict[int, set[asyncio.Task[None]]] = {}
        self._is_stopped = False

    def begin(self, number: int, ending: Ending, partitions: Sequence[TopicPartition], told: Told) -> None:
        """End a transaction for partition ``number`` of the transaction topic; ``told`` hears of partitions
        that are done, later, until it has heard of all. It does not, if somebody newer decides."""
        if self._is_stopped:
            return
        tasks = self._tasks.setdefault(number, set())
        task = asyncio.get_running_loop().create_task(self._run(number, ending, tuple(partitions), told))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def cancel(self, number: int) -> None:
        """Partition ``number`` of the transaction topic is led here no longer."""
        for task in self._tasks.pop(number, ()):
            task.cancel()

    async def stop(self) -> None:
        self._is_stopped = True
        under_way = [task for tasks in self._tasks.values() for task in tasks]
        for number in list(self._tasks):
            self.cancel(number)
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _run(
        self, number: int, ending: Ending, partitions: tuple[TopicPartition, ...], told: Told
    ) -> None:
        try:
            await self._go_on_until_done(number, ending, partitions, told)
        except Exception as broken:  # noqa: BLE001 - the edge of a task
            log.failure("marker_task_crashed", broken, producer_id=ending.producer_id)

    async def _go_on_until_done(
        self, number: int, ending: Ending, partitions: tuple[TopicPartition, ...], told: Told
    ) -> None:
        left, wait_ms = partitions, RETRY_MS_MIN
        while True:
            codes = await self._write_all(number, ending, left)
            done, fenced = _having(Verdict.DONE, codes), _having(Verdict.FENCED, codes)
            left = _having(Verdict.AGAIN, codes)
            if done or not left:
                told(done)
            if fenced:
                log.warning("markers_fenced", reason=_reasons(codes, fenced), **ending._asdict())
                return
            if not left:
                return
            if wait_ms < RETRY_MS_MAX <= 2 * wait_ms:  # told once
                log.warning("markers_delayed", reason=_reasons(codes, left), **ending._asdict())
            await self._clock.sleep_ms(wait_ms)
            wait_ms = min(2 * wait_ms, RETRY_MS_MAX)

    async def _write_all(self, number: int, ending: Ending, partitions: Sequence[TopicPartition]) -> Codes:
        """Try all of them, wherever they are led; those that are no more count as done."""
        codes: dict[TopicPartition, ErrorCode] = {}
        there = []
        for partition in partitions:
            if self._is_gone(number, partition):
                codes[partition] = ErrorCode.NONE
            else:
                there.append(partition)
        firsts = range(0, len(there), APPENDS_A_TURN)
        for answer in [self._line.add(ending, there[one : one + APPENDS_A_TURN]) for one in firsts]:
            codes.update(await answer)
        return codes

    def _is_gone(self, number: int, partition: TopicPartition) -> bool:
        """Whether the cluster no longer has a partition. An image that does not hold the coordinator's own
        one yet, shortly after a start, cannot tell."""
        if self._image.partition(TRANSACTIONS_TOPIC, number) is None:
            return False
        return self._image.partition(*partition) is None
