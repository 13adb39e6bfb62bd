"""Fields of a response in a version that is not flexible."""

from __future__ import annotations

import struct


class ResponseFields:
    """Reads the fields of a response in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int8(self) -> int:
        return self._read(">b", 1)

    def int16(self) -> int:
        return self._read(">h", 2)

    def int32(self) -> int:
        return self._read(">i", 4)

    def int32s(self) -> tuple[int, ...]:
        count = max(0, self.int32())
        values = struct.unpack_from(f">{count}i", self._data, self._position)
        self._position += 4 * count
        return values

    def string(self) -> bytes:
        length = max(0, self.int16())
        self._position += length
        return self._data[self._position - length : self._position]

    def _read(self, layout: str, size: int) -> int:
        (value,) = struct.unpack_from(layout, self._data, self._position)
        self._position += size
        return int(value)
