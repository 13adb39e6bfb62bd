"""``odradek consume``: print the records of a topic."""

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
"""Poll timeout, after which the command checks whether stdout was closed."""
POLLED_MAX: Final = 10_000


FromBeginning = Annotated[
    bool,
    typer.Option(
        "--from-beginning", help="Start at the earliest offset (with --group: if it has no committed offset)."
    ),
]
Group = Annotated[
    str | None,
    typer.Option("--group", "-g", help="Consume as a member of this group, and commit offsets."),
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
    bool, typer.Option("--until-end", "-e", help="Exit at the end offsets as of the start of the command.")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="Output format: text (default), json, raw, or a template such as %o:%k=%s\\n (see docs/cli.md).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line (--format json).")]
PrintKey = Annotated[bool, typer.Option("--print-key", help="Print keys before values.")]
PrintHeaders = Annotated[bool, typer.Option("--headers", help="Print headers before values.")]
PrintTimestamp = Annotated[bool, typer.Option("--timestamp", help="Print timestamps before values.")]
Isolation = Annotated[
    str | None,
    typer.Option("--isolation", help="Isolation level: read_uncommitted (default) or read_committed."),
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

    Waits for new records until interrupted, or until -n, -e or --timeout applies.

    Example: odradek consume numbers --from-beginning --max-messages 3
    """
    if group is not None and (partition or offset is not None or until_end):
        usage_error(
            "--group cannot be used with --partition, --offset or --until-end: the group assigns partitions"
        )
    if from_beginning and offset is not None:
        usage_error("only one of --from-beginning and --offset is allowed")
    start = "earliest" if from_beginning else _validate_offset(offset or "latest")
    target = Target(bootstrap, extra)
    if json and format_ is not None:
        usage_error("only one of --json and --format is allowed")
    printer = printer_for(
        "json" if json else format_ or "text", key=print_key, headers=print_headers, timestamp=print_timestamp
    )
    with target.admin() as admin:
        partitions = _partitions(admin, topic, partition)
        starts = {} if group is not None else _start_offsets(admin, partitions, start)
        ends = _end_offsets(admin, partitions) if until_end else None
    reset = "earliest" if from_beginning else "latest"
    with target.consumer(group_id=group, isolation_level=isolation, auto_offset_reset=reset) as consumer:
        if group is not None:
            consumer.subscribe([topic])
        else:
            consumer.assign(starts)
            for topic_partition, offset_ in starts.items():
                consumer.seek(topic_partition, offset_)
        RecordPrinter(consumer, printer, max_messages, timeout, ends).run()


def printer_for(format_: str, *, key: bool, headers: bool, timestamp: bool) -> Printer:
    """Return the printer for a format or template."""
    if format_ == "text":
        return text_printer(key=key, headers=headers, timestamp=timestamp)
    if format_ in ("json", "raw"):
        return json_printer if format_ == "json" else raw_printer
    if "%" not in format_:
        usage_error(f"--format must be text, json, raw, or a template with %s, got {format_!r}")
    try:
        return template_printer(format_)
    except InvalidRecordLine as error:
        usage_error(f"--format: {error}")


def _validate_offset(offset: str) -> str:
    if offset not in ("earliest", "latest") and not offset.removeprefix("-").isdigit():
        usage_error(f"--offset must be earliest, latest, N, or -N for the last N, got {offset!r}")
    return offset


def _partitions(admin: Admin, topic: str, numbers: Sequence[int] | None) -> list[TopicPartition]:
    from odradek import TopicPartition

    existing = [info.partition for info in admin.describe_topics([topic])[topic].partitions]
    for number in numbers or ():
        if number not in existing:
            usage_error(f"--partition must be 0 to {len(existing) - 1} for topic {topic}, got {number}")
    return [TopicPartition(topic, number) for number in numbers or existing]


def _end_offsets(admin: Admin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    from odradek import OffsetSpec

    ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {partition: end.offset for partition, end in ends.items()}


def _start_offsets(
    admin: Admin, partitions: Sequence[TopicPartition], start: str
) -> dict[TopicPartition, int]:
    """Return the start offset of each partition, moved into the range of its log."""
    from odradek import OffsetSpec

    ends = _end_offsets(admin, partitions)
    if start == "latest":
        return ends
    earliest = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    firsts = {partition: first.offset for partition, first in earliest.items()}
    if start == "earliest":
        return firsts
    number = int(start)
    offsets = {
        partition: ends[partition] + number if start.startswith("-") else number for partition in partitions
    }
    return {
        partition: min(max(offset, firsts[partition]), ends[partition])
        for partition, offset in offsets.items()
    }


class RecordPrinter:
    """Prints records up to a maximum count, an idle timeout, or the end offsets."""

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
        self._remaining = count_max
        self._timeout_s = timeout_s
        self._ends = ends

    def run(self) -> None:
        out = sys.stdout.buffer
        last_s = perf_counter()
        while not self._is_done(last_s):
            records_max = POLLED_MAX if self._remaining is None else min(self._remaining, POLLED_MAX)
            records = self._consumer.poll(
                POLL_S if self._timeout_s is None else min(POLL_S, self._timeout_s), records_max
            )
            if not records:
                if is_stdout_closed():
                    raise BrokenPipeError
                continue
            last_s = perf_counter()
            printed = [
                record
                for record in records
                if self._is_before_end(record.topic, record.partition, record.offset)
            ]
            out.write(b"".join(map(self._printer, printed)))
            out.flush()
            if self._remaining is not None:
                self._remaining -= len(printed)

    def _is_before_end(self, topic: str, partition: int, offset: int) -> bool:
        from odradek import TopicPartition

        return self._ends is None or offset < self._ends[TopicPartition(topic, partition)]

    def _is_done(self, last_s: float) -> bool:
        if self._remaining == 0:
            return True
        if self._timeout_s is not None and perf_counter() - last_s >= self._timeout_s:
            return True
        return self._ends is not None and all(
            self._consumer.position(partition) >= end for partition, end in self._ends.items()
        )
