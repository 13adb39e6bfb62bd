"""HTTP requests that block: to token endpoints and for key sets."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final

RESPONSE_BYTES_MAX: Final = 1 << 20


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Credentials are for the configured host alone."""

    def redirect_request(self, *arguments: object) -> None:
        return None


_opener: Final = urllib.request.build_opener(_NoRedirects)


class SystemHttp:
    """The real HTTP client. Bodies are cut after their maximum."""

    def get(self, url: str, timeout_s: float) -> tuple[int, bytes]:
        return _send(urllib.request.Request(_checked(url), method="GET"), timeout_s)

    def post(self, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> tuple[int, bytes]:
        request = urllib.request.Request(_checked(url), body, dict(headers), method="POST")
        return _send(request, timeout_s)


def _checked(url: str) -> str:
    """Return an HTTP URL. urllib would open files too."""
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError(f"URL must begin with http:// or https://, got {url!r}")
    return url


def _send(request: urllib.request.Request, timeout_s: float) -> tuple[int, bytes]:
    try:
        with _opener.open(request, timeout=timeout_s) as response:
            return response.status, response.read(RESPONSE_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(RESPONSE_BYTES_MAX + 1)
