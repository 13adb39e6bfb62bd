"""Idempotent commits of a sink's files to a table.

A commit carries an application transaction: an application id and the batch id as version. A batch whose
version the table has adds nothing; of two concurrent commits delta-rs lets one succeed. So after any doubt (a
crash, a lost response, another writer) the table is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, Transaction
from pyspark.sql.types import StructField, StructType

from odradek.client.environment import block_thread, system_environment
from odradek.spark.delta.errors import CommitConflict
from odradek.spark.delta.options import SinkOptions
from odradek.spark.delta.schemas import compare_schemas, parse_schema
from odradek.spark.delta.sink.parquet_files import WrittenFile
from odradek.spark.delta.storage import find_table, open_table, storage_errors
from odradek.spark.sink.markers import stale_checkpoint_error

_FIRST_WAIT_S: Final = 0.05
_WAIT_S_MAX: Final = 2.0


@dataclass(frozen=True)
class AppTransaction:
    """Application transaction of Delta: an application id, and a version that increases."""

    app_id: str
    version: int
    is_stream: bool = False
    """True if the versions are a query's batch ids, of which only the last can be replayed."""


def is_committed(table: DeltaTable, app_transaction: AppTransaction | None) -> bool:
    """Return True if the table already has this batch."""
    if app_transaction is None:
        return False
    committed_version = table.transaction_version(app_transaction.app_id)
    return committed_version is not None and committed_version >= app_transaction.version


def check_not_stale(path: str, name: str, batch_id: int, storage_options: dict[str, str]) -> None:
    """Raise StaleCheckpoint if the table has a later batch of this query."""
    table = find_table(path, storage_options)
    if table is not None:
        _check_not_stale(table, AppTransaction(name, batch_id, is_stream=True))


def _check_not_stale(table: DeltaTable, app_transaction: AppTransaction | None) -> None:
    if app_transaction is None or not app_transaction.is_stream:
        return
    committed_version = table.transaction_version(app_transaction.app_id)
    if committed_version is not None and committed_version > app_transaction.version:
        raise stale_checkpoint_error(app_transaction.app_id, app_transaction.version, committed_version)


def commit_properties(app_transaction: AppTransaction | None) -> CommitProperties:
    transactions = (
        [] if app_transaction is None else [Transaction(app_transaction.app_id, app_transaction.version)]
    )
    return CommitProperties(app_transactions=transactions)


def commit_files(
    options: SinkOptions,
    schema: StructType,
    files: list[WrittenFile],
    app_transaction: AppTransaction | None,
    *,
    overwrite: bool,
) -> bool:
    """Add files to the table, or replace all others; return False if the table already has the batch."""
    committed_ms = system_environment().clock.wall_ms()

    def commit(table: DeltaTable) -> None:
        table.create_write_transaction(
            [_add(file, committed_ms) for file in files],
            "overwrite" if overwrite else "append",
            table.schema(),
            table.metadata().partition_columns,
            commit_properties=commit_properties(app_transaction),
        )

    # A batch without rows needs no version: a replay has no rows either.
    return commit_once(options, schema, app_transaction, commit if files or overwrite else None)


def commit_once(
    options: SinkOptions,
    schema: StructType,
    app_transaction: AppTransaction | None,
    commit: Callable[[DeltaTable], object] | None,
) -> bool:
    """Run a commit on the latest version, with retries after conflicts; create the table first."""
    failure: CommitFailedError | None = None
    for attempt in range(options.commit_attempts_max):
        if attempt:
            block_thread(min(_FIRST_WAIT_S * 2 ** (attempt - 1), _WAIT_S_MAX))
        try:
            with storage_errors(options.path):
                table = prepare_table(options, schema)
                _check_not_stale(table, app_transaction)
                if is_committed(table, app_transaction):
                    # After a retry it may be this very commit, whose response was lost: keep its files.
                    return attempt > 0
                if commit is not None:
                    commit(table)
                return True
        except CommitFailedError as error:
            failure = error
    raise CommitConflict(
        f"the commit to the table at {options.path} conflicted with other writers"
        f" {options.commit_attempts_max} times ({failure}): use fewer concurrent writers, or raise the option"
        " maxCommitAttempts"
    ) from failure


def prepare_table(options: SinkOptions, schema: StructType) -> DeltaTable:
    """Return the table; create it, or add columns, if needed."""
    table = find_table(options.path, options.storage_options)
    if table is None:
        return DeltaTable.create(
            options.path,
            schema=Schema.from_json(schema.json()),
            mode="ignore",
            partition_by=list(options.partition_by),
            storage_options=options.storage_options or None,
        )
    added = (
        compare_schemas(parse_schema(table.schema().to_json()), schema).added if options.merge_schema else ()
    )
    if not added:
        return table
    # A separate version: after a crash the next attempt finds the column, filled with nulls.
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
