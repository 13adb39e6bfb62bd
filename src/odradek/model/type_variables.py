"""Type variables for the key and value types of clients and records; the default is bytes.

Defaults of type variables (PEP 696) are for type checkers only; at run time there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

BytesLike: TypeAlias = bytes | bytearray | memoryview
"""Types that are sent without serialization."""

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
