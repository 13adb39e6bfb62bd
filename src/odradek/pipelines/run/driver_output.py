"""What of the words of a driver, Java and workers is for people. Pure.

Java says much at each start that means nothing, and our clients log for programs. Of these events a few are
for the user: options without effect, records that are lost, brokers that do not answer.
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
_SENTENCES: Final = {
    "spark.option_without_effect": "{reason}",
    "spark.option_ignored": "{option} has no effect: {reason}",
    "spark.records_lost": "records are lost: {reason}",
    "spark.offset_fetch_retried": "no answer, trying again: {reason}",
    "spark.group_commit_failed": (
        "the group's offsets are not committed, so others see too much lag: {reason}"
    ),
    "spark.table_maintenance_failed": "compaction of {path} failed, and is tried again later: {reason}",
    "spark.table_file_lost": "a file of the table {path} is lost: {file}",
    "spark.table_version_lost": "version {version} of the table {path} is lost: {reason}",
}


def is_event(line: str) -> bool:
    """Whether a line is of our clients' own log."""
    return _EVENT.match(line) is not None


def user_message(line: str) -> str | None:
    """What to show of a line; None if it is nothing for people.

    >>> user_message('spark.option_ignored option=kafka.foo reason="our producer has no such option"')
    'kafka.foo has no effect: our producer has no such option'
    """
    if not line.strip() or line.startswith((*_NOISE, *_JAVA_TRACE)):
        return None
    event = _EVENT.match(line)
    if event is None:
        return _JAVA_DIED.sub("", line)
    sentence = _SENTENCES.get(event[1])
    if sentence is None:
        return None
    fields = {name: _plain(value) for name, value in _FIELD.findall(line[event.end() :])}
    try:
        return sentence.format(**fields)
    except KeyError:
        return line


def _plain(value: str) -> str:
    """A field's value as it was before it was quoted."""
    try:
        return str(json.loads(value)) if value.startswith('"') else value
    except ValueError:
        return value
