"""Where coordinators are: how brokers are asked for them, and what they said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from odradek.client.routing import CoordinatorKind
from odradek.model.errors import ErrorCode
from odradek.net.versions import ByVersion
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest

MANY_KEYS_SINCE: Final = 4
_KIND_SINCE: Final = 1


class Found(NamedTuple):
    """What a broker said of one key: where its coordinator is, or why it cannot tell."""

    key: str
    node_id: int
    host: str
    port: int
    error: ErrorCode
    message: str | None


def question(kind: CoordinatorKind, keys: Sequence[str]) -> ByVersion:
    """The request for some keys; brokers of old versions are asked for the first alone."""

    def build(version: int) -> Any:
        if version >= MANY_KEYS_SINCE:
            return FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        return FindCoordinatorRequest(key=keys[0], key_type=kind if version >= _KIND_SINCE else 0)

    return ByVersion(FindCoordinatorRequest, build)


def read_answer(keys: Sequence[str], response: Any) -> list[Found]:
    """One entry for each key that was answered."""
    if response.coordinators:
        return [
            Found(one.key, one.node_id, one.host, one.port, ErrorCode(one.error_code), one.error_message)
            for one in response.coordinators
        ]
    code = ErrorCode(response.error_code)
    return [Found(keys[0], response.node_id, response.host, response.port, code, response.error_message)]
