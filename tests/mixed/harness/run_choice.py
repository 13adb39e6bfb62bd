"""The cluster of a run: ``MIXED_CONTROLLER`` is ``kafka`` or ``own``, ``MIXED_SHAPE`` is ``2+1`` or ``1+2``.

The shape counts Kafka's brokers, then ours. Broker 0 is always Kafka's and broker 2 always ours; broker 1 is
of the kind that has two.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

import pytest
from tests.mixed.harness.broker_spec import Kind

CONTROLLERS: Final = {"kafka": Kind.KAFKA, "own": Kind.ODRADEK}
SHAPES: Final = {
    "2+1": (Kind.KAFKA, Kind.KAFKA, Kind.ODRADEK),
    "1+2": (Kind.KAFKA, Kind.ODRADEK, Kind.ODRADEK),
}


Choice = TypeVar("Choice")


def read_choice(variable: str, choices: Mapping[str, Choice], default: str) -> Choice:
    name = os.environ.get(variable) or default
    if name not in choices:
        raise pytest.UsageError(f"{variable} must be one of {sorted(choices)}, got {name!r}")
    return choices[name]


CONTROLLER_KIND: Final = read_choice("MIXED_CONTROLLER", CONTROLLERS, "kafka")
SHAPE: Final = read_choice("MIXED_SHAPE", SHAPES, "2+1")
IS_OURS: Final = CONTROLLER_KIND is Kind.ODRADEK
KAFKA_BROKERS: Final = tuple(broker for broker, kind in enumerate(SHAPE) if kind is Kind.KAFKA)
OUR_BROKERS: Final = tuple(broker for broker, kind in enumerate(SHAPE) if kind is Kind.ODRADEK)
KAFKA: Final = KAFKA_BROKERS[-1]
"""The Kafka broker of a test that needs one; if there are two, not the one that starts as controller."""
OURS: Final = OUR_BROKERS[-1]
LONE: Final = OURS if len(OUR_BROKERS) == 1 else KAFKA
"""The only broker of its kind."""
PAIR: Final = KAFKA_BROKERS if len(OUR_BROKERS) == 1 else OUR_BROKERS[::-1]
"""The two brokers of the other kind."""


class Need(NamedTuple):
    """Things that some tests need of a run, and why they are left out of others."""

    is_met: bool
    reason: str


NEEDS: Final = {
    "both controllers": Need(
        IS_OURS, "the role of controller goes to both kinds: the same test runs with CONTROLLER=own"
    ),
    "our code": Need(
        IS_OURS or len(OUR_BROKERS) > 1,
        "our only broker has no part in it: needs CONTROLLER=own or SHAPE=1+2",
    ),
}
"""All tests that a run leaves out name their need here."""


def needs(name: str) -> pytest.MarkDecorator:
    """Return the mark of tests that some runs leave out."""
    need = NEEDS[name]
    return pytest.mark.skipif(not need.is_met, reason=need.reason)


def others_than(*brokers: int) -> list[int]:
    return [other for other in range(len(SHAPE)) if other not in brokers]


def describe() -> str:
    controller = "own" if IS_OURS else "kafka"
    return f"{len(KAFKA_BROKERS)}+{len(OUR_BROKERS)}, controller {controller}"
