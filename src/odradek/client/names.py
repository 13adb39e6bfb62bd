"""Collections of topic or group names passed by applications; a single str is rejected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Collection(Protocol[T_co]):
    """Lists, tuples, sets and dicts, but not str: its ``__contains__`` only accepts str."""

    def __iter__(self) -> Iterator[T_co]: ...

    def __contains__(self, item: object, /) -> bool: ...


CollectionOf: TypeAlias = _Collection[T] | Iterator[T]
Names: TypeAlias = CollectionOf[str]


def read_names(names: Iterable[T], parameter: str) -> list[T]:
    """Return the names as a list; raise TypeError for a single str.

    >>> read_names(("visits", "orders"), "topics")
    ['visits', 'orders']
    """
    if isinstance(names, str | bytes):
        raise TypeError(f"{parameter} must be a list of names, got {names!r}; write [{names!r}]")
    return list(names)
