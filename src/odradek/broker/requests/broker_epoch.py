"""Check of the broker epoch in the controller's requests."""

from __future__ import annotations

UNKNOWN_BROKER_EPOCH = -1


def is_broker_epoch_stale(requested: int, current: int) -> bool:
    """Return whether a request was meant for this broker before it last registered.

    A larger epoch is not stale: the controller may learn of a registration before the broker does.
    """
    return requested != UNKNOWN_BROKER_EPOCH and requested < current
