"""ApiVersions, versions 0 to 4: supported APIs and versions, from the table of handlers.

Unsupported versions are answered by the dispatcher (KIP-511). v3 is flexible and adds the name and version of
the client software; its response header stays version 0 so that any client can read it. v4 differs from v3 in
how features with a minimum of 0 are listed, and there are none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from odradek.broker.requests.dispatcher import Handler, RequestContext
from odradek.model.errors import ErrorCode
from odradek.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions_of(
    handlers: Iterable[Handler],
) -> Callable[[ApiVersionsRequest, RequestContext], ApiVersionsResponse]:
    """Return the ApiVersions handler for a table of handlers."""
    advertised = sorted((h.api_key, h.versions.start, h.versions.stop - 1) for h in handlers)

    def api_versions(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        if context.version >= 3 and not _is_named(request):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        features = context.broker.finalized_features
        return ApiVersionsResponse(
            api_keys=[ApiVersion(*row) for row in advertised],
            finalized_features_epoch=features.epoch,
            finalized_features=[
                FinalizedFeatureKey(name, level, level) for name, level in features.versions.items()
            ],
        )

    return api_versions


def _is_named(request: ApiVersionsRequest) -> bool:
    names = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(name) for name in names)


def error_response(request: ApiVersionsRequest, code: ErrorCode, message: str | None) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=code)
