"""What users of ``format("odradek_delta")`` are told: one message that says what is wrong and what to do.

::

    TableError
    ├── TableOptionError     an option is unknown, wrong, or excludes another
    ├── TableNotFound        there is no Delta table at the path
    ├── TableUnsupported     the table has a feature that this source cannot honour
    ├── SchemaRefused        the frame's columns do not fit the table's
    ├── InvalidRows          rows that must not be written: doubled keys, nulls, too many dead letters
    ├── StorageFailed        the storage refused: permissions, a full disk, wrong storage options
    ├── CommitConflict        others wrote in the way for too long
    ├── TableChanged         a stream met a commit that deletes or changes rows
    └── HistoryLost          versions or files that a stream has yet to read are gone
"""

from __future__ import annotations


class TableError(Exception):
    """A Delta table cannot be read or written."""


class TableOptionError(TableError):
    """An option is unknown, has a wrong value, or excludes another."""


class TableNotFound(TableError):
    """There is no Delta table at the path."""


class TableUnsupported(TableError):
    """The table has a feature that this source cannot honour."""


class SchemaRefused(TableError):
    """The frame's columns do not fit the table's."""


class InvalidRows(TableError):
    """Rows that must not be written."""


class StorageFailed(TableError):
    """The storage refused what was asked of it."""


class CommitConflict(TableError):
    """A commit lost against other writers, as often as it may be tried."""


class TableChanged(TableError):
    """A stream met a commit that deletes or changes rows."""


class HistoryLost(TableError):
    """Versions or files that a stream has yet to read are gone."""
