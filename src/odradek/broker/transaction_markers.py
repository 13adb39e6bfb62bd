"""Ends transactions in their partitions: appends markers, and goes on until every partition has its own.

``Markers`` appends to partitions that are led here and says when all replicas in sync have what it appended;
whoever asks for markers over the wire is served the same way. ``MarkerTasks`` carries out what coordinators
of this broker decided, however long that takes. The end of a transaction must not wait for a partition that
was deleted, and must not be lost for one that cannot be reached for a while.

Invariants: a partition is done with when its marker is committed there, or when the cluster no longer has it.
A marker may be appended twice, which changes nothing. A task ends with the leadership of the partition that
gave it: whoever leads that next begins it again.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from odradek.cluster.image import ClusterImage
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from odradek.ports.clock import Clock
from odradek.records.control import ControlType, EndMarker
from odradek.replication.delayed_produce import AwaitedAppend, DelayedProduce
from odradek.replication.replicas import Replicas
from odradek.telemetry import events

RETRY_MS_MIN: Final = 50
RETRY_MS_MAX: Final = 1_000
"""How long to wait before what failed is tried again; each time twice as long."""
APPENDS_A_TURN: Final = 16
"""Markers appended before others on the loop have their turn: about a millisecond."""

log = events.logger("transaction_markers")

Codes = Mapping[TopicPartition, ErrorCode]


class Ending(NamedTuple):
    """How a producer's transaction ends, as the coordinator of this epoch decided."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commits: bool

    @property
    def marker(self) -> EndMarker:
        return EndMarker(ControlType.COMMIT if self.commits else ControlType.ABORT, self.coordinator_epoch)


class OffsetsEnded(Protocol):
    """Hears of a marker that was appended to a partition of the offsets topic."""

    def __call__(self, number: int, producer_id: int, *, commits: bool, offset: int) -> None: ...


class _Outcome:
    """What became of a partition; a delayed produce writes its verdict here."""

    __slots__ = ("base_offset", "error_code")

    def __init__(self, error_code: ErrorCode = ErrorCode.NONE) -> None:
        self.error_code = error_code
        self.base_offset = -1


class Markers:
    """The partitions led here. ``wait_ms`` is how long replicas may take to get a marker."""

    def __init__(
        self, replicas: Replicas, clock: Clock, wait_ms: Callable[[], int], offsets_ended: OffsetsEnded
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._wait_ms = wait_ms
        self._offsets_ended = offsets_ended

    def write(
        self, ending: Ending, partitions: Iterable[TopicPartition], told: Callable[[Codes], None]
    ) -> None:
        """End a transaction in some partitions; ``told`` hears of each, once they are all committed, refused
        or out of time."""
        outcomes: dict[TopicPartition, _Outcome] = {}
        waiting: list[AwaitedAppend] = []
        for partition in partitions:
            outcomes[partition] = self._append(ending, partition, waiting)

        def tell() -> None:
            told({partition: ErrorCode(one.error_code) for partition, one in outcomes.items()})

        if waiting:
            delayed = DelayedProduce(waiting, tell)
            self._replicas.delay_produce(delayed, [one.partition for one in waiting], self._wait_ms())
        else:
            tell()

    def _append(self, ending: Ending, name: TopicPartition, waiting: list[AwaitedAppend]) -> _Outcome:
        try:
            partition = self._replicas.leader_of(*name)
            appended = partition.append_end_marker(
                ending.marker, ending.producer_id, ending.producer_epoch, self._clock.wall_ms()
            )
        except BrokerError as refused:
            return _Outcome(refused.code)
        outcome, end_offset = _Outcome(), appended.last_offset + 1
        if partition.awaits_flush:
            self._replicas.flush(partition, _flush_noted)
        if partition.log.high_watermark < end_offset:
            waiting.append(AwaitedAppend(partition, end_offset, outcome))
        self._replicas.appended(partition)
        if name.topic == OFFSETS_TOPIC:
            self._offsets_ended(
                name.partition, ending.producer_id, commits=ending.commits, offset=appended.last_offset
            )
        return outcome


def _flush_noted(failure: StorageError | None) -> None:
    """The high watermark tells; a flush that failed is tried again by whoever looks after the logs."""


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


class MarkerTasks:
    """The transactions that coordinators of this broker are ending."""

    def __init__(self, markers: Markers, image: ClusterImage, clock: Clock) -> None:
        self._markers = markers
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
            log.failure("markers_broken", broken, producer_id=ending.producer_id)

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
        rounds = []
        for first in range(0, len(there), APPENDS_A_TURN):
            if first:
                await asyncio.sleep(0)
            rounds.append(self._write_here(ending, there[first : first + APPENDS_A_TURN]))
        for answer in rounds:
            codes.update(await answer)
        return codes

    def _write_here(self, ending: Ending, partitions: Sequence[TopicPartition]) -> asyncio.Future[Codes]:
        answer: asyncio.Future[Codes] = asyncio.get_running_loop().create_future()

        def tell(codes: Codes) -> None:
            if not answer.done():  # who gave the task up does not listen
                answer.set_result(codes)

        self._markers.write(ending, partitions, tell)
        return answer

    def _is_gone(self, number: int, partition: TopicPartition) -> bool:
        """Whether the cluster no longer has a partition. An image that does not hold the coordinator's own
        one yet, shortly after a start, cannot tell."""
        if self._image.partition(TRANSACTIONS_TOPIC, number) is None:
            return False
        return self._image.partition(*partition) is None
