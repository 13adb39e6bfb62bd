"""Declarations of message classes.

A message is a class whose fields declare a wire type and a version range. ``@message`` declares a request or
response with its versions and the first flexible one; ``@structure`` declares a nested structure. Both create
slotted classes, constructed by position or keyword in field order, comparable, and with a readable ``repr``.
Every field has a default, which is also the decoded value in versions without the field.

A field that a version does not have must hold its default when that version is encoded, unless it is
``ignorable``: then it is dropped silently.

Tagged structures are ``None`` when absent, and are encoded whenever they are not ``None``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast, dataclass_transform

T = TypeVar("T")

LAST: Final = 32767
NEVER: Final = 32768
"""Version above all versions."""

REPR_BYTES_MAX: Final = 32


class _Empty:
    """Marks a fresh empty list as default in tables and signatures."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[]"


EMPTY: Final = _Empty()

FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}
"""``struct`` codes of the fixed-width wire types."""


class Field:
    """Declaration of one field of a message."""

    __slots__ = ("default", "ignorable", "kind", "nullable_since", "of", "secret", "since", "tag", "until")

    def __init__(
        self,
        kind: str,
        since: int,
        until: int,
        *,
        default: object,
        nullable_since: int | None = None,
        ignorable: bool = False,
        tag: int | None = None,
        of: Field | type | None = None,
        secret: bool = False,
    ) -> None:
        self.kind = kind
        self.since = since
        self.until = until
        self.default = default
        self.nullable_since = NEVER if nullable_since is None else nullable_since
        self.ignorable = ignorable
        self.tag = tag
        self.of = of
        self.secret = secret

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def is_nullable_in(self, version: int) -> bool:
        return version >= self.nullable_since


class Table(Protocol):
    """Class attributes set by ``@message`` and ``@structure``."""

    FIELDS: ClassVar[dict[str, Field]]
    VERSIONS: ClassVar[range]
    FLEXIBLE: ClassVar[int]
    __name__: str


def _number(kind: str, zero: object) -> Callable[..., Any]:
    def declare(
        since: int = 0,
        until: int = LAST,
        *,
        default: object = zero,
        ignorable: bool = False,
        tag: int | None = None,
    ) -> Any:
        return Field(kind, since, until, default=default, ignorable=ignorable, tag=tag)

    declare.__name__ = declare.__qualname__ = kind
    return declare


int8 = _number("int8", 0)
int16 = _number("int16", 0)
int32 = _number("int32", 0)
int64 = _number("int64", 0)
uint16 = _number("uint16", 0)
uint32 = _number("uint32", 0)
float64 = _number("float64", 0.0)
boolean = _number("bool", False)
uuid = _number("uuid", bytes(16))


def string(
    since: int = 0,
    until: int = LAST,
    *,
    nullable_since: int | None = None,
    default: str | None = "",
    ignorable: bool = False,
    tag: int | None = None,
    secret: bool = False,
) -> Any:
    """Declare a UTF-8 string of at most 32767 bytes."""
    return Field(
        "string",
        since,
        until,
        default=default,
        nullable_since=nullable_since,
        ignorable=ignorable,
        tag=tag,
        secret=secret,
    )


def bytes_(
    since: int = 0,
    until: int = LAST,
    *,
    nullable_since: int | None = None,
    default: bytes | None = b"",
    ignorable: bool = False,
    secret: bool = False,
) -> Any:
    """Declare bytes, copied out of the frame when decoded."""
    return Field(
        "bytes",
        since,
        until,
        default=default,
        nullable_since=nullable_since,
        ignorable=ignorable,
        secret=secret,
    )


def records(since: int = 0, until: int = LAST, *, nullable_since: int | None = None) -> Any:
    """Declare record batches: decoded to a view into the frame; any value with a length can be encoded."""
    return Field("records", since, until, default=None, nullable_since=nullable_since)


def array(
    of: object,
    since: int = 0,
    until: int = LAST,
    *,
    nullable_since: int | None = None,
    default: _Empty | None = EMPTY,
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """Declare a list of structures or plain values: ``array(FetchTopic)``, ``array(int32)``."""
    element = of if isinstance(of, type) else cast(Callable[[], Field], of)()
    return Field(
        "array",
        since,
        until,
        default=default,
        nullable_since=nullable_since,
        ignorable=ignorable,
        tag=tag,
        of=element,
    )


def struct(of: type, since: int, until: int = LAST, *, tag: int, ignorable: bool = False) -> Any:
    """Declare a tagged structure, ``None`` when absent. (No supported message has an untagged one.)"""
    return Field("struct", since, until, default=None, ignorable=ignorable, tag=tag, of=of)


# Without field specifiers type checkers assume that every field has a default, which is the case.
@dataclass_transform()
def message(*, versions: range, flexible: int = NEVER) -> Callable[[type[T]], type[T]]:
    """Declare a request or response: its versions and the first flexible one (compact, with tags)."""

    def build(cls: type[T]) -> type[T]:
        return _slotted(cls, versions, flexible)

    return build


@dataclass_transform()
def structure(cls: type[T]) -> type[T]:
    """Declare a nested structure; its versions are those of the enclosing message."""
    return _slotted(cls, range(0), NEVER)


def table_of(cls: type) -> dict[str, Field]:
    """Return the fields of a message or structure, in wire order."""
    return cast("type[Table]", cls).FIELDS


def _slotted(cls: type[T], versions: range, flexible: int) -> type[T]:
    declared = vars(cls)
    table = {name: field for name, field in declared.items() if isinstance(field, Field)}
    body: dict[str, Any] = {
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
        "__annotations__": declared.get("__annotations__", {}),
        "__slots__": tuple(table),
        "__match_args__": tuple(table),
        "__init__": _first_init,
        "__eq__": _equal,
        "__repr__": _repr,
        "__hash__": None,
        "FIELDS": table,
        "VERSIONS": versions,
        "FLEXIBLE": flexible,
    }
    return cast("type[T]", type(cls.__name__, (), body))


def _first_init(self: Any, *args: Any, **kwargs: Any) -> None:
    """Generate the class's own ``__init__`` for its first object, so that importing tables stays cheap."""
    cls = type(self)
    cls.__init__ = _init_for(cls.FIELDS)
    cls.__init__(self, *args, **kwargs)


def _init_for(table: dict[str, Field]) -> Callable[..., None]:
    env: dict[str, Any] = {"EMPTY": EMPTY}
    parameters, lines = ["self"], []
    for index, (name, field) in enumerate(table.items()):
        env[f"default{index}"] = field.default
        parameters.append(f"{name}=default{index}")
        value = f"[] if {name} is EMPTY else {name}" if field.default is EMPTY else name
        lines.append(f"    self.{name} = {value}")
    source = f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or "    pass")
    exec(source, env)
    return cast(Callable[..., None], env["__init__"])


def _equal(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in table_of(type(self)))


def _repr(self: Any) -> str:
    shown = (f"{name}={_show(field, getattr(self, name))}" for name, field in self.FIELDS.items())
    return f"{type(self).__name__}({', '.join(shown)})"


def _show(field: Field, value: Any) -> str:
    if field.secret and value:
        return "<secret>"
    if field.kind in ("bytes", "records") and value is not None and len(value) > REPR_BYTES_MAX:
        return f"<{len(value)} bytes>"
    if isinstance(value, memoryview):
        return repr(value.tobytes())
    return repr(value)
