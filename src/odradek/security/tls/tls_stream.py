"""One side of a TLS connection without I/O: bytes of the peer in, plaintext out, and the reverse.

Received bytes are passed in by ``receive``, and bytes for the peer taken by ``take_output`` after every call.
Raises nothing but ``TlsError``; after that, only ``take_output`` may be called, for the alert.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

from odradek.ports.files import Buffer
from odradek.ports.network import UnknownHost
from odradek.security.tls.distinguished_name import subject_name
from odradek.security.tls.tls_error import TlsError, TlsHandshakeFailed, describe

HANDSHAKE_BYTES_MAX: Final = 256 * 1024
"""Limit of the bytes received before a handshake is complete; chains of certificates have up to 100 KB."""
UNREAD_BYTES_MAX: Final = 1024 * 1024
"""Limit of the bytes received and not yet read: a few times the largest receive buffer."""
_HANDSHAKE_RECORD: Final = 22
_ALERT_RECORD: Final = 21
_NOT_TLS: Final = "the peer does not use TLS: it may be configured for PLAINTEXT"


class TlsStream:
    """One side of a TLS connection. A client has the host name that the server's certificate must have.

    Raises UnknownHost for text that is no host name.
    """

    __slots__ = (
        "_error",
        "_handshake_bytes",
        "_incoming",
        "_is_at_end",
        "_is_confirmed",
        "_object",
        "_outgoing",
        "is_complete",
        "is_peer_closed",
    )

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, host: str | None = None) -> None:
        self.is_complete = False
        """True once the handshake is complete; before, no plaintext can be read or written."""
        self.is_peer_closed = False
        """True once the peer has announced the end of its plaintext, and all of that was read."""
        # With TLS 1.3 a client is complete before the server has checked the client's certificate.
        self._is_confirmed = server_side
        self._is_at_end = False
        # Not the exception: with its traceback it would refer back to this object.
        self._error: tuple[type[TlsError], str] | None = None
        self._handshake_bytes = 0
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        try:
            self._object = context.wrap_bio(
                self._incoming, self._outgoing, server_side=server_side, server_hostname=host
            )
        except ssl.SSLError as error:
            raise TlsHandshakeFailed(_reason_of(error)) from None
        except ValueError as error:
            raise UnknownHost(str(host), str(error)) from None
        self._handshake()

    @property
    def has_unread(self) -> bool:
        """True if ``read_into`` may return bytes, or find the end."""
        return (
            self.is_complete
            and not self.is_peer_closed
            and (
                self._error is not None
                or self._is_at_end
                or self._incoming.pending > 0
                or self._object.pending() > 0
            )
        )

    @property
    def is_confirmed(self) -> bool:
        """True once the peer has accepted this side: for a client, once it has read plaintext."""
        return self.is_complete and self._is_confirmed

    @property
    def version(self) -> str:
        return self._object.version() or ""

    @property
    def cipher_suite(self) -> str:
        cipher = self._object.cipher()
        return "" if cipher is None else cipher[0]

    def peer_name(self) -> str | None:
        """Return the distinguished name in the peer's verified certificate, or None without one."""
        if not self.is_complete or self._object.context.verify_mode == ssl.CERT_NONE:
            return None
        certificate = self._object.getpeercert(binary_form=True)
        if not certificate:
            return None
        try:
            return subject_name(certificate)
        except ValueError:
            raise TlsHandshakeFailed("the subject of the peer's certificate is malformed") from None

    def receive(self, data: Buffer) -> None:
        """Take bytes of the peer, and continue the handshake."""
        self._raise_error()
        if not self.is_complete:
            self._check_handshake_bytes(data)
        if self._incoming.pending + len(data) > UNREAD_BYTES_MAX:
            raise self._failed(f"more than {UNREAD_BYTES_MAX} bytes were received and not read")
        self._incoming.write(data)
        if not self.is_complete:
            self._handshake()

    def _check_handshake_bytes(self, data: Buffer) -> None:
        if not self._handshake_bytes and len(data) and data[0] not in (_HANDSHAKE_RECORD, _ALERT_RECORD):
            raise self._failed(_NOT_TLS)
        self._handshake_bytes += len(data)

    def _handshake(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            if self._handshake_bytes > HANDSHAKE_BYTES_MAX:
                raise self._failed(
                    f"more than {HANDSHAKE_BYTES_MAX} bytes were received before the handshake was complete"
                ) from None
        except OSError as error:
            raise self._failed(_reason_of(error)) from None
        else:
            self.is_complete = True

    def read_into(self, buffer: memoryview) -> int:
        """Decrypt received bytes into a buffer and return their number: 0 without a whole record, or at the
        end."""
        self._raise_error()
        total, size = 0, len(buffer)
        if not self.is_complete:
            return 0
        while total < size and not self._is_at_end and (self._incoming.pending or self._object.pending()):
            try:
                # With a buffer, the number of bytes is returned.
                count: int = self._object.read(size - total, buffer[total:])  # type: ignore[assignment]
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                count = 0
            except OSError as error:
                failure = self._failed(_reason_of(error))
                if total:
                    break  # what was read before is valid
                raise failure from None
            if not count:
                self._is_at_end = True
            total += count
        self.is_peer_closed = self._is_at_end and not total
        self._is_confirmed = self._is_confirmed or total > 0
        return total

    def write(self, data: Buffer) -> None:
        """Encrypt bytes; only once the handshake is complete."""
        self._raise_error()
        if not self.is_complete:
            raise TlsError("bytes were written before the handshake was complete")
        if not len(data):
            return
        try:
            self._object.write(data)
        except OSError as error:
            raise self._failed(_reason_of(error)) from None

    def take_output(self) -> bytes:
        """Return the bytes to send to the peer."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def close(self) -> None:
        """Announce the end of this side's plaintext to the peer (close_notify)."""
        if not self.is_complete or self._error is not None:
            return
        with suppress(OSError):  # the peer has not announced its end yet
            self._object.unwrap()

    def _failed(self, reason: str) -> TlsError:
        """Note that the connection cannot continue."""
        is_handshake = not (self.is_complete and self._is_confirmed)
        kind = TlsHandshakeFailed if is_handshake else TlsError
        self._error = kind, reason
        return kind(reason)

    def _raise_error(self) -> None:
        if self._error is not None:
            kind, reason = self._error
            raise kind(reason)


def _reason_of(error: OSError) -> str:
    return describe(error) if isinstance(error, ssl.SSLError) else str(error)
