"""Errors of ``format("odradek_delta")``; each message states the problem and what to do.

::

    TableError
    ├── TableOptionError     an option is unknown, invalid, or conflicts with another
    ├── TableNotFound        there is no Delta table at the path
    ├── TableUnsupported     the table has an unsupported feature
    ├── SchemaMismatch        the columns of the DataFrame do not match the table's
    ├── InvalidRows          rows that must not be written: duplicate keys, nulls, too many dead letters
    ├── StorageFailed        a storage error: permissions, a full disk, wrong storage options
    ├── CommitConflict       a commit lost against concurrent writers too many times
    ├── TableChanged         a stream read a commit that deletes or changes rows
    └── HistoryLost          versions or files that a stream has still to read are missing
"""

from __future__ import annotations


class TableError(Exception):
    """Base of the errors of Delta tables."""


class TableOptionError(TableError):
    """An option is unknown, invalid, or conflicts with another."""


class TableNotFound(TableError):
    """There is no Delta table at the path."""


class TableUnsupported(TableError):
    """The table has an unsupported feature."""


class SchemaMismatch(TableError):
    """The columns of the DataFrame do not match the table's."""


class InvalidRows(TableError):
    """Rows that must not be written."""


class StorageFailed(TableError):
    """The storage failed or denied access."""


class CommitConflict(TableError):
    """A commit lost against concurrent writers in all its attempts."""


class TableChanged(TableError):
    """A stream read a commit that deletes or changes rows."""


class HistoryLost(TableError):
    """Versions or files that a stream has still to read are missing."""
