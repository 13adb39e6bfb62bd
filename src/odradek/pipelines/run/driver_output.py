"""Filter of a driver's stderr: the lines of Spark, Java and workers that users should see. Pure.

Java prints noise at each start, and our clients log structured events. A few events are for users: options
without effect, lost records, unreachable brokers.
"""

from __future__ import annotations

import json
import re
from typing import Final

_NOISE: Final = (
    "WARNING: Using incubator modules",
    "Picked up JAVA_TOOL_OPTIONS",
    "Setting default log level to",
    "Setting Spark log level to",
    "To adjust logging level use",
    "WARNING: A terminally deprecated method",
    "WARNING: sun.misc.Unsafe",
    "WARNING: Please consider reporting this",
)
_JAVA_TRACE: Final = ("\tat ", "\t... ")
_JAVA_DIED: Final = re.compile(r'^Exception in thread "[^"]*" (?:[\w$]+\.)+[\w$]+: ')
_EVENT: Final = re.compile(r"([a-z_]+\.[a-z_]+) (?=[a-z_]+=)")
_FIELD: Final = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|\S*)')
_MESSAGES: Final = {
    "spark.option_without_effect": "{reason}",
    "spark.option_ignored": "{option} has no effect: {reason}",
    "spark.records_lost": "records are lost: {reason}",
    "spark.offset_fetch_retried": "request failed, retrying: {reason}",
    "spark.group_commit_failed": "offset commit failed, so other tools show too much lag: {reason}",
    "spark.table_maintenance_failed": "compaction of {path} failed and is retried later: {reason}",
    "spark.table_file_lost": "a file of the table {path} is lost: {file}",
    "spark.table_version_lost": "version {version} of the table {path} is lost: {reason}",
}


def is_event(line: str) -> bool:
    """Return True for a structured log event of our clients."""
    return _EVENT.match(line) is not None


def user_message(line: str) -> str | None:
    """Return the text to show for a line; None to hide it.

    >>> user_message('spark.option_ignored option=kafka.foo reason="the producer has no such option"')
    'kafka.foo has no effect: the producer has no such option'
    """
    if not line.strip() or line.startswith((*_NOISE, *_JAVA_TRACE)):
        return None
    event = _EVENT.match(line)
    if event is None:
        return _JAVA_DIED.sub("", line)
    template = _MESSAGES.get(event[1])
    if template is None:
        return None
    fields = {name: _unquoted(value) for name, value in _FIELD.findall(line[event.end() :])}
    try:
        return template.format(**fields)
    except KeyError:
        return line


def _unquoted(value: str) -> str:
    """Return a field's value without quotes."""
    try:
        return str(json.loads(value)) if value.startswith('"') else value
    except ValueError:
        return value
