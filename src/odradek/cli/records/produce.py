"""``odradek produce``: send lines of stdin as records."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.errors import CommandFailed, command, print_error
from odradek.cli.records.record_format import Header, InvalidRecordLine, ParsedRecord, line_parser, parse_json
from odradek.cli.target import Bootstrap, Extra, Target, parse_pairs

if TYPE_CHECKING:
    from odradek.client.blocking.producer import Producer

MAX_BLOCK_MS = 10_000
"""Time a send waits for metadata or buffer space before the command fails."""

KeySeparator = Annotated[
    str | None,
    typer.Option(
        "--key-separator",
        "-K",
        metavar="TEXT",
        help=r"Split lines into key and value at this separator; \t is a tab.",
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header", "-H", metavar="NAME=VALUE", help="Add a header to each record. May be repeated."
    ),
]
Compression = Annotated[
    str | None,
    typer.Option("--compression", "-z", help="Compression codec: none, gzip, snappy, lz4 or zstd."),
]


@command
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic.")],
    key_separator: KeySeparator = None,
    header: Headers = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", min=0, help="Send all records to this partition (default: by key)."
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Parse lines as JSON objects with value, key, headers, partition, timestamp."
        ),
    ] = False,
    null: Annotated[
        str | None,
        typer.Option("--null", metavar="TEXT", help="Send a key or value equal to this text as null."),
    ] = None,
    acks: Annotated[
        str | None, typer.Option("--acks", help="Acknowledgements to wait for: all, 1 or 0.")
    ] = None,
    compression: Compression = None,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Send each line of stdin as a record.

    Exits with 0 when all records were acknowledged. Ctrl-C sends the lines read so far, and exits.

    Example: seq 3 | odradek produce numbers
    """
    target = Target(bootstrap, extra)
    headers = [(name, value.encode()) for name, value in parse_pairs(header or (), "--header").items()]
    parse = parse_json if json else line_parser(key_separator, null)
    with target.admin():
        pass  # checks that a broker responds
    producer = target.producer(acks=acks, compression_type=compression, max_block_ms=MAX_BLOCK_MS)
    sender = LineSender(producer, topic, headers, partition)
    try:
        sender.send_all(sys.stdin.buffer, parse)
    finally:
        try:
            sender.finish()
        except KeyboardInterrupt:
            sender.finish()  # Ctrl-C at the end of input must not lose records
            raise


class LineSender:
    """Sends lines as records, and counts failures."""

    def __init__(
        self, producer: Producer, topic: str, headers: Sequence[Header], partition: int | None
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._headers = list(headers)
        self._partition = partition
        self._failed_count = 0
        self._first_failure: BaseException | None = None
        self.sent_count = 0

    def send_all(self, lines: Iterable[bytes], parse: Callable[[bytes], ParsedRecord]) -> None:
        for number, line in enumerate(lines, 1):
            try:
                record = parse(line.removesuffix(b"\n").removesuffix(b"\r"))
            except (InvalidRecordLine, KeyError, TypeError) as error:
                raise CommandFailed(f"line {number}: {error}") from None
            self._producer.send(
                self._topic,
                record.value,
                record.key,
                [*record.headers, *self._headers] or None,
                self._partition if record.partition is None else record.partition,
                record.timestamp_ms,
                self._on_delivery,
            )
            self.sent_count += 1

    def finish(self) -> None:
        """Wait for deliveries; print failures and exit with 1 if there are any."""
        self._producer.close()
        if self._first_failure is not None:
            print_error(
                f"{self._failed_count} of {self.sent_count} records not delivered: {self._first_failure}"
            )
            raise typer.Exit(1)

    def _on_delivery(self, metadata: object, error: BaseException | None) -> None:
        if error is not None:
            self._failed_count += 1
            self._first_failure = self._first_failure or error
