"""API version negotiation, and the codec of a request in its negotiated version.

Both sides support a range of versions per API; the highest common one is used. A broker that does not support
the version of an ApiVersions request responds in version 0, so the error code is read before decoding.
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

# First versions in which the broker responds at once and the client waits for throttle_time_ms (KIP-219);
# before, the broker delayed the response. APIs that are not listed do so in all versions.
_CLIENT_THROTTLES_SINCE: Final = {
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


class RequestApi(NamedTuple):
    """API of a request class."""

    api_key: int
    name: str
    request: type
    response: Any
    is_api_versions: bool


class RequestBuilder(NamedTuple):
    """Builds a request once its version is known, for APIs whose fields differ by version."""

    request: type
    build: Callable[[int], object]


@cache
def api_of_request(request: type) -> RequestApi:
    """Return the API of a request class."""
    api = _BY_NAME[request.__name__]
    return RequestApi(api.key, api.name, request, api.response, api.key == _API_VERSIONS)


def should_client_throttle(api: RequestApi, version: int) -> bool:
    """Return whether the client must wait for the throttle_time_ms of a response."""
    field = api.response.FIELDS.get("throttle_time_ms")
    return (
        field is not None and field.is_in(version) and version >= _CLIENT_THROTTLES_SINCE.get(api.api_key, 0)
    )


class RequestCodec(NamedTuple):
    """Codec of one API in one version."""

    api: RequestApi
    version: int
    encode: PartsEncoder
    decode: Decoder
    should_client_throttle: bool


@cache
def request_codec(api: RequestApi, version: int) -> RequestCodec:
    return RequestCodec(
        api,
        version,
        parts_encoder(api.request, version),
        decoder(api.response, version),
        should_client_throttle(api, version),
    )


def latest_usable_version(
    api_key: int, offered: Mapping[int, range], version_max: int | None, broker: str
) -> int:
    """Return the highest common version, at most ``version_max``; raises UnsupportedVersion."""
    api = API_BY_KEY[api_key]
    broker_versions = offered.get(api_key)
    if broker_versions is None or not len(broker_versions):
        raise UnsupportedVersion(f"the broker does not support {api.name}", broker=broker)
    client_versions = api.versions
    highest = client_versions[-1] if version_max is None else min(client_versions[-1], version_max)
    version = min(highest, broker_versions[-1])
    if version < broker_versions[0] or version < client_versions[0]:
        raise UnsupportedVersion(
            f"no common version of {api.name}: the broker supports {broker_versions[0]} to "
            f"{broker_versions[-1]}, this client {client_versions[0]} to {highest}",
            broker=broker,
        )
    return version


def decode_api_versions(response: Response) -> ApiVersionsResponse:
    """Decode an ApiVersions response: UNSUPPORTED_VERSION always comes in version 0."""
    frame, position = response.frame, response.body_position
    if len(frame) < position + 2:
        raise RemoteProtocolViolation("ApiVersions response without an error code")
    code = int.from_bytes(frame[position : position + 2], "big", signed=True)
    version = 0 if code == ErrorCode.UNSUPPORTED_VERSION else response.api_version
    message: ApiVersionsResponse = decoder(ApiVersionsResponse, version)(frame, position)[0]
    return message
