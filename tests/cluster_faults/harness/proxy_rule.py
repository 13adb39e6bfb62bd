"""A rule of the Kafka proxy: which requests it concerns, and what happens to them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from tests.cluster_faults.harness.request_header import RequestHeader


class Action(StrEnum):
    DELAY_REQUEST = "delay-request"
    """Hold a request for ``seconds``, and with it what its connection sends later.

    It reaches the broker even if its sender has closed the connection meanwhile, as a packet in flight does.
    """
    DELAY_RESPONSE = "delay-response"
    DOUBLE = "double"
    """Send the request twice on its connection; the second response is dropped."""
    REPLAY = "replay"
    """Send the request again after ``seconds`` on a connection of its own; that response is dropped."""
    DROP_RESPONSE = "drop-response"
    """Close the connection instead of passing a response on: the request was done."""
    LOSE_RESPONSE = "lose-response"
    """Pass nothing on from the response on; the connection stays open at both ends."""
    RESET = "reset"
    """Pass on the first half of the request, then reset both connections (RST)."""
    STALL = "stall"
    """Pass nothing on from the request on; the connection stays open at both ends."""
    LIMIT = "limit"
    """Pass on ``bytes_per_second`` of the request and its response."""


class Source(StrEnum):
    CLIENTS = "clients"
    BROKERS = "brokers"


@dataclass(frozen=True)
class Rule:
    """Concerns the requests that all given conditions hold for; ``count`` of them at most."""

    action: Action
    apis: tuple[int, ...] = ()
    """API keys; all if empty."""
    brokers: tuple[int, ...] = ()
    """Brokers that requests are sent to; all if empty."""
    source: Source | None = None
    count: int | None = None
    every: int = 1
    """2 concerns every other request, 3 every third."""
    seconds: float = 0.0
    bytes_per_second: int = 0

    def concerns(self, broker: int, header: RequestHeader) -> bool:
        if self.apis and header.api_key not in self.apis:
            return False
        if self.brokers and broker not in self.brokers:
            return False
        return self.source is None or header.is_of_broker == (self.source is Source.BROKERS)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields: dict[str, Any] = json.loads(text)
        fields["action"] = Action(fields["action"])
        fields["source"] = None if fields["source"] is None else Source(fields["source"])
        for name, value in fields.items():
            if isinstance(value, list):
                fields[name] = tuple(value)
        return cls(**fields)
