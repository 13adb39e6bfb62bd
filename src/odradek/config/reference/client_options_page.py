"""The reference page of the clients' options: ``python -m odradek.config.reference.client_options_page``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from odradek.config.client.admin import ADMIN, ADMIN_SETTINGS
from odradek.config.client.connection import CONNECTION_SETTINGS
from odradek.config.client.consumer import CONSUMER, CONSUMER_SETTINGS
from odradek.config.client.definition import ClientConfigDef
from odradek.config.client.metrics import METRICS_SETTINGS
from odradek.config.client.producer import PRODUCER, PRODUCER_SETTINGS
from odradek.config.client.security import SECURITY_SETTINGS
from odradek.config.definition import Setting
from odradek.config.reference.table_cells import default_cell, escaped, meaning_cell, type_cell, value_cell

_TABLES: Final = (PRODUCER, CONSUMER, ADMIN)

_INTRODUCTION: Final = """\
# Options of the clients

Made from the tables in `src/odradek/config/client` by `python -m
odradek.config.reference.client_options_page`. Do not edit by hand.

Options have the names and defaults of Kafka 3.9's clients, and all of them are known. Two things are our own:
`batch.backlog.size`, and that `send.buffer.bytes` is left to the system. Options are given as a mapping, as
keyword arguments, or both, with dots or with underscores:

```python
from datetime import timedelta

from odradek import Producer

with Producer({"bootstrap.servers": "127.0.0.1:9092", "linger.ms": 5}):
    pass
with Producer(bootstrap_servers=["127.0.0.1:9092"], linger_ms=timedelta(milliseconds=5)):
    pass
```

Values are texts as in a `.properties` file, or Python's own: numbers, truth values, lists of texts, a
`timedelta` for what ends in `.ms`. `None` is as good as nothing given. A name that is no option is refused,
and the nearest right one is named; so is everything else that is wrong, all at once, before the client does
anything.

Options marked *inert* are known and checked, and change nothing. What names a class in Java is a keyword
argument here: `key_serializer`, `value_serializer`, `key_deserializer`, `value_deserializer`, `partitioner`,
`assignors`, `interceptors`.
"""

_COMBINATIONS: Final = """
## Together

- `enable.idempotence` needs `acks=all`, `retries` other than 0, and at most 5 for
  `max.in.flight.requests.per.connection`. If it was asked for, anything else is refused; if it is only on by
  default, it is switched off, with a warning in the log.
- `transactional.id` needs `enable.idempotence`.
- `delivery.timeout.ms` is at least `linger.ms` and `request.timeout.ms` together: a smaller one is refused,
  the default one raised.
- `heartbeat.interval.ms` is lower than `session.timeout.ms`.
- `enable.auto.commit` is off without a `group.id`, and refused if it was asked for.
- `default.api.timeout.ms` of an admin client is at least `request.timeout.ms`: a smaller one is refused, the
  default one raised.
- `reconnect.backoff.max.ms` is `reconnect.backoff.ms` if only that is given.
"""

_HEAD: Final = "| option | type | default | allowed | importance | meaning |\n|---|---|---|---|---|---|\n"
_SHARED_HEAD: Final = (
    "| option | of | type | default | allowed | importance | meaning |\n|---|---|---|---|---|---|---|\n"
)


def page() -> str:
    """The whole page as Markdown."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield _INTRODUCTION
    yield _COMBINATIONS
    yield "\n## Producer\n\n" + _own(PRODUCER, PRODUCER_SETTINGS)
    yield "\n## Consumer\n\n" + _own(CONSUMER, CONSUMER_SETTINGS)
    yield "\n## Admin\n\n" + _own(ADMIN, ADMIN_SETTINGS)
    yield "\n## Connections and metadata\n\n" + _shared(CONNECTION_SETTINGS)
    yield "\n## Metrics\n\n" + _shared(METRICS_SETTINGS)
    yield "\n## TLS and SASL\n\n" + _shared(SECURITY_SETTINGS)


def _own(table: ClientConfigDef, settings: Iterable[Setting[Any]]) -> str:
    return _HEAD + "".join(
        f"| `{setting.name}` | {type_cell(setting)} | {value_cell(setting, table.default_of(setting))} | "
        f"{escaped(setting.allowed)} | {setting.importance.value} | {meaning_cell(setting)} |\n"
        for setting in settings
        if not setting.unlisted
    )


def _shared(settings: Iterable[Setting[Any]]) -> str:
    return _SHARED_HEAD + "".join(
        f"| `{setting.name}` | {_owners(setting)} | {type_cell(setting)} | {_defaults(setting)} | "
        f"{escaped(setting.allowed)} | {setting.importance.value} | {meaning_cell(setting)} |\n"
        for setting in settings
    )


def _owners(setting: Setting[Any]) -> str:
    owners = [table.kind for table in _TABLES if setting.name in table.by_name]
    return "all" if len(owners) == len(_TABLES) else ", ".join(owners)


def _defaults(setting: Setting[Any]) -> str:
    """The default, and which kinds of clients have another."""
    others = [
        f"{value_cell(setting, table.fixed[setting])} ({table.kind})"
        for table in _TABLES
        if setting in table.fixed and setting.name in table.by_name
    ]
    return ", ".join([default_cell(setting), *others])


if __name__ == "__main__":
    sys.stdout.write(page())
