"""Type variables of clients and records: the types of keys and values, bytes unless said otherwise.

Defaults of type variables (PEP 696) are for type checkers; at run time these are plain ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

BytesLike: TypeAlias = bytes | bytearray | memoryview
"""Types that are sent as they are."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Key_co = TypeVar("Key_co", covariant=True, default=bytes)
    Value_co = TypeVar("Value_co", covariant=True, default=bytes)
    Key_contra = TypeVar("Key_contra", contravariant=True, default=BytesLike)
    Value_contra = TypeVar("Value_contra", contravariant=True, default=BytesLike)
else:
    from typing import TypeVar

    Key_co = TypeVar("Key_co", covariant=True)
    Value_co = TypeVar("Value_co", covariant=True)
    Key_contra = TypeVar("Key_contra", contravariant=True)
    Value_contra = TypeVar("Value_contra", contravariant=True)
