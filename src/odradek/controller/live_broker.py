"""A live broker, as the controller knows it."""

from __future__ import annotations

from typing import NamedTuple

from odradek.store.layout.znodes import BrokerRegistration


class LiveBroker(NamedTuple):
    """A registered broker; its epoch is the czxid of its registration znode."""

    registration: BrokerRegistration
    broker_epoch: int
