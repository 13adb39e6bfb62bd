"""Names of users, client ids and addresses as nodes: URL-encoded, as by Kafka's ``Sanitizer``."""

from __future__ import annotations

from urllib.parse import quote, unquote_plus


def sanitize(name: str) -> str:
    """Encode a name. Letters, digits, ``.``, ``-`` and ``_`` stay; no result equals ``<default>``."""
    return quote(name, safe="", errors="replace").replace("~", "%7E")


def desanitize(node_name: str) -> str:
    """Decode the name of a node."""
    return unquote_plus(node_name)
