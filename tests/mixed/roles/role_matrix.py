"""Results of operations under load, by the role that a kind of broker had meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Final, NamedTuple

from tests.mixed.harness.broker_spec import Kind

COLUMN_WIDTH = 16
NAME_WIDTH = 34
KIND_NAMES: Final = {Kind.ODRADEK: "ours", Kind.KAFKA: "Kafka's"}


class Role(Enum):
    CONTROLLER = "controller"
    LEADER = "leader"
    FOLLOWER = "follower"
    GROUP_COORDINATOR = "group coordinator"
    TRANSACTION_COORDINATOR = "transaction coordinator"


class Operation(Enum):
    PRODUCE = "produce"
    CONSUME = "consume"
    GROUPS = "groups"
    TRANSACTIONS = "transactions"
    REASSIGNMENT = "reassignment"
    ROLLING_RESTART = "rolling restart"
    KILL = "kill -9"


class Cell(NamedTuple):
    role: Role
    kind: Kind
    operation: Operation


class RoleMatrix:
    def __init__(self) -> None:
        self._passed: Counter[Cell] = Counter()
        self._attempted: Counter[Cell] = Counter()

    @contextmanager
    def attempt(self, cells: Iterable[Cell]) -> Iterator[None]:
        """Count cells as passed if nothing is raised."""
        attempted = set(cells)
        self._attempted.update(attempted)
        yield
        self._passed.update(attempted)

    @property
    def has_results(self) -> bool:
        return bool(self._attempted)

    def describe(self) -> list[str]:
        """Return the lines of a table: how often each cell passed, of how many attempts."""
        header = ["".ljust(NAME_WIDTH), *(each.value.ljust(COLUMN_WIDTH) for each in Operation)]
        lines = ["".join(header)]
        for role in Role:
            for kind in KIND_NAMES:
                cells = (Cell(role, kind, operation) for operation in Operation)
                texts = (self._describe(cell).ljust(COLUMN_WIDTH) for cell in cells)
                lines.append("".join([f"{role.value}: {KIND_NAMES[kind]}".ljust(NAME_WIDTH), *texts]))
        return [line.rstrip() for line in lines]

    def _describe(self, cell: Cell) -> str:
        passed, attempted = self._passed[cell], self._attempted[cell]
        if not attempted:
            return "not run"
        return f"{'pass' if passed == attempted else 'FAIL'} {passed}/{attempted}"


MATRIX: Final = RoleMatrix()
