"""Commits of a sink: files become part of a table once, whoever asks again.

A commit carries an application transaction: who writes, and the number of the batch. A batch whose number
the table has seen adds nothing; two that race are told apart by delta-rs, which lets one of them win. So
the answer to any doubt (a crash, a lost answer, another writer) is to look at the table again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, Transaction
from pyspark.sql.types import StructField, StructType

from odradek.client.environment import system_environment
from odradek.spark.delta.errors import CommitConflict
from odradek.spark.delta.options import SinkOptions
from odradek.spark.delta.schemas import compare, from_delta
from odradek.spark.delta.sink.parquet_files import WrittenFile
from odradek.spark.delta.storage import find_table, open_table, told
from odradek.spark.sink.markers import stale_checkpoint

_FIRST_WAIT_S: Final = 0.05
_WAIT_S_MAX: Final = 2.0


@dataclass(frozen=True)
class Application:
    """Who writes, and the number of what is written; numbers grow."""

    name: str
    version: int
    is_stream: bool = False
    """True if the numbers are those of a query's batches, of which only the last one can come again."""


def is_done(table: DeltaTable, application: Application | None) -> bool:
    """Whether the table holds this batch already."""
    if application is None:
        return False
    seen = table.transaction_version(application.name)
    return seen is not None and seen >= application.version


def check_went_back(path: str, name: str, batch_id: int, storage_options: dict[str, str]) -> None:
    """Raise StaleCheckpoint if the table holds a later batch of this query."""
    table = find_table(path, storage_options)
    if table is not None:
        _check_went_back(table, Application(name, batch_id, is_stream=True))


def _check_went_back(table: DeltaTable, application: Application | None) -> None:
    if application is None or not application.is_stream:
        return
    seen = table.transaction_version(application.name)
    if seen is not None and seen > application.version:
        raise stale_checkpoint(application.name, application.version, seen)


def properties(application: Application | None) -> CommitProperties:
    transactions = [] if application is None else [Transaction(application.name, application.version)]
    return CommitProperties(app_transactions=transactions)


def commit_files(
    options: SinkOptions,
    schema: StructType,
    files: list[WrittenFile],
    application: Application | None,
    *,
    overwrite: bool,
) -> bool:
    """Add files to the table, or put them in place of all others; False if the batch is there already."""
    committed_ms = system_environment().clock.wall_ms()

    def commit(table: DeltaTable) -> None:
        table.create_write_transaction(
            [_add(file, committed_ms) for file in files],
            "overwrite" if overwrite else "append",
            table.schema(),
            table.metadata().partition_columns,
            commit_properties=properties(application),
        )

    # A batch without rows needs no version of its own: should it run again, it has no rows again.
    wanted = commit if files or overwrite else None
    return commit_once(options, schema, application, wanted)


def commit_once(
    options: SinkOptions,
    schema: StructType,
    application: Application | None,
    commit: Callable[[DeltaTable], Any] | None,
) -> bool:
    """Carry out a commit on the newest version, again after each conflict; make the table first."""
    failure: CommitFailedError | None = None
    for attempt in range(options.commit_attempts_max):
        if attempt:
            time.sleep(min(_FIRST_WAIT_S * 2 ** (attempt - 1), _WAIT_S_MAX))
        try:
            with told(options.path):
                table = ready_table(options, schema)
                _check_went_back(table, application)
                if is_done(table, application):
                    # After a try, the commit may be this very one, whose answer was lost: its files stay.
                    return attempt > 0
                if commit is not None:
                    commit(table)
                return True
        except CommitFailedError as error:
            failure = error
    raise CommitConflict(
        f"the commit to the table at {options.path} lost against other writers {options.commit_attempts_max}"
        f" times ({failure}): write with fewer writers at a time, or raise the option maxCommitAttempts"
    ) from failure


def ready_table(options: SinkOptions, schema: StructType) -> DeltaTable:
    """The table, made or widened if it must be."""
    table = find_table(options.path, options.storage_options)
    if table is None:
        return DeltaTable.create(
            options.path,
            schema=Schema.from_json(schema.json()),
            mode="ignore",
            partition_by=list(options.partition_by),
            storage_options=options.storage_options or None,
        )
    added = compare(from_delta(table.schema().to_json()), schema).added if options.merge_schema else ()
    if not added:
        return table
    # A version of its own: a crash after it leaves a column of nulls, which the next attempt finds there.
    table.alter.add_columns([_delta_field(field) for field in added])
    return open_table(options.path, options.storage_options)


def _delta_field(field: StructField) -> Field:
    return Field.from_json(field.json())


def _add(file: WrittenFile, committed_ms: int) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=file.partition_values,
        modification_time=committed_ms,
        data_change=True,
        stats=file.stats,
    )
