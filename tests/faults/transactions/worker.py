"""A worker that reads inputs and writes transactions, with random failures of its instances.

Each worker has one transactional id, one group and one input partition. Its instances are abandoned before
any step, abort, or continue as zombies beside their successor; the broker may be killed at any time. A
worker knows the outcome of its attempts: an EndTxn without a response is decided by the committed offset.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from contextlib import suppress

from tests.faults.transactions import frames
from tests.faults.transactions.checker import SIDES, TO_BE_ABORTED, Entry, Outcome
from tests.faults.transactions.frames import Identity
from tests.support.kio_requests import kio_requests
from tests.support.raw_connection import ConnectionEnded, RawConnection

INPUTS = "inputs"
TIMEOUT_MS = 30_000
SIZE_MAX = 3
ANSWER_SECONDS_MAX = 40.0
RETRIABLE = (3, 5, 6, 7, 14, 15, 16, 19, 20, 51, 88)
"""Retriable error codes: no leader, coordinator or replicas yet, or a transaction still completing."""
FENCED_CODES = (47, 49, 90, 48)
"""Error codes for a zombie: old epoch, other producer id, invalid transaction state."""
OPERATION_NOT_ATTEMPTED = 55
STEPS = 3

offset_fetch = kio_requests("offset_fetch", 7)


class Refused(Exception):
    """Raised for an unexpected error code."""

    def __init__(self, request_name: str, code: int) -> None:
        super().__init__(f"{request_name}: error {code}")
        self.code = code


class Instance:
    """A producer instance; it starts at the committed offset of its group."""

    def __init__(self, address: str, worker: int) -> None:
        self._worker = worker
        self._group = f"group-{worker}"
        self._connection = self.connect(address)
        self._sequences: Counter[tuple[str, int]] = Counter()
        try:
            self.who = self._initialise(f"clerk-{worker}")
            self.began_at = self._committed()
        except (ConnectionEnded, OSError, Refused):
            self.close()
            raise

    def connect(self, address: str) -> RawConnection:
        return RawConnection(address)

    def close(self) -> None:
        self._connection.close()

    def _committed(self) -> int:
        """Return the committed offset; only a stable one."""
        topic = offset_fetch.OffsetFetchRequestTopic(name=INPUTS, partition_indexes=(self._worker,))
        request = offset_fetch.OffsetFetchRequest(group_id=self._group, topics=(topic,), require_stable=True)
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            response = self._connection.exchange(request)
            code = response.error_code or response.topics[0].partitions[0].error_code
            if code == 0:
                return max(int(response.topics[0].partitions[0].committed_offset), 0)
            _pause(code, deadline, "OffsetFetch")

    def add_to_transaction(self, partitions_written: list[tuple[str, int]]) -> None:
        """First step: add partitions and offsets to the transaction."""
        partitions, offsets = (
            frames.add_partitions(self.who, partitions_written),
            frames.add_offsets(self.who, self._group),
        )
        self._send_until_accepted("AddPartitionsToTxn, AddOffsetsToTxn", [partitions, offsets])

    def write(self, partitions_written: list[tuple[str, int]], entries: list[Entry], offset: int) -> None:
        """Second step: write the entries and the offset."""
        values = [entry.value() for entry in entries]
        batches = {
            partition: frames.batch(self.who, self._sequences[partition], values)
            for partition in partitions_written
        }
        offsets = frames.commit_offsets(self.who, self._group, INPUTS, self._worker, offset)
        self._send_until_accepted("Produce, TxnOffsetCommit", [frames.produce(self.who, batches), offsets])
        for partition in partitions_written:
            self._sequences[partition] += len(entries)

    def end(self, commits: bool) -> None:
        """Third step: end the transaction."""
        self._send_until_accepted("EndTxn", [frames.end(self.who, commits)])

    def codes(self, bodies: list[bytes]) -> list[list[int]]:
        """Send pipelined requests; return their error codes."""
        for body in bodies:
            self._connection.send_frame(body)
        return [codes_of(body, self._connection.receive_frame()) for body in bodies]

    def _send_until_accepted(self, request_name: str, bodies: list[bytes]) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while bodies:
            retried = []
            for body, codes in zip(bodies, self.codes(bodies), strict=True):
                if any(codes):
                    _pause(_cause_of(codes), deadline, request_name)
                    retried.append(body)
            bodies = retried

    def _initialise(self, name: str) -> Identity:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            self._connection.send_frame(frames.init_producer_id(name, TIMEOUT_MS))
            code, producer_id, epoch = frames.initialised(self._connection.receive_frame())
            if code == 0:
                return Identity(name, producer_id, epoch)
            _pause(code, deadline, "InitProducerId")


def codes_of(body: bytes, response: bytes) -> list[int]:
    api_key = int.from_bytes(body[:2], "big")
    if api_key in (frames.ADD_OFFSETS, frames.END):
        return [frames.code_of(response)]
    return frames.codes_of(response, is_produce=api_key == frames.PRODUCE)


def _cause_of(codes: list[int]) -> int:
    """Return the error of a request. Partitions that were not attempted because of another one have none."""
    return min(filter(None, codes), key=lambda code: code == OPERATION_NOT_ATTEMPTED)


def _pause(code: int, deadline: float, request_name: str) -> None:
    """Wait before a retry; raises Refused if the error is not retriable, or the deadline has passed."""
    if code not in RETRIABLE or time.monotonic() > deadline:
        raise Refused(request_name, code)
    time.sleep(0.002)


class Worker(threading.Thread):
    """Runs instances one after another until enough attempts are committed."""

    make_instance: type[Instance] = Instance

    def __init__(self, address: str, number: int, transactions: int, partitions: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._number = number
        self._transactions = transactions
        self._partitions = partitions
        self._rng = random.Random(seed)
        self._names = itertools.count()
        self._undecided: tuple[str, int] | None = None
        self.position = 0
        self.committed = 0
        self.outcomes_by_attempt: dict[str, Outcome] = {}
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self) -> None:
        while self.committed < self._transactions and not self.wrong:
            try:
                self._run_instance()
            except (ConnectionEnded, OSError):
                self.outcomes["instances that lost the broker"] += 1
                time.sleep(0.05)
            except Refused as error:
                self.wrong.append(f"worker {self._number}: {error}")

    def start_and_close(self) -> None:
        """Start one more instance, which aborts an open transaction of the last one."""
        self._start_instance().close()

    def _run_instance(self) -> None:
        """Run one instance until it is abandoned or replaced."""
        instance = self._start_instance()
        try:
            while self.committed < self._transactions and not self.wrong:
                if not self._attempt(instance):
                    return
        finally:
            instance.close()

    def _start_instance(self) -> Instance:
        instance = self.make_instance(self._address, self._number)
        if self._undecided is not None:
            self._decide(*self._undecided, instance.began_at)
        elif instance.began_at != self.position:
            self.wrong.append(f"worker {self._number}: {instance.began_at} is committed, not {self.position}")
        self.outcomes["instances"] += 1
        return instance

    def _decide(self, name: str, offset: int, committed_offset: int) -> None:
        """Decide an attempt whose EndTxn has no response."""
        self._undecided = None
        if committed_offset == offset:
            self._has_committed(name, offset)
        elif committed_offset == self.position:
            self.outcomes_by_attempt[name] = Outcome.ABORTED
        else:
            self.wrong.append(
                f"worker {self._number}: {committed_offset} is committed, not {self.position} or {offset}"
            )

    def _attempt(self, instance: Instance) -> bool:
        """Run one transaction; return False if the instance ends with it."""
        size, dies_at = self._rng.randint(1, SIZE_MAX), None
        draw = self._rng.random()
        aborts = draw < 0.05
        if 0.05 <= draw < 0.10:
            dies_at = self._rng.randrange(STEPS)
        name = f"{self._number}.{next(self._names)}{TO_BE_ABORTED if aborts else ''}"
        offset = self.position + size
        entries = [Entry(self._number, number, name, size) for number in range(self.position, offset)]
        partitions_written = [(SIDES[0], self._number % self._partitions)]
        partitions_written.append((SIDES[1], self._rng.randrange(self._partitions)))
        self.outcomes_by_attempt[name] = Outcome.ABORTED
        steps = (
            lambda: instance.add_to_transaction(partitions_written),
            lambda: instance.write(partitions_written, entries, offset),
            lambda: self._end(instance, name, offset, not aborts),
        )
        for number, step in enumerate(steps):
            if number == dies_at:
                self._abandon(instance, partitions_written, entries, number)
                return False
            step()
        return True

    def _end(self, instance: Instance, name: str, offset: int, commits: bool) -> None:
        if commits:
            self.outcomes_by_attempt[name], self._undecided = Outcome.UNKNOWN, (name, offset)
        instance.end(commits)
        if commits:
            self._undecided = None
            self._has_committed(name, offset)
        else:
            self.outcomes["attempts aborted"] += 1

    def _has_committed(self, name: str, offset: int) -> None:
        self.outcomes_by_attempt[name] = Outcome.COMMITTED
        self.position = offset
        self.committed += 1

    def _abandon(
        self, instance: Instance, partitions_written: list[tuple[str, int]], entries: list[Entry], before: int
    ) -> None:
        """Abandon the instance before a step, or continue as a zombie whose requests must fail."""
        if self._rng.random() < 0.5:
            self.outcomes[f"instances abandoned before step {before}"] += 1
            return
        successor = self._start_instance()
        values = [entry.value() for entry in entries]
        bodies = [
            frames.add_partitions(instance.who, partitions_written),
            frames.add_offsets(instance.who, f"group-{self._number}"),
            frames.produce(
                instance.who,
                {partition: frames.batch(instance.who, 0, values) for partition in partitions_written},
            ),
            frames.commit_offsets(instance.who, f"group-{self._number}", INPUTS, self._number, 1 << 40),
            frames.end(instance.who, commits=True),
        ]
        with suppress(ConnectionEnded, OSError):
            for body in bodies[before:]:
                self._check_fenced(instance, body)
        successor.close()
        self.outcomes[f"zombies refused from step {before} on"] += 1

    def _check_fenced(self, instance: Instance, body: bytes) -> None:
        """Check that a zombie's request fails, after retries."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            (codes,) = instance.codes([body])
            if all(code in FENCED_CODES for code in codes):
                return
            allowed = (*RETRIABLE, *FENCED_CODES, OPERATION_NOT_ATTEMPTED)
            if not all(code in allowed for code in codes) or time.monotonic() > deadline:
                api_key = int.from_bytes(body[:2], "big")
                self.wrong.append(f"a zombie's request {api_key} got error codes {codes}")
                return
            time.sleep(0.01)
