"""Several names, of topics or groups, as applications give them: never one text, which is its letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Collection(Protocol[T_co]):
    """Lists, tuples, sets and dicts. A text is none: it can be asked for other texts alone."""

    def __iter__(self) -> Iterator[T_co]: ...

    def __contains__(self, item: object, /) -> bool: ...


Several: TypeAlias = _Collection[T] | Iterator[T]
Names: TypeAlias = Several[str]


def read_names(given: Iterable[T], what: str) -> list[T]:
    """Return the names as a list; raise TypeError for one text.

    >>> read_names(("visits", "orders"), "topics")
    ['visits', 'orders']
    """
    if isinstance(given, str | bytes):
        raise TypeError(f"{what} must be several names, as a list, got {given!r}; write [{given!r}]")
    return list(given)
