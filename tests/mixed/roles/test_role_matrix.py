"""The matrix counts a cell as passed only if nothing was raised."""

from __future__ import annotations

import pytest
from tests.mixed.harness.broker_spec import Kind
from tests.mixed.roles.role_matrix import Cell, Operation, Role, RoleMatrix

PRODUCE = Cell(Role.LEADER, Kind.ODRADEK, Operation.PRODUCE)
KILL = Cell(Role.LEADER, Kind.ODRADEK, Operation.KILL)


def leader_row(matrix: RoleMatrix) -> list[str]:
    (row,) = [line for line in matrix.describe() if line.startswith("leader: ours")]
    return row.split()


def test_cell_with_a_failed_attempt_has_failed() -> None:
    matrix = RoleMatrix()
    with matrix.attempt([PRODUCE, KILL]):
        pass
    with pytest.raises(TimeoutError), matrix.attempt([KILL]):
        raise TimeoutError
    row = leader_row(matrix)
    assert row[2:4] == ["pass", "1/1"]
    assert row[-2:] == ["FAIL", "1/2"]


def test_cell_without_an_attempt_was_not_run() -> None:
    matrix = RoleMatrix()
    assert not matrix.has_results
    assert leader_row(matrix)[2:4] == ["not", "run"]
