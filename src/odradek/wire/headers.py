"""Request and response headers, and which version of them goes with which API.

Request: api_key int16 · api_version int16 · correlation_id int32 · client_id nullable string · [tags]
Response: correlation_id int32 · [tags]

The tags are there when the API is in a flexible version. Three exceptions: the client id keeps its two-byte
length in every version; ApiVersions is answered without tags always, so that a client can read the answer
whatever the broker speaks; ControlledShutdown 0 has no client id.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final, NamedTuple

from odradek.model.errors import LocalProtocolViolation, RemoteProtocolViolation
from odradek.wire.apis import API_BY_KEY, APIS
from odradek.wire.primitives import skip_tags, wrong_length
from odradek.wire.schema import NEVER

_API_VERSIONS: Final = 18
_CONTROLLED_SHUTDOWN: Final = 7

_LEAD = Struct(">hhih")
_CORRELATION = Struct(">i")

REQUEST_FLEXIBLE_SINCE: Final = {api.key: api.flexible for api in APIS}
RESPONSE_FLEXIBLE_SINCE: Final = {**REQUEST_FLEXIBLE_SINCE, _API_VERSIONS: NEVER}


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_is_flexible(api_key: int, api_version: int) -> bool:
    """Whether tags follow the client id; not for APIs that are not known."""
    return api_version >= REQUEST_FLEXIBLE_SINCE.get(api_key, NEVER)


def response_header_is_flexible(api_key: int, api_version: int) -> bool:
    return api_version >= RESPONSE_FLEXIBLE_SINCE.get(api_key, NEVER)


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header and the position of the body. APIs and versions that are not known are let through."""
    try:
        api_key, api_version, correlation_id, length = _LEAD.unpack_from(frame)
        if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None), 8
        client_id, position = None, 10
        if length >= 0:
            position = 10 + length
            if position > len(frame):
                wrong_length("client id", length, len(frame) - 10)
            client_id = frame[10:position].tobytes().decode()
        if api_version >= REQUEST_FLEXIBLE_SINCE.get(api_key, NEVER):
            # One zero byte says no tags, as nearly always.
            position = position + 1 if frame[position] == 0 else skip_tags(frame, position, len(frame))
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise RemoteProtocolViolation(f"request header cannot be read: {cause}") from cause
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request_header(header: RequestHeader) -> bytes:
    api_key, api_version, correlation_id, client_id = header
    if api_key not in API_BY_KEY:
        raise LocalProtocolViolation(f"there is no API {api_key}")
    if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
        return _LEAD.pack(api_key, api_version, correlation_id, 0)[:8]
    try:
        name = b"" if client_id is None else client_id.encode()
        lead = _LEAD.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(name))
    except (error, UnicodeEncodeError) as cause:
        raise LocalProtocolViolation(f"request header cannot be written: {cause}") from cause
    return lead + name + (b"\0" if request_header_is_flexible(api_key, api_version) else b"")


def decode_response_header(frame: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """The correlation id and the position of the body, for the answer to a request sent as given."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        position = 4
        if response_header_is_flexible(api_key, api_version):
            position = skip_tags(frame, position, len(frame))
    except (error, IndexError) as cause:
        raise RemoteProtocolViolation(f"response header cannot be read: {cause}") from cause
    return correlation_id, position


def encode_response_header(correlation_id: int, api_key: int, api_version: int) -> bytes:
    tags = b"\0" if response_header_is_flexible(api_key, api_version) else b""
    return _CORRELATION.pack(correlation_id) + tags
