"""Reassignment of replicas: its places in the other handlers."""

from __future__ import annotations

from collections.abc import Collection

from odradek.controller.actions import Steps
from odradek.controller.machine.context import ControllerContext


def initialize_reassignments(context: ControllerContext) -> Steps[None]:
    """Resume reassignments after an election of the controller."""
    yield from ()


def resume_reassignments(context: ControllerContext, broker_ids: Collection[int]) -> Steps[None]:
    """Resume reassignments whose target has one of these brokers."""
    yield from ()
