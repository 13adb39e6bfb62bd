"""Files that options name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.cli.errors import CommandFailed

if TYPE_CHECKING:
    from pathlib import Path

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A million partitions."""


def read_input_file(file: Path) -> str:
    """Return the text of a file, or fail with one line."""
    try:
        if (size := file.stat().st_size) > FILE_BYTES_MAX:
            raise CommandFailed(f"{file} must be at most {FILE_BYTES_MAX} bytes, got {size}")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file} cannot be read: {error}") from error
