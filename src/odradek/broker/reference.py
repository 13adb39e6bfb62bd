"""Generator of the reference pages for APIs, what they require, and error codes.

``python -m odradek.broker.reference`` prints the table of APIs; with a folder as argument it updates the
tables in the folder's ``protocol.md`` and ``security.md``, each between two markers, and writes ``errors.md``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from odradek.broker.handlers import HANDLERS
from odradek.broker.requests.authorization import REQUIREMENTS, Requirement
from odradek.model.acl_enums import AclResourceType
from odradek.model.errors import ErrorCode
from odradek.wire.apis import API_BY_KEY, APIS

BEGIN = "<!-- apis: written by python -m odradek.broker.reference docs -->\n"
END = "<!-- end of apis -->\n"
REQUIREMENTS_BEGIN = "<!-- requirements: written by python -m odradek.broker.reference docs -->\n"
REQUIREMENTS_END = "<!-- end of requirements -->\n"

_REQUIREMENTS_HEAD = "| API | operation | on | when |\n|---|---|---|---|\n"

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


def requirement_table() -> str:
    """Return the table of the operations that APIs require."""
    rows = [_REQUIREMENTS_HEAD]
    for api in APIS:
        requirements = REQUIREMENTS.get(api.name)
        if requirements:
            names = [api.name, *[""] * (len(requirements) - 1)]
            rows += [_requirement_row(*row) for row in zip(names, requirements, strict=True)]
        elif requirements is not None:
            rows.append(f"| {api.name} | none | | |\n")
    return "".join(rows)


def _requirement_row(name: str, requirement: Requirement) -> str:
    operation = _camel(requirement.operation.name)
    resource = _camel(requirement.resource_type.name)
    on = "the cluster" if requirement.resource_type is AclResourceType.CLUSTER else resource
    return f"| {name} | {operation} | {on} | {requirement.note} |\n"


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def with_table(page: str) -> str:
    """Return the page with the table of APIs between its markers replaced."""
    return _with(page, BEGIN, api_table(), END)


def with_requirements(page: str) -> str:
    """Return the page with the table of requirements between its markers replaced."""
    return _with(page, REQUIREMENTS_BEGIN, requirement_table(), REQUIREMENTS_END)


def _with(page: str, begin: str, table: str, end: str) -> str:
    before, begin_mark, rest = page.partition(begin)
    _, end_mark, after = rest.partition(end)
    if not end_mark:
        raise ValueError(f"the page must contain the two markers of its table, such as {begin.strip()}")
    return before + begin_mark + table + end_mark + after


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
    security = folder / "security.md"
    security.write_text(with_requirements(security.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "errors.md").write_text(error_page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
