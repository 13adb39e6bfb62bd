"""The table of a group's states."""

from __future__ import annotations

import itertools

import pytest

from odradek.coordinators.groups.group import MAY_COME_FROM, Group, State, check_move

E, P, C, S, D = (
    State.EMPTY,
    State.PREPARING_REBALANCE,
    State.COMPLETING_REBALANCE,
    State.STABLE,
    State.DEAD,
)
MOVES = {(E, P), (P, C), (P, E), (C, P), (C, S), (S, P), *((state, D) for state in State)}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(State, State)))
def test_a_group_moves_as_kafka_lets_it_and_no_other_way(old: State, new: State) -> None:
    if (old, new) in MOVES:
        check_move(old, new)
    else:
        with pytest.raises(AssertionError, match=f"from {old.value} to {new.value}"):
            check_move(old, new)


def test_the_table_has_every_state() -> None:
    assert set(MAY_COME_FROM) == set(State)


def test_a_group_keeps_the_time_of_its_last_move() -> None:
    group = Group("g", 5)
    group.move_to(State.PREPARING_REBALANCE, 9)
    assert (group.state, group.state_since_ms) == (State.PREPARING_REBALANCE, 9)
