"""One connection of an attempt to get in, whose bytes are whatever the attempt sends."""

from __future__ import annotations

import socket
import ssl
import struct

ANSWER_S_MAX = 15.0
FRAME_BYTES_MAX = 16 << 20


class Ended(Exception):
    """Raised when the broker has closed the connection."""


class NotEnded(AssertionError):
    """Raised when the broker neither answers nor closes a connection in time."""


class Conversation:
    """A socket that counts what it sends, and the frames of answers. With a context, it uses TLS."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.frames = 0
        self.answers = 0
        self._unread = b""
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            try:
                self._socket = context.wrap_socket(self._socket, server_hostname="localhost")
            except BaseException:
                self._socket.close()
                raise

    def send(self, data: bytes) -> None:
        """Send a frame or record, or a part of one; raises Ended."""
        self.frames += 1
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise NotEnded("the broker neither reads nor closes the connection") from None
        except OSError as error:
            raise Ended from error

    def receive(self) -> bytes:
        """Receive some bytes, which are not empty; raises Ended."""
        if self._unread:
            data, self._unread = self._unread, b""
            return data
        try:
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            raise NotEnded("neither an answer nor an end of the connection in time") from None
        except OSError as error:
            raise Ended from error
        if not data:
            raise Ended
        return data

    def receive_frame(self) -> bytes:
        """Receive a frame, without its size; raises Ended."""
        data = self.receive()
        while len(data) < 4 or len(data) < 4 + self._size_of(data):
            data += self.receive()
        size = 4 + self._size_of(data)
        self._unread = data[size:]
        self.answers += 1
        return data[4:size]

    @staticmethod
    def _size_of(data: bytes) -> int:
        (size,) = struct.unpack_from(">i", data)
        assert 0 <= size <= FRAME_BYTES_MAX, f"the broker announced a frame of {size} bytes"
        return int(size)

    def finish_sending(self) -> None:
        """Send no more. The rest of TLS connections is read as it is."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise Ended from error

    def rest(self) -> bytes:
        """Receive until the broker closes the connection."""
        data = bytearray()
        try:
            while True:
                data += self.receive()
        except Ended:
            return bytes(data)

    def has_ended(self) -> bool:
        """Return whether the broker has closed the connection, without waiting."""
        self._socket.setblocking(False)
        try:
            while self._socket.recv(1 << 16):
                pass
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        self._socket.close()


def frames_of(data: bytes) -> list[bytes]:
    """Split bytes into whole frames, without their sizes."""
    frames, position = [], 0
    while len(data) - position >= 4:
        (size,) = struct.unpack_from(">i", data, position)
        if size < 0 or position + 4 + size > len(data):
            break
        frames.append(data[position + 4 : position + 4 + size])
        position += 4 + size
    return frames
