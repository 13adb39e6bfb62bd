"""Request and response headers.

Request: api_key int16 · api_version int16 · correlation_id int32 · client_id nullable string · [tags]
Response: correlation_id int32 · [tags]

The tags are present in flexible versions of the API. Three exceptions: the client id keeps its two-byte
length in every version; the header of an ApiVersions response never has tags, so that a client can read it
whatever versions the broker supports; ControlledShutdown 0 has no client id.
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
    """Return whether tags follow the client id; False for unknown APIs."""
    return api_version >= REQUEST_FLEXIBLE_SINCE.get(api_key, NEVER)


def response_header_is_flexible(api_key: int, api_version: int) -> bool:
    return api_version >= RESPONSE_FLEXIBLE_SINCE.get(api_key, NEVER)


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Return the header and the position of the body. Unknown APIs and versions are accepted."""
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
            # A zero byte means no tags: the usual case.
            position = position + 1 if frame[position] == 0 else skip_tags(frame, position, len(frame))
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise RemoteProtocolViolation(f"request header cannot be decoded: {cause}") from cause
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request_header(header: RequestHeader) -> bytes:
    api_key, api_version, correlation_id, client_id = header
    if api_key not in API_BY_KEY:
        raise LocalProtocolViolation(f"unknown API key {api_key}")
    if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
        return _LEAD.pack(api_key, api_version, correlation_id, 0)[:8]
    try:
        name = b"" if client_id is None else client_id.encode()
        lead = _LEAD.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(name))
    except (error, UnicodeEncodeError) as cause:
        raise LocalProtocolViolation(f"request header cannot be encoded: {cause}") from cause
    return lead + name + (b"\0" if request_header_is_flexible(api_key, api_version) else b"")


def decode_response_header(frame: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """Return the correlation id and the position of the body of a response."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        position = 4
        if response_header_is_flexible(api_key, api_version):
            position = skip_tags(frame, position, len(frame))
    except (error, IndexError) as cause:
        raise RemoteProtocolViolation(f"response header cannot be decoded: {cause}") from cause
    return correlation_id, position
