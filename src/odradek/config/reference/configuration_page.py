"""Reference page of the settings, ``docs/configuration.md``.

Generated with ``python -m odradek.config.reference.configuration_page``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from odradek.config import broker, profiles, topic
from odradek.config.broker.odradek import ODRADEK_SETTINGS
from odradek.config.broker.throttles import THROTTLES
from odradek.config.definition import AnySetting
from odradek.config.reference.table_cells import default_cell, description_cell, escaped, type_cell
from odradek.config.sources import variable_name

_INTRODUCTION = """\
# Configuration

Generated from the tables in `src/odradek/config` by `make docs`. Do not edit by hand.

Settings have the names and defaults of Kafka 3.9. They are read from, in increasing order of precedence:

1. a `.properties` file: `odradek serve --config server.properties`,
2. environment variables: `{variable}` is `log.retention.hours`,
3. arguments: `--set log.retention.hours=24`.

A later source also overrides other names of the same setting: that argument overrides a `log.retention.ms` in
the file. An unknown name causes a warning with the nearest known name. An invalid value prevents the start;
all invalid values are reported at once.

Every broker setting of Kafka 3.9 is known. Settings marked *inert* are accepted but have no effect. Settings
marked *not available* would enable a feature, mostly a protection, that Odradek does not have yet: any value
but the default prevents the start, and cannot be set while the broker runs. `super.users` and
`allow.everyone.if.no.acl.found` belong to the authorizer: see [security.md](security.md#acls).

*Update mode* is how a setting can be changed while the broker runs: not at all (`read-only`), for one broker
(`per-broker`), or for one or all brokers (`cluster-wide`). A setting with a listener prefix,
`listener.name.{{name}}.{{setting}}`, applies to that listener only.
"""

_PROFILE = """
## Without a configuration file

`odradek serve` without `--config` uses this profile instead of Kafka's defaults. Variables and `--set`
override it; a configuration file replaces it.

| setting | value | Kafka's default | reason |
|---|---|---|---|
"""

_LOCAL_CLUSTER = """
## Local clusters

Brokers of `odradek cluster` have this profile. `--set` overrides it; variables do not apply. `broker.id`,
`broker.rack`, `listeners`, `log.dirs` and `zookeeper.connect` are set for each broker.

| setting | 1 broker | 2 brokers | 3 or more | Kafka's default | reason |
|---|---|---|---|---|---|
"""

_ANONYMOUS_ACCESS = """
A listener that other machines can reach without authentication must be allowed explicitly: without
`odradek.allow.anonymous=true` the broker does not start.
"""

_LOGGING = """
## Logging

`odradek serve` prints its listeners on stdout, and events on stderr: time in UTC, level, event, fields.

```text
2026-01-31T12:00:00.123Z INFO    coordinators.rebalance_started group=g generation=3 members=2 reason="..."
```

`--log-level info` (or `ODRADEK_LOG_LEVEL=info`, or `odradek.log.level`) shows starts and stops, loaded logs,
leadership changes in one line each, created and deleted topics, and rebalances with their reasons; `debug`
adds a line for each partition. `--log-format json` (or `odradek.log.format`) writes one JSON object per line.
"""

_HEAD = (
    "| setting | type | default | valid values | update mode | importance | description |\n"
    "|---|---|---|---|---|---|---|\n"
)

_TOPIC_HEAD = """
## Topics

Set when a topic is created, or by AlterConfigs. A topic without its own value has the broker's.

| setting | type | default | valid values | broker setting | description |
|---|---|---|---|---|---|
"""

_THROTTLES = """
## Broker, at run time only

Set by AlterConfigs; they cannot be in a file.

"""


def page() -> str:
    """Return the page as Markdown."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield _INTRODUCTION.format(variable=variable_name("log.retention.hours"))
    yield _PROFILE
    for setting, value, reason in profiles.SERVE:
        yield f"| `{setting.name}` | `{value}` | {default_cell(setting)} | {reason} |\n"
    yield _ANONYMOUS_ACCESS
    yield _LOCAL_CLUSTER
    for entries in zip(*map(profiles.local_cluster, (1, 2, 3)), strict=True):
        cells = " | ".join(f"`{entry.value}`" for entry in entries)
        setting, _, reason = entries[0]
        yield f"| `{setting.name}` | {cells} | {default_cell(setting)} | {reason} |\n"
    yield _LOGGING
    yield "\n## Odradek's settings\n\n" + _table(ODRADEK_SETTINGS)
    for heading, settings in broker.AREAS.items():
        yield f"\n## {heading}\n\n" + _table(settings)
    yield _THROTTLES + _table(THROTTLES)
    yield _TOPIC_HEAD
    for setting in topic.TOPIC:
        synonyms = ", ".join(f"`{synonym.setting.name}`" for synonym in topic.SYNONYMS.get(setting, ()))
        yield (
            f"| `{setting.name}` | {type_cell(setting)} | {default_cell(setting)} | "
            f"{escaped(setting.allowed)} | {synonyms} | {description_cell(setting)} |\n"
        )


def _table(settings: Iterable[AnySetting]) -> str:
    return _HEAD + "".join(
        f"| `{setting.name}` | {type_cell(setting)} | {default_cell(setting)} | {escaped(setting.allowed)} | "
        f"{setting.dynamic.value} | {setting.importance.value} | {description_cell(setting)} |\n"
        for setting in settings
    )


if __name__ == "__main__":
    sys.stdout.write(page())
