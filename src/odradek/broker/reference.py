"""Generator of the reference pages for APIs and error codes.

``python -m odradek.broker.reference`` prints the table of APIs; with a folder as argument it updates the
table in the folder's ``protocol.md``, between two markers, and writes ``errors.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from odradek.broker.handlers import HANDLERS
from odradek.model.errors import ErrorCode
from odradek.wire.apis import API_BY_KEY, APIS

BEGIN = "<!-- apis: written by python -m odradek.broker.reference docs -->\n"
END = "<!-- end of apis -->\n"

_SUPPORTED_HEAD = "| key | API | versions | handler |\n|--:|---|---|---|\n"
_UNSUPPORTED_HEAD = """
Declared in `wire/messages` with Kafka's encoding, but not supported yet. ApiVersions does not list them, and
a request closes the connection, as for any unknown API key:

"""

_ERRORS_HEAD = """\
# Error codes

Generated from `src/odradek/model/errors.py` by `python -m odradek.broker.reference docs`. Do not edit.

The codes are those of Kafka 3.9. *Retriable*: the same request may succeed later. *Stale metadata*: the
client should refresh its metadata before it retries. Both follow Kafka's exception classes.

| code | name | retriable | stale metadata |
|--:|---|---|---|
"""


def api_table() -> str:
    """Return the table of supported APIs and the list of declared but unsupported ones."""
    return "".join(_api_lines())


def error_page() -> str:
    """Return the page of error codes."""
    return _ERRORS_HEAD + "".join(
        f"| {code.value} | `{code.name}` | {_yes(code.retriable)} | {_yes(code.stale_metadata)} |\n"
        for code in ErrorCode
    )


def with_table(page: str) -> str:
    """Return the page with the table between its markers replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError("the page must contain the two markers of the API table, got none")
    return before + begin + api_table() + end + after


def _api_lines() -> Iterator[str]:
    supported = sorted(HANDLERS, key=lambda handler: handler.api_key)
    yield _SUPPORTED_HEAD
    for handler in supported:
        name = API_BY_KEY[handler.api_key].name
        module = f"handlers/{getattr(handler.load, '__name__', '')}.py"
        yield f"| {handler.api_key} | {name} | {_range(handler.versions)} | `{module}` |\n"
    yield _UNSUPPORTED_HEAD
    keys = {handler.api_key for handler in supported}
    yield ", ".join(f"{api.name} ({api.key}: {_range(api.versions)})" for api in APIS if api.key not in keys)
    yield ".\n"


def _range(versions: range) -> str:
    return f"{versions[0]}" if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"


def _yes(holds: bool) -> str:
    return "yes" if holds else ""


def main(arguments: Sequence[str]) -> None:
    if not arguments:
        sys.stdout.write(api_table())
        return
    folder = Path(arguments[0])
    protocol = folder / "protocol.md"
    protocol.write_text(with_table(protocol.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "errors.md").write_text(error_page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
