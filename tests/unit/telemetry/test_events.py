import datetime
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.telemetry import events


@pytest.fixture(autouse=True)
def _leave_logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger(events.ROOT)
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.propagate = before[0], before[2]
    root.setLevel(before[1])


def written(level: str = "debug", colour: bool = False) -> io.StringIO:
    stream = io.StringIO()
    events.configure(stream, level, colour)
    return stream


def test_text_event_format() -> None:
    stream = written()
    events.logger("listener").info("connection_refused", peer="10.0.0.7:5123", limit=3, reason="too many")
    moment, rest = stream.getvalue().split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", moment)
    assert rest == 'INFO    listener.connection_refused peer=10.0.0.7:5123 limit=3 reason="too many"\n'


@pytest.mark.parametrize("value", ["a\nb", "a b", 'a"b', "a=b", "", "\x1b[31mred", "a\u2028b", "100%s"])
def test_field_values_are_quoted(value: str) -> None:
    stream = written()
    events.logger("x").error("happened", field=value, after=1)
    text = stream.getvalue()
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
    assert text.endswith(" after=1\n")


def test_long_field_values_are_truncated() -> None:
    stream = written()
    events.logger("x").info("happened", field="y" * 10_000)
    assert len(stream.getvalue()) < 1200


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_events_below_level_are_not_written(level: str, count: int) -> None:
    stream = written(level)
    log = events.logger("x")
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert len(stream.getvalue().splitlines()) == count


def test_fields_of_unwritten_events_are_not_formatted() -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    written("info")
    log = events.logger("x")
    log.debug("a", field=Costly())
    assert not log.enabled(logging.DEBUG)
    assert log.enabled(logging.INFO)


def test_bound_fields_come_first() -> None:
    stream = written()
    events.logger("x").bind(broker=1).bind(topic="t").warning("happened", offset=5)
    assert stream.getvalue().endswith("x.happened broker=1 topic=t offset=5\n")


def test_only_warnings_and_errors_are_coloured() -> None:
    stream = written(colour=True)
    log = events.logger("x")
    log.info("a")
    log.warning("b")
    plain, coloured = stream.getvalue().splitlines()
    assert "\x1b" not in plain
    assert coloured.startswith("\x1b[33m")
    assert coloured.endswith("\x1b[0m")


def test_failure_includes_traceback() -> None:
    stream = written()
    try:
        raise OSError("disk on fire")
    except OSError as reason:
        events.logger("x").failure("task_failed", reason, task="flush")
    text = stream.getvalue()
    assert 'task=flush reason="OSError(' in text
    assert "Traceback" in text


def test_last_configure_call_wins() -> None:
    first, second = written(), written()
    events.logger("x").info("a")
    assert first.getvalue() == ""
    assert second.getvalue() != ""


def test_unknown_level_is_rejected() -> None:
    with pytest.raises(ValueError, match="must be one of debug, info, warning, error, got 'loud'"):
        events.configure(io.StringIO(), "loud")


def test_timestamps_have_a_time_zone() -> None:
    stream = written()
    record = logging.LogRecord("odradek.x", logging.INFO, "", 0, "%s", ("x.happened",), None)
    record.created, record.msecs = 1_769_860_800.25, 250.0
    logging.getLogger("odradek.x").handle(record)
    assert stream.getvalue() == "2026-01-31T12:00:00.250Z INFO    x.happened\n"


def written_json() -> io.StringIO:
    stream = io.StringIO()
    events.configure(stream, "debug", form="json")
    return stream


def test_json_event_format() -> None:
    stream = written_json()
    events.logger("listener").bind(broker=0).warning("connection_refused", limit=3, reason="a\nb", whole=None)
    (line,) = stream.getvalue().splitlines()
    document = json.loads(line)
    moment = datetime.datetime.fromisoformat(document.pop("time"))
    assert moment.utcoffset() == datetime.timedelta(0)
    assert document == {
        "level": "warning",
        "event": "listener.connection_refused",
        "broker": 0,
        "limit": 3,
        "reason": "a\nb",
        "whole": None,
    }


def test_json_fields_are_truncated_and_cannot_replace_the_header() -> None:
    stream = written_json()
    events.logger("x").info("happened", level="high", path=Path("/p"), long="y" * 10_000)
    document = json.loads(stream.getvalue())
    assert (document["level"], document["path"]) == ("info", "/p")
    assert len(document["long"]) < 1200


def test_json_failure_includes_traceback() -> None:
    stream = written_json()
    try:
        raise OSError("disk on fire")
    except OSError as reason:
        events.logger("x").failure("task_failed", reason, task="flush")
    (line,) = stream.getvalue().splitlines()
    assert "Traceback" in json.loads(line)["traceback"]


def test_unknown_format_is_rejected() -> None:
    with pytest.raises(ValueError, match="must be one of text, json, got 'xml'"):
        events.configure(io.StringIO(), "info", form="xml")


def test_records_of_other_loggers_are_json_too() -> None:
    stream = written_json()
    logging.getLogger("odradek.other").error("plain %s", "words")
    assert json.loads(stream.getvalue())["event"] == "plain words"
