"""The reference page of all settings, made from the tables: ``python -m
odradek.config.reference.configuration_page``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from odradek.config import broker, profiles, topic
from odradek.config.broker.odradek import ODRADEK_SETTINGS
from odradek.config.broker.throttles import THROTTLES
from odradek.config.definition import Setting
from odradek.config.reference.table_cells import default_cell, escaped, meaning_cell, type_cell
from odradek.config.sources import variable_name

_INTRODUCTION = """\
# Configuration

Made from the tables in `src/odradek/config` by `python -m odradek.config.reference.configuration_page`. Do
not edit by hand.

Settings have Kafka's names, and Kafka 3.9's defaults. They come from a `.properties` file
(`odradek serve --config server.properties`), then from variables (`{variable}` is
`log.retention.hours`), then from arguments (`--set log.retention.hours=24`). The later wins, also over
another name of the same thing: that argument is not undone by a `log.retention.ms` in the file.
A name nobody knows is warned about, with the nearest known one; a value that cannot be stops the start, and
all such values are named at once.

Every broker setting of Kafka 3.9 is known. Those marked *inert* are accepted and change nothing. Those marked
*not available* promise something that Odradek does not have yet, protection above all: any value but the
default stops the start with a line that names the setting, and cannot be set while the broker runs. The same
goes for `super.users` and `allow.everyone.if.no.acl.found`, which belong to Kafka's authorizer.

*Change* tells how a setting can be changed while the broker runs: not at all (`read-only`), for one broker
(`per-broker`), or for one broker and for all at once (`cluster-wide`). A setting with a listener's prefix,
`listener.name.{{name}}.{{setting}}`, counts for that listener only.
"""

_PROFILE = """
## Without a file

`odradek serve` without `--config` begins with this profile instead of Kafka's bare defaults. Variables and
`--set` are laid over it; a configuration file replaces it.

| setting | value | Kafka's default | why |
|---|---|---|---|
"""

_OPENNESS = """
A listener that other machines can reach and that asks nobody who they are needs an explicit word: without
`odradek.allow.anonymous=true` such a broker does not start.
"""

_LOGGING = """
## Logging

`odradek serve` prints where it listens on stdout, and events on stderr: time in UTC, level, event, fields.

```text
2026-01-31T12:00:00.123Z INFO    coordinators.rebalance_started group=g generation=3 members=2 reason="..."
```

`--log-level info` (or `ODRADEK_LOG_LEVEL=info`, or `odradek.log.level`) shows starts and stops, loaded logs,
changes of leadership in one line each, topics created and deleted, and rebalances with their reasons; `debug`
adds a line for each partition. `--log-format json` (or `odradek.log.format`) writes a JSON object a line.
"""

_HEAD = (
    "| setting | type | default | allowed | change | importance | meaning |\n|---|---|---|---|---|---|---|\n"
)

_TOPIC_HEAD = """
## Topics

Set when a topic is created or by AlterConfigs. A topic without its own value has the broker's.

| setting | type | default | allowed | broker's setting | meaning |
|---|---|---|---|---|---|
"""

_THROTTLES = """
## Broker, only while it runs

Set by AlterConfigs; they cannot stand in a file.

"""


def page() -> str:
    """The whole page as Markdown."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield _INTRODUCTION.format(variable=variable_name("log.retention.hours"))
    yield _PROFILE
    for setting, value, reason in profiles.SERVE:
        yield f"| `{setting.name}` | `{value}` | {default_cell(setting)} | {reason} |\n"
    yield _OPENNESS
    yield _LOGGING
    yield "\n## Odradek's own\n\n" + _table(ODRADEK_SETTINGS)
    for heading, settings in broker.AREAS.items():
        yield f"\n## {heading}\n\n" + _table(settings)
    yield _THROTTLES + _table(THROTTLES)
    yield _TOPIC_HEAD
    for setting in topic.TOPIC:
        synonyms = ", ".join(f"`{synonym.setting.name}`" for synonym in topic.SYNONYMS.get(setting, ()))
        yield (
            f"| `{setting.name}` | {type_cell(setting)} | {default_cell(setting)} | "
            f"{escaped(setting.allowed)} | {synonyms} | {meaning_cell(setting)} |\n"
        )


def _table(settings: Iterable[Setting[Any]]) -> str:
    return _HEAD + "".join(
        f"| `{setting.name}` | {type_cell(setting)} | {default_cell(setting)} | {escaped(setting.allowed)} | "
        f"{setting.dynamic.value} | {setting.importance.value} | {meaning_cell(setting)} |\n"
        for setting in settings
    )


if __name__ == "__main__":
    sys.stdout.write(page())
