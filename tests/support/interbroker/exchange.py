"""A request between two brokers and its response, as frames without their length."""

from __future__ import annotations

import struct
from dataclasses import dataclass

FETCH = 1
LEAD = struct.Struct(">hhih")


@dataclass(slots=True)
class Exchange:
    """Frames of one request and its response; times are wall milliseconds."""

    target: int
    requested_ms: int
    request: bytes
    responded_ms: int | None = None
    response: bytes | None = None

    @property
    def api_key(self) -> int:
        return int(LEAD.unpack_from(self.request)[0])

    @property
    def version(self) -> int:
        return int(LEAD.unpack_from(self.request)[1])

    @property
    def client_id(self) -> str:
        size = LEAD.unpack_from(self.request)[3]
        return self.request[LEAD.size : LEAD.size + max(size, 0)].decode()

    @property
    def source(self) -> str:
        """Broker id of the sender, out of its client id: ``1``, ``broker-1-fetcher-0``."""
        return next((part for part in self.client_id.split("-") if part.isdecimal()), "?")
