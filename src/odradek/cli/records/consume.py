"""``odradek consume``: records of a topic, printed as they come."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from odradek.cli.errors import command, is_stdout_closed, usage_error
from odradek.cli.records.record_format import (
    InvalidRecordLine,
    Printer,
    json_printer,
    raw_printer,
    template_printer,
    text_printer,
)
from odradek.cli.target import Bootstrap, Extra, Target

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.client.blocking.consumer import Consumer
    from odradek.model.ids import TopicPartition

POLL_S: Final = 0.2
"""Time to wait for records before checking that the output is still read."""
POLLED_MAX: Final = 10_000


FromBeginning = Annotated[
    bool,
    typer.Option(
        "--from-beginning", help="Start at the earliest offset (with --group: if it has no committed offset)."
    ),
]
Group = Annotated[
    str | None,
    typer.Option("--group", "-g", help="Join this consumer group, and commit offsets."),
]
Partition = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="Read only this partition. May be repeated."),
]
Offset = Annotated[
    str | None,
    typer.Option(
        "--offset",
        "-o",
        metavar="OFFSET",
        help="Start at earliest, latest, offset N, or N before the end (-N).",
    ),
]
MaxMessages = Annotated[
    int | None, typer.Option("--max-messages", "-n", min=1, help="Exit after this many records.")
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="Exit after this many seconds without a record."),
]
UntilEnd = Annotated[
    bool, typer.Option("--until-end", "-e", help="Exit at the end offsets of when the command started.")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="text (default), json, raw, or a template such as %o:%k=%s\\n (see docs/cli.md).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line (--format json).")]
PrintKey = Annotated[bool, typer.Option("--print-key", help="Print keys before values.")]
PrintHeaders = Annotated[bool, typer.Option("--headers", help="Print headers before values.")]
PrintTimestamp = Annotated[bool, typer.Option("--timestamp", help="Print timestamps before values.")]
Isolation = Annotated[
    str | None,
    typer.Option("--isolation", help="read_uncommitted (default) or read_committed."),
]


@command
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic.")],
    from_beginning: FromBeginning = False,
    group: Group = None,
    partition: Partition = None,
    offset: Offset = None,
    max_messages: MaxMessages = None,
    timeout: Timeout = None,
    until_end: UntilEnd = False,
    format_: Format = None,
    json: Json = False,
    print_key: PrintKey = False,
    print_headers: PrintHeaders = False,
    print_timestamp: PrintTimestamp = False,
    isolation: Isolation = None,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Print the records of a topic.

    Waits for new records until it is interrupted, or one of -n, -e and --timeout ends it.

    Example: odradek consume numbers --from-beginning --max-messages 3
    """
    if group is not None and (partition or offset is not None or until_end):
        usage_error(
            "--group goes with none of --partition, --offset and --until-end: a group shares partitions"
        )
    if from_beginning and offset is not None:
        usage_error("--from-beginning and --offset both say where to begin: give one of them")
    where = "earliest" if from_beginning else _checked(offset or "latest")
    target = Target(bootstrap, extra)
    if json and format_ is not None:
        usage_error("--json and --format both say how to print: give one of them")
    printer = printer_of(
        "json" if json else format_ or "text", key=print_key, headers=print_headers, timestamp=print_timestamp
    )
    with target.admin() as admin:
        partitions = _partitions(admin, topic, partition)
        starts = {} if group is not None else _starts(admin, partitions, where)
        ends = _ends(admin, partitions) if until_end else None
    reset = "earliest" if from_beginning else "latest"
    with target.consumer(group_id=group, isolation_level=isolation, auto_offset_reset=reset) as consumer:
        if group is not None:
            consumer.subscribe([topic])
        else:
            consumer.assign(starts)
            for one, start in starts.items():
                consumer.seek(one, start)
        Reading(consumer, printer, max_messages, timeout, ends).go_on()


def printer_of(given: str, *, key: bool, headers: bool, timestamp: bool) -> Printer:
    """What prints records in a format."""
    if given == "text":
        return text_printer(key=key, headers=headers, timestamp=timestamp)
    if given in ("json", "raw"):
        return json_printer if given == "json" else raw_printer
    if "%" not in given:
        usage_error(f"--format {given!r}: give text, json, raw, or a template with %s in it")
    try:
        return template_printer(given)
    except InvalidRecordLine as wrong:
        usage_error(f"--format: {wrong}")


def _checked(offset: str) -> str:
    if offset not in ("earliest", "latest") and not offset.removeprefix("-").isdigit():
        usage_error(f"--offset {offset!r}: give earliest, latest, a number, or -N for the last N")
    return offset


def _partitions(admin: Admin, topic: str, wanted: Sequence[int] | None) -> list[TopicPartition]:
    from odradek import TopicPartition

    there = [one.partition for one in admin.describe_topics([topic])[topic].partitions]
    for number in wanted or ():
        if number not in there:
            usage_error(f"--partition {number}: topic {topic} has partitions 0 to {len(there) - 1}")
    return [TopicPartition(topic, number) for number in wanted or there]


def _ends(admin: Admin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    from odradek import OffsetSpec

    found = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {one: end.offset for one, end in found.items()}


def _starts(admin: Admin, partitions: Sequence[TopicPartition], where: str) -> dict[TopicPartition, int]:
    """The offset at which each partition begins; what lies outside of a log is moved to its nearer end."""
    from odradek import OffsetSpec

    ends = _ends(admin, partitions)
    if where == "latest":
        return ends
    found = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    firsts = {one: first.offset for one, first in found.items()}
    if where == "earliest":
        return firsts
    number = int(where)
    wanted = {one: ends[one] + number if where.startswith("-") else number for one in partitions}
    return {one: min(max(offset, firsts[one]), ends[one]) for one, offset in wanted.items()}


class Reading:
    """Prints records until enough came, nothing came for long, or the end is reached."""

    def __init__(
        self,
        consumer: Consumer,
        printer: Printer,
        count_max: int | None,
        timeout_s: float | None,
        ends: Mapping[TopicPartition, int] | None,
    ) -> None:
        self._consumer = consumer
        self._printer = printer
        self._left = count_max
        self._timeout_s = timeout_s
        self._ends = ends

    def go_on(self) -> None:
        out = sys.stdout.buffer
        last_s = perf_counter()
        while not self._is_done(last_s):
            most = POLLED_MAX if self._left is None else min(self._left, POLLED_MAX)
            records = self._consumer.poll(
                POLL_S if self._timeout_s is None else min(POLL_S, self._timeout_s), most
            )
            if not records:
                if is_stdout_closed():
                    raise BrokenPipeError
                continue
            last_s = perf_counter()
            shown = [one for one in records if self._is_wanted(one.topic, one.partition, one.offset)]
            out.write(b"".join(map(self._printer, shown)))
            out.flush()
            if self._left is not None:
                self._left -= len(shown)

    def _is_wanted(self, topic: str, partition: int, offset: int) -> bool:
        from odradek import TopicPartition

        return self._ends is None or offset < self._ends[TopicPartition(topic, partition)]

    def _is_done(self, last_s: float) -> bool:
        if self._left == 0:
            return True
        if self._timeout_s is not None and perf_counter() - last_s >= self._timeout_s:
            return True
        return self._ends is not None and all(
            self._consumer.position(one) >= end for one, end in self._ends.items()
        )
