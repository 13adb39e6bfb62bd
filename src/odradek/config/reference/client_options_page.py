"""Reference page of the client options, ``docs/client-options.md``.

Generated with ``python -m odradek.config.reference.client_options_page``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from odradek.config.client.admin import ADMIN, ADMIN_SETTINGS
from odradek.config.client.connection import CONNECTION_SETTINGS
from odradek.config.client.consumer import CONSUMER, CONSUMER_SETTINGS
from odradek.config.client.definition import ClientConfigDef
from odradek.config.client.metrics import METRICS_SETTINGS
from odradek.config.client.producer import PRODUCER, PRODUCER_SETTINGS
from odradek.config.client.security import SECURITY_SETTINGS
from odradek.config.definition import AnySetting
from odradek.config.reference.table_cells import (
    default_cell,
    description_cell,
    escaped,
    type_cell,
    value_cell,
)

_TABLES: Final = (PRODUCER, CONSUMER, ADMIN)

_INTRODUCTION: Final = """\
# Client options

Generated from the tables in `src/odradek/config/client` by `make docs`. Do not edit by hand.

Options have the names and defaults of Kafka 3.9's clients, and all of them are known. There are two
differences: `batch.backlog.size` is an addition, and `send.buffer.bytes` defaults to the system's choice.
Pass options as a mapping, as keyword arguments, or both, with dots or with underscores:

```python
from datetime import timedelta

from odradek import Producer

with Producer({"bootstrap.servers": "127.0.0.1:9092", "linger.ms": 5}):
    pass
with Producer(bootstrap_servers=["127.0.0.1:9092"], linger_ms=timedelta(milliseconds=5)):
    pass
```

Values are strings as in a `.properties` file, or Python values: numbers, booleans, lists of strings, and a
`timedelta` for options that end in `.ms`. `None` is the same as not setting the option. An unknown option is
an error that names the nearest known one. All errors are reported at once, before the client does anything.

Options marked *inert* are checked but have no effect. Options that name a Java class are keyword arguments:
`key_serializer`, `value_serializer`, `key_deserializer`, `value_deserializer`, `partitioner`, `assignors`,
`interceptors`.
"""

_COMBINATIONS: Final = """
## Dependent options

- `enable.idempotence` requires `acks=all`, `retries` other than 0, and at most 5 for
  `max.in.flight.requests.per.connection`. If you set it explicitly, anything else is an error; if it is only
  enabled by default, it is disabled with a warning in the log.
- `transactional.id` requires `enable.idempotence`.
- `delivery.timeout.ms` must be at least `linger.ms` plus `request.timeout.ms`: a smaller value is an error,
  the default is raised.
- `heartbeat.interval.ms` must be lower than `session.timeout.ms`.
- `enable.auto.commit` is disabled without a `group.id`, and an error if you set it explicitly.
- `default.api.timeout.ms` of an admin client must be at least `request.timeout.ms`: a smaller value is an
  error, the default is raised.
- `reconnect.backoff.max.ms` is `reconnect.backoff.ms` if you only set the latter.
"""

_HEAD: Final = (
    "| option | type | default | valid values | importance | description |\n|---|---|---|---|---|---|\n"
)
_SHARED_HEAD: Final = (
    "| option | clients | type | default | valid values | importance | description |\n"
    "|---|---|---|---|---|---|---|\n"
)


def page() -> str:
    """Return the page as Markdown."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield _INTRODUCTION
    yield _COMBINATIONS
    yield "\n## Producer\n\n" + _client_table(PRODUCER, PRODUCER_SETTINGS)
    yield "\n## Consumer\n\n" + _client_table(CONSUMER, CONSUMER_SETTINGS)
    yield "\n## Admin\n\n" + _client_table(ADMIN, ADMIN_SETTINGS)
    yield "\n## Connections and metadata\n\n" + _shared_table(CONNECTION_SETTINGS)
    yield "\n## Metrics\n\n" + _shared_table(METRICS_SETTINGS)
    yield "\n## TLS and SASL\n\n" + _shared_table(SECURITY_SETTINGS)


def _client_table(table: ClientConfigDef, settings: Iterable[AnySetting]) -> str:
    return _HEAD + "".join(
        f"| `{setting.name}` | {type_cell(setting)} | {value_cell(setting, table.default_of(setting))} | "
        f"{escaped(setting.allowed)} | {setting.importance.value} | {description_cell(setting)} |\n"
        for setting in settings
        if not setting.unlisted
    )


def _shared_table(settings: Iterable[AnySetting]) -> str:
    return _SHARED_HEAD + "".join(
        f"| `{setting.name}` | {_clients(setting)} | {type_cell(setting)} | {_defaults(setting)} | "
        f"{escaped(setting.allowed)} | {setting.importance.value} | {description_cell(setting)} |\n"
        for setting in settings
    )


def _clients(setting: AnySetting) -> str:
    kinds = [table.kind for table in _TABLES if setting.name in table.by_name]
    return "all" if len(kinds) == len(_TABLES) else ", ".join(kinds)


def _defaults(setting: AnySetting) -> str:
    """Return the default, and the defaults of clients with another one."""
    others = [
        f"{value_cell(setting, table.fixed[setting])} ({table.kind})"
        for table in _TABLES
        if setting in table.fixed and setting.name in table.by_name
    ]
    return ", ".join([default_cell(setting), *others])


if __name__ == "__main__":
    sys.stdout.write(page())
