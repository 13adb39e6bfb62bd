"""An option that is not called inert has a reader."""

import re
from pathlib import Path

import odradek
from odradek.config.client import ADMIN, CONSUMER, PRODUCER

SOURCE = Path(odradek.__file__).parent

# Read by a function beside their declaration, or there to be refused.
READ_ELSEWHERE = {"acks", "bootstrap.servers"}
REFUSED = {
    "bootstrap.controllers",
    "group.protocol",
    "group.remote.assignor",
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "partitioner.class",
    "security.protocol",
    "value.deserializer",
    "value.serializer",
}


def test_every_option_with_an_effect_is_read_by_a_client() -> None:
    words = {
        word
        for layer in ("client", "net")
        for path in (SOURCE / layer).rglob("*.py")
        if path.parent.name != "options"
        for word in re.findall(r"[A-Z][A-Z0-9_]+", path.read_text(encoding="utf-8"))
    }
    effective = {
        name
        for table in (PRODUCER, CONSUMER, ADMIN)
        for name, setting in table.by_name.items()
        if not setting.inert
    }
    unread = {name for name in effective if name.upper().replace(".", "_") not in words}
    assert unread == READ_ELSEWHERE | REFUSED
