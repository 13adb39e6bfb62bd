"""A server of frames for tests of the proxy: it keeps every byte, and answers each request with its body."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

WAIT_SECONDS_MAX = 10.0


class RecordingServer:
    """``received`` and ``ends`` have an entry for each connection: its bytes, and how it ended."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.received: list[bytearray] = []
        self.ends: list[str] = []
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listener, *self._sockets):
            each.close()

    @property
    def frames(self) -> list[bytes]:
        """All complete frames, by connection, without their lengths."""
        return [frame for data in self.received for frame in split_frames(bytes(data))]

    def wait_for_frames(self, count: int) -> None:
        self._wait(lambda: len(self.frames) >= count, f"{count} frames")

    def wait_for_end(self) -> str:
        """Wait until the first connection has ended; return how."""
        self._wait(lambda: self.ends[0] != "", "the end of a connection")
        return self.ends[0]

    @staticmethod
    def _wait(holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"server must see {what} within {WAIT_SECONDS_MAX} s")
            time.sleep(0.005)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(connection)
            self.received.append(bytearray())
            self.ends.append("")
            number = len(self.received) - 1
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        answered = 0
        try:
            while data := connection.recv(1 << 16):
                self.received[number] += data
                frames = split_frames(bytes(self.received[number]))
                for frame in frames[answered:]:
                    answer = frame[4:]
                    connection.sendall(struct.pack(">i", len(answer)) + answer)
                answered = len(frames)
            self.ends[number] = "closed"
        except ConnectionResetError:
            self.ends[number] = "reset"
        except OSError:
            self.ends[number] = "broken"


def split_frames(data: bytes) -> list[bytes]:
    """Return the complete frames of a stream, without their lengths."""
    frames = []
    while len(data) >= 4:
        (size,) = struct.unpack_from(">i", data)
        if len(data) < 4 + size:
            break
        frames.append(data[4 : 4 + size])
        data = data[4 + size :]
    return frames
