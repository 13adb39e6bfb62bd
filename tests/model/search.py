"""Breadth-first search of all states within a scope, for the shortest way to a violation."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tests.model import broker_steps, controller_steps, crash_steps, fetch_steps
from tests.model.canonical import canonical, normal, rename
from tests.model.invariants import violated_between, violated_by
from tests.model.rules import Model
from tests.model.state import MEMBERS, State, Status, Step, initial_state

PROGRESS_STATES: Final = 100_000
ALIASES_MAX: Final = 4_000_000
"""About 400 MB."""
FIELD_BITS: Final = 24
FIELD_MASK: Final = (1 << FIELD_BITS) - 1


class Violation(NamedTuple):
    invariant: str
    trace: list[Step]
    """The shortest way from the initial state, with the names of brokers unchanged."""


class Result(NamedTuple):
    states: int
    steps: int
    depth: int
    """Length of the longest shortest way to a state."""
    cpu_seconds: float
    is_complete: bool
    violation: Violation | None


def successors(model: Model, state: State) -> Iterator[Step]:
    """Yield each possible step, except faults beyond those that the scope allows."""
    may_lose = model.scope.last_replica_may_lose or not model.scope.losses
    for module in (broker_steps, fetch_steps, controller_steps, crash_steps):
        for step in module.steps(model, state):
            if may_lose or _has_intact_replica(step[1]):
                yield step


def _has_intact_replica(state: State) -> bool:
    return any(state.replicas[broker].status is not Status.DOWN_LOST for broker in MEMBERS[state.stored.isr])


class StateCodec:
    """Packs states into integers. Equal parts of states are kept once."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._parts: list[object] = []

    def pack(self, state: State) -> int:
        replicas, stored, sent, messages, alterations, history = state
        key = 0
        for part in (*replicas, (stored, sent), (messages, alterations), history):
            number = self._numbers.get(part)
            if number is None:
                number = self._numbers[part] = len(self._parts)
                self._parts.append(part)
                assert number <= FIELD_MASK
            key = key << FIELD_BITS | number
        return key

    def unpack(self, key: int) -> State:
        parts = []
        for _ in range(6):
            parts.append(self._parts[key & FIELD_MASK])
            key >>= FIELD_BITS
        history, (messages, alterations), (stored, sent), *replicas = parts  # type: ignore[misc]
        return State(tuple(reversed(replicas)), stored, sent, messages, alterations, history)  # type: ignore


class Search:
    """One search. Memory: about 200 bytes a state."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._codec = StateCodec()
        self._keys: list[int] = []
        self._seen: set[int] = set()
        self._aliases: set[int] = set()
        """Keys of states that are not canonical and whose canonical form is noted."""
        self._parents = array("q")

    def run(
        self, states_max: int | None = None, report: Callable[[int, int, float], None] | None = None
    ) -> Result:
        """Search to the end, to a violation, or to ``states_max``; only the first is complete."""
        start_s = time.process_time()
        keys, steps, depth, level_end = self._keys, 0, 0, 1
        violation = self._visit(initial_state(self.model.scope), -1)
        index = 0
        while violation is None and index < len(keys) and (states_max is None or len(keys) < states_max):
            if index == level_end:
                depth, level_end = depth + 1, len(keys)
            state = self._codec.unpack(keys[index])
            for _, after in successors(self.model, state):
                steps += 1
                violation = violated_between(state, after) or self._visit(after, index)
                if violation is not None:
                    break
            index += 1
            if report is not None and index % PROGRESS_STATES == 0:
                report(len(keys), len(keys) - index, time.process_time() - start_s)
        return Result(
            len(keys),
            steps,
            depth,
            time.process_time() - start_s,
            violation is None and index == len(keys),
            None if violation is None else Violation(violation, self._trace(index - 1, violation)),
        )

    def _visit(self, state: State, parent: int) -> str | None:
        """Note a state if it is new; return the invariant that it violates."""
        key = self._codec.pack(state)
        if key in self._seen or key in self._aliases:
            return None
        state = canonical(self.model, state)
        alias, key = key, self._codec.pack(state)
        if alias != key:
            self._note_alias(alias)
        if key in self._seen:
            return None
        self._seen.add(key)
        self._keys.append(key)
        self._parents.append(parent)
        return violated_by(self.model, state)

    def _note_alias(self, key: int) -> None:
        """Save the work of the canonical form the next time."""
        if len(self._aliases) >= ALIASES_MAX:
            self._aliases.clear()
        self._aliases.add(key)

    def _trace(self, index: int, invariant: str) -> list[Step]:
        """Return the steps to a state and to the violation after it."""
        path = []
        while index > 0:
            path.append(self._keys[index])
            index = self._parents[index]
        state = normal(self.model, initial_state(self.model.scope))
        trace: list[Step] = []
        for key in reversed(path):
            label, state = next(
                (label, after)
                for label, raw in successors(self.model, state)
                if self._codec.pack(rename(after := normal(self.model, raw))) == key
            )
            trace.append((label, state))
        last = next(
            step
            for step in successors(self.model, state)
            if invariant in (violated_between(state, step[1]), violated_by(self.model, step[1]))
        )
        return [*trace, last]
