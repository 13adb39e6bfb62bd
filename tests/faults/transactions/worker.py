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
AGAIN = (3, 5, 6, 14, 15, 16, 19, 51, 88)
"""Retriable error codes: no leader or coordinator yet, or a transaction still completing."""
REFUSALS = (47, 49, 90, 48)
"""Error codes for a zombie: old epoch, other producer id, invalid transaction state."""
STEPS = 3

offset_fetch = kio_requests("offset_fetch", 7)


class Refused(Exception):
    """Raised for an unexpected error code."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: error {code}")
        self.code = code


class Instance:
    """A producer instance; it starts at the committed offset of its group."""

    def __init__(self, address: str, worker: int) -> None:
        self._worker = worker
        self._group = f"group-{worker}"
        self._connection = RawConnection(address)
        self._sequences: Counter[tuple[str, int]] = Counter()
        try:
            self.who = self._initialise(f"clerk-{worker}")
            self.began_at = self._committed()
        except (ConnectionEnded, OSError, Refused):
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def _committed(self) -> int:
        """Return the committed offset; only a stable one."""
        topic = offset_fetch.OffsetFetchRequestTopic(name=INPUTS, partition_indexes=(self._worker,))
        request = offset_fetch.OffsetFetchRequest(group_id=self._group, topics=(topic,), require_stable=True)
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            answer = self._connection.exchange(request)
            code = answer.error_code or answer.topics[0].partitions[0].error_code
            if code == 0:
                return max(int(answer.topics[0].partitions[0].committed_offset), 0)
            _pause(code, deadline, "OffsetFetch")

    def announce(self, places: list[tuple[str, int]]) -> None:
        """First step: add partitions and offsets to the transaction."""
        partitions, offsets = (
            frames.add_partitions(self.who, places),
            frames.add_offsets(self.who, self._group),
        )
        self._all_fine("AddPartitionsToTxn, AddOffsetsToTxn", [partitions, offsets])

    def write(self, places: list[tuple[str, int]], entries: list[Entry], offset: int) -> None:
        """Second step: write the entries and the offset."""
        values = [entry.value() for entry in entries]
        batches = {place: frames.batch(self.who, self._sequences[place], values) for place in places}
        offsets = frames.commit_offsets(self.who, self._group, INPUTS, self._worker, offset)
        self._all_fine("Produce, TxnOffsetCommit", [frames.produce(self.who, batches), offsets])
        for place in places:
            self._sequences[place] += len(entries)

    def end(self, commits: bool) -> None:
        """Third step: end the transaction."""
        self._all_fine("EndTxn", [frames.end(self.who, commits)])

    def codes(self, bodies: list[bytes]) -> list[list[int]]:
        """Send pipelined requests; return their error codes."""
        for body in bodies:
            self._connection.send_frame(body)
        return [_codes(body, self._connection.receive_frame()) for body in bodies]

    def _all_fine(self, what: str, bodies: list[bytes]) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while bodies:
            again = []
            for body, codes in zip(bodies, self.codes(bodies), strict=True):
                if any(codes):
                    _pause(next(filter(None, codes)), deadline, what)
                    again.append(body)
            bodies = again

    def _initialise(self, name: str) -> Identity:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            self._connection.send_frame(frames.init_producer_id(name, TIMEOUT_MS))
            code, producer_id, epoch = frames.initialised(self._connection.receive_frame())
            if code == 0:
                return Identity(name, producer_id, epoch)
            _pause(code, deadline, "InitProducerId")


def _codes(body: bytes, answer: bytes) -> list[int]:
    api_key = int.from_bytes(body[:2], "big")
    if api_key in (frames.ADD_OFFSETS, frames.END):
        return [frames.code_of(answer)]
    return frames.codes_of(answer, is_produce=api_key == frames.PRODUCE)


def _pause(code: int, deadline: float, what: str) -> None:
    """Wait before a retry; raises Refused if the error is not retriable, or the deadline has passed."""
    if code not in AGAIN or time.monotonic() > deadline:
        raise Refused(what, code)
    time.sleep(0.002)


class Worker(threading.Thread):
    """Runs instances one after another until enough attempts are committed."""

    def __init__(self, address: str, number: int, wanted: int, partitions: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._number = number
        self._wanted = wanted
        self._partitions = partitions
        self._chance = random.Random(seed)
        self._names = itertools.count()
        self._undecided: tuple[str, int] | None = None
        self.position = 0
        self.committed = 0
        self.outcomes_by_attempt: dict[str, Outcome] = {}
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self) -> None:
        while self.committed < self._wanted and not self.wrong:
            try:
                self._live()
            except (ConnectionEnded, OSError):
                self.outcomes["instances that lost the broker"] += 1
                time.sleep(0.05)
            except Refused as refused:
                self.wrong.append(f"worker {self._number}: {refused}")

    def begin_and_go(self) -> None:
        """Start one more instance, which aborts an open transaction of the last one."""
        self._begin().close()

    def _live(self) -> None:
        """Run one instance until it is abandoned or replaced."""
        one = self._begin()
        try:
            while self.committed < self._wanted and not self.wrong:
                if not self._attempt(one):
                    return
        finally:
            one.close()

    def _begin(self) -> Instance:
        one = Instance(self._address, self._number)
        if self._undecided is not None:
            self._decide(*self._undecided, one.began_at)
        elif one.began_at != self.position:
            self.wrong.append(f"worker {self._number}: {one.began_at} is committed, not {self.position}")
        self.outcomes["instances"] += 1
        return one

    def _decide(self, name: str, offset: int, found: int) -> None:
        """Decide an attempt whose EndTxn has no response."""
        self._undecided = None
        if found == offset:
            self._has_committed(name, offset)
        elif found == self.position:
            self.outcomes_by_attempt[name] = Outcome.ABORTED
        else:
            self.wrong.append(f"worker {self._number}: {found} is committed, not {self.position} or {offset}")

    def _attempt(self, one: Instance) -> bool:
        """Run one transaction; return False if the instance ends with it."""
        size, dies_at = self._chance.randint(1, SIZE_MAX), None
        drawn = self._chance.random()
        aborts = drawn < 0.05
        if 0.05 <= drawn < 0.10:
            dies_at = self._chance.randrange(STEPS)
        name = f"{self._number}.{next(self._names)}{TO_BE_ABORTED if aborts else ''}"
        offset = self.position + size
        entries = [Entry(self._number, number, name, size) for number in range(self.position, offset)]
        places = [(SIDES[0], self._number % self._partitions)]
        places.append((SIDES[1], self._chance.randrange(self._partitions)))
        self.outcomes_by_attempt[name] = Outcome.ABORTED
        steps = (
            lambda: one.announce(places),
            lambda: one.write(places, entries, offset),
            lambda: self._end(one, name, offset, not aborts),
        )
        for number, step in enumerate(steps):
            if number == dies_at:
                self._leave(one, places, entries, number)
                return False
            step()
        return True

    def _end(self, one: Instance, name: str, offset: int, commits: bool) -> None:
        if commits:
            self.outcomes_by_attempt[name], self._undecided = Outcome.UNKNOWN, (name, offset)
        one.end(commits)
        if commits:
            self._undecided = None
            self._has_committed(name, offset)
        else:
            self.outcomes["attempts aborted"] += 1

    def _has_committed(self, name: str, offset: int) -> None:
        self.outcomes_by_attempt[name] = Outcome.COMMITTED
        self.position = offset
        self.committed += 1

    def _leave(self, one: Instance, places: list[tuple[str, int]], entries: list[Entry], before: int) -> None:
        """Abandon the instance before a step, or continue as a zombie whose requests must fail."""
        if self._chance.random() < 0.5:
            self.outcomes[f"instances abandoned before step {before}"] += 1
            return
        successor = self._begin()
        values = [entry.value() for entry in entries]
        bodies = [
            frames.add_partitions(one.who, places),
            frames.add_offsets(one.who, f"group-{self._number}"),
            frames.produce(one.who, {place: frames.batch(one.who, 0, values) for place in places}),
            frames.commit_offsets(one.who, f"group-{self._number}", INPUTS, self._number, 1 << 40),
            frames.end(one.who, commits=True),
        ]
        with suppress(ConnectionEnded, OSError):
            for body in bodies[before:]:
                self._check_refused(one, body)
        successor.close()
        self.outcomes[f"zombies refused from step {before} on"] += 1

    def _check_refused(self, one: Instance, body: bytes) -> None:
        """Check that a zombie's request fails, after retries."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            (codes,) = one.codes([body])
            if all(code in REFUSALS for code in codes):
                return
            if not all(code in (*AGAIN, *REFUSALS) for code in codes) or time.monotonic() > deadline:
                api_key = int.from_bytes(body[:2], "big")
                self.wrong.append(f"a zombie's request {api_key} was answered with {codes}")
                return
            time.sleep(0.01)
