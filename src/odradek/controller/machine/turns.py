"""Turns for other work of the broker, between the parts of an event that concern many partitions."""

from __future__ import annotations

from typing import Final

from odradek.controller.actions import GiveTurn, Steps

TURN_PARTITIONS: Final = 500
"""Partitions or replicas of one part, before other work gets a turn."""


def give_turn(count: int) -> Steps[None]:
    """Let other work run after a part that concerned so many partitions or replicas.

    No other event is handled meanwhile.
    """
    if count >= TURN_PARTITIONS:
        yield GiveTurn()
