"""Which version of a request is said to a broker, and what follows from it.

Both sides know a range of versions per API; the highest in both is spoken. A broker answers ApiVersions in
version 0 if it does not know the one that was asked, so this answer is looked at before it is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from odradek.model.client_errors import UnsupportedVersion
from odradek.model.errors import ErrorCode, RemoteProtocolViolation
from odradek.wire.apis import API_BY_KEY, APIS
from odradek.wire.client_connection import Response
from odradek.wire.message_codecs import Decoder, PartsEncoder, decoder, parts_encoder
from odradek.wire.messages.api_versions import ApiVersionsResponse

_API_VERSIONS: Final = 18
_BY_NAME: Final = {f"{api.name}Request": api for api in APIS}

# From these versions on a broker answers at once and wants to be left alone for the time it names; before, it
# kept the answer for that long itself. APIs that are not here want it in all versions.
_THROTTLES_SINCE: Final = {
    0: 6,
    1: 8,
    2: 3,
    3: 6,
    8: 4,
    9: 4,
    10: 2,
    11: 3,
    12: 2,
    13: 2,
    14: 2,
    15: 2,
    16: 2,
    18: 2,
    19: 3,
    20: 2,
    21: 1,
    22: 1,
    24: 1,
    25: 1,
    26: 1,
    28: 1,
    29: 1,
    30: 1,
    31: 1,
    32: 2,
    33: 1,
    34: 1,
    35: 1,
    37: 1,
    38: 1,
    39: 1,
    40: 1,
    41: 1,
    42: 1,
}


class ApiCall(NamedTuple):
    """An API as a caller knows it, by the class of its requests."""

    api_key: int
    name: str
    request: Any
    response: Any
    is_greeting: bool


class RequestBuilder(NamedTuple):
    """A request that is built when its version is known, for APIs whose versions say things differently."""

    request: type
    build: Callable[[int], Any]


@cache
def api_of_request(request: Any) -> ApiCall:
    """The API whose requests are of this class."""
    api = _BY_NAME[request.__name__]
    return ApiCall(api.key, api.name, request, api.response, api.key == _API_VERSIONS)


def throttles(call: ApiCall, version: int) -> bool:
    """Whether an answer may ask to be left alone for a while."""
    field = call.response.FIELDS.get("throttle_time_ms")
    return field is not None and field.is_in(version) and version >= _THROTTLES_SINCE.get(call.api_key, 0)


class Plan(NamedTuple):
    """How requests of one class are said to one broker."""

    call: ApiCall
    version: int
    encode: PartsEncoder
    decode: Decoder
    throttles: bool


@cache
def plan_in(call: ApiCall, version: int) -> Plan:
    return Plan(
        call,
        version,
        parts_encoder(call.request, version),
        decoder(call.response, version),
        throttles(call, version),
    )


def negotiated(api_key: int, offered: Mapping[int, range], version_max: int | None, broker: str) -> int:
    """The highest version that both sides speak, not above ``version_max``; raises UnsupportedVersion."""
    api = API_BY_KEY[api_key]
    theirs = offered.get(api_key)
    if theirs is None or not len(theirs):
        raise UnsupportedVersion(f"the broker does not offer {api.name}", broker=broker)
    ours = api.versions
    highest = ours[-1] if version_max is None else min(ours[-1], version_max)
    version = min(highest, theirs[-1])
    if version < theirs[0] or version < ours[0]:
        raise UnsupportedVersion(
            f"no common version of {api.name}: the broker offers {theirs[0]} to {theirs[-1]}, "
            f"this client needs {ours[0]} to {highest}",
            broker=broker,
        )
    return version


def read_versions(response: Response) -> Any:
    """Decode an answer to ApiVersions: a refusal is written in version 0, whatever was asked."""
    frame, position = response.frame, response.body_position
    if len(frame) < position + 2:
        raise RemoteProtocolViolation("an answer to ApiVersions without an error code")
    code = int.from_bytes(frame[position : position + 2], "big", signed=True)
    version = 0 if code == ErrorCode.UNSUPPORTED_VERSION else response.api_version
    message, _ = decoder(ApiVersionsResponse, version)(frame, position)
    return message
