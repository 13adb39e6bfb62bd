"""A clerk takes inputs and writes transactions, by hand and fast; chance says what becomes of its instances.

One transactional id, one group, one input partition each. Instances of a clerk are abandoned before any step,
abort, and live on as zombies beside their successor; the broker may go away at any time. A clerk knows the
fate of its attempts: an attempt whose end was asked for and not answered is decided by the committed offset.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from contextlib import suppress

from tests.faults.transactions import frames
from tests.faults.transactions.checker import SIDES, TO_BE_ABORTED, Entry, Fate
from tests.faults.transactions.frames import Identity
from tests.support.kio_requests import kio_requests
from tests.support.raw_connection import ConnectionEnded, RawConnection

INPUTS = "inputs"
TIMEOUT_MS = 30_000
SIZE_MAX = 3
ANSWER_SECONDS_MAX = 40.0
AGAIN = (3, 5, 6, 14, 15, 16, 19, 51, 88)
"""A leader or a coordinator on its way, or the transaction before not yet done: the same request again."""
REFUSALS = (47, 49, 90, 48)
"""What a zombie is told: an old epoch, in two ways; another producer id; nothing is going on."""
STEPS = 3

offset_fetch = kio_requests("offset_fetch", 7)


class Refused(Exception):
    """An error code that a request should not have got."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: error {code}")
        self.code = code


class Instance:
    """A producer from its InitProducerId on; it begins where its group is."""

    def __init__(self, address: str, clerk: int) -> None:
        self._clerk = clerk
        self._group = f"group-{clerk}"
        self._connection = RawConnection(address)
        self._sequences: Counter[tuple[str, int]] = Counter()
        try:
            self.who = self._initialise(f"clerk-{clerk}")
            self.began_at = self._committed()
        except (ConnectionEnded, OSError, Refused):
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def _committed(self) -> int:
        """Where the group is; only what is stable is told."""
        topic = offset_fetch.OffsetFetchRequestTopic(name=INPUTS, partition_indexes=(self._clerk,))
        request = offset_fetch.OffsetFetchRequest(group_id=self._group, topics=(topic,), require_stable=True)
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            answer = self._connection.exchange(request)
            code = answer.error_code or answer.topics[0].partitions[0].error_code
            if code == 0:
                return max(int(answer.topics[0].partitions[0].committed_offset), 0)
            _pause(code, deadline, "OffsetFetch")

    def announce(self, places: list[tuple[str, int]]) -> None:
        """First step: say where the transaction writes."""
        partitions, offsets = (
            frames.add_partitions(self.who, places),
            frames.add_offsets(self.who, self._group),
        )
        self._all_fine("AddPartitionsToTxn, AddOffsetsToTxn", [partitions, offsets])

    def write(self, places: list[tuple[str, int]], entries: list[Entry], offset: int) -> None:
        """Second step: the entries and the offset."""
        values = [entry.value() for entry in entries]
        batches = {place: frames.batch(self.who, self._sequences[place], values) for place in places}
        offsets = frames.commit_offsets(self.who, self._group, INPUTS, self._clerk, offset)
        self._all_fine("Produce, TxnOffsetCommit", [frames.produce(self.who, batches), offsets])
        for place in places:
            self._sequences[place] += len(entries)

    def end(self, commits: bool) -> None:
        """Third step."""
        self._all_fine("EndTxn", [frames.end(self.who, commits)])

    def codes(self, bodies: list[bytes]) -> list[list[int]]:
        """Send requests together; their error codes."""
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
    """Wait a little before the same request goes again; Refused if it must not, or has gone too often."""
    if code not in AGAIN or time.monotonic() > deadline:
        raise Refused(what, code)
    time.sleep(0.002)


class Clerk(threading.Thread):
    """One instance after the other until so many attempts have been committed."""

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
        self.fates: dict[str, Fate] = {}
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
                self.wrong.append(f"clerk {self._number}: {refused}")

    def begin_and_go(self) -> None:
        """Begin once more, which ends what the last instance left open."""
        self._begin().close()

    def _live(self) -> None:
        """One instance: until it is abandoned, or has a successor."""
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
            self.wrong.append(f"clerk {self._number}: {one.began_at} is committed, not {self.position}")
        self.outcomes["instances"] += 1
        return one

    def _decide(self, name: str, offset: int, found: int) -> None:
        """The broker went away with the end of an attempt: it has one all the same."""
        self._undecided = None
        if found == offset:
            self._has_committed(name, offset)
        elif found == self.position:
            self.fates[name] = Fate.ABORTED
        else:
            self.wrong.append(f"clerk {self._number}: {found} is committed, not {self.position} or {offset}")

    def _attempt(self, one: Instance) -> bool:
        """One transaction; False if the instance ends with it."""
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
        self.fates[name] = Fate.ABORTED
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
            self.fates[name], self._undecided = Fate.UNKNOWN, (name, offset)
        one.end(commits)
        if commits:
            self._undecided = None
            self._has_committed(name, offset)
        else:
            self.outcomes["attempts aborted"] += 1

    def _has_committed(self, name: str, offset: int) -> None:
        self.fates[name] = Fate.COMMITTED
        self.position = offset
        self.committed += 1

    def _leave(self, one: Instance, places: list[tuple[str, int]], entries: list[Entry], before: int) -> None:
        """Vanish before a step, or live on as a zombie whose successor is there: all it asks is refused."""
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
        """A zombie may have to ask again, but is never served."""
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
