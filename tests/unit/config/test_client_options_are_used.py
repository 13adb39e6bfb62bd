"""Every option that is not marked inert is used by a client."""

import re
from pathlib import Path

import odradek
from odradek.config.client import ADMIN, CONSUMER, PRODUCER

SOURCE = Path(odradek.__file__).parent

# Used by a function next to their declaration, or always rejected.
USED_IN_CONFIG = {"acks", "bootstrap.servers"}
REJECTED = {
    "bootstrap.controllers",
    "group.protocol",
    "group.remote.assignor",
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "partitioner.class",
    "value.deserializer",
    "value.serializer",
}


def test_every_option_without_mark_is_used_by_a_client() -> None:
    constants = {
        constant
        for layer in ("client", "net")
        for path in (SOURCE / layer).rglob("*.py")
        if path.parent.name != "options"
        for constant in re.findall(r"[A-Z][A-Z0-9_]+", path.read_text(encoding="utf-8"))
    }
    effective = {
        name
        for table in (PRODUCER, CONSUMER, ADMIN)
        for name, setting in table.by_name.items()
        if not setting.inert
    }
    unread = {name for name in effective if name.upper().replace(".", "_") not in constants}
    assert unread == USED_IN_CONFIG | REJECTED
