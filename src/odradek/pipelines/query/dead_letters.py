"""Dead letters: records whose value cannot be parsed, sent to a topic of their own and counted.

They bypass the transform and are united with its result, so that one sink writes both: rows and dead letters
of a topic sink are in the same transactions. The cost is that Spark reads each batch twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.pipelines.query.json_values import PARSED, is_unreadable, unreadable_reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

METRICS: Final = "odradek"
"""Name of Spark's observed metrics ``rows`` and ``dead_letters``."""
DEAD_COLUMN: Final = "_dead"
WINDOW_ROWS_MIN: Final = 100
"""Minimum number of rows for the ratio: fewer rows allow as many dead letters as this many."""
WINDOW_ROWS: Final = 10_000
"""The ratio is computed over the last batches with about this many rows."""
_DETAILS: Final = ("reason", "topic", "partition", "offset", "timestamp")


class TooManyDeadLetters(Exception):
    """Raised when the ratio of dead letters exceeds the configured maximum."""


def unreadable_records(parsed: DataFrame, schema: StructType) -> DataFrame:
    """Return the records that cannot be parsed, with a reason; count all rows."""
    from pyspark.sql import functions as F

    bad = is_unreadable()
    counted = parsed.observe(
        METRICS, F.count(F.lit(1)).alias("rows"), F.count(F.when(bad, F.lit(1))).alias("dead_letters")
    )
    return counted.filter(bad).drop(PARSED).withColumn("reason", unreadable_reason(schema))


def as_topic_rows(dead: DataFrame, topic: str) -> DataFrame:
    """Return dead letters as rows of a topic sink, with additional headers for the reason and origin."""
    from pyspark.sql import functions as F

    details = F.array(
        *(
            F.struct(F.lit(f"dead.{name}").alias("key"), _text(name).cast("binary").alias("value"))
            for name in _DETAILS
        )
    )
    headers = F.concat(F.col("headers"), details) if "headers" in dead.columns else details
    return dead.select(F.lit(topic).alias("topic"), "key", "value", headers.alias("headers"))


def _text(name: str) -> Any:
    from pyspark.sql import functions as F

    if name == "timestamp":
        return F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX")
    return F.col(name).cast("string")


def with_dead_column(rows: DataFrame, dead: DataFrame) -> DataFrame:
    """Add dead letters to the rows of a table sink, in a column that the sink removes."""
    from pyspark.sql import functions as F

    names = ["key", "value", *(["headers"] if "headers" in dead.columns else []), *_DETAILS]
    letters = dead.select(F.struct(*names).alias(DEAD_COLUMN))
    return rows.unionByName(letters, allowMissingColumns=True)


class DeadLetterRatio:
    """The ratio of dead letters among the last rows. Pure."""

    def __init__(self, max_ratio: float) -> None:
        self._max_ratio = max_ratio
        self._batches: deque[tuple[int, int]] = deque()

    def add(self, rows: int, dead: int) -> None:
        """Count a batch; raise TooManyDeadLetters."""
        self._batches.append((rows, dead))
        while len(self._batches) > 1 and self._rows() - self._batches[0][0] >= WINDOW_ROWS:
            self._batches.popleft()
        total, dead_count = self._rows(), sum(dead for _, dead in self._batches)
        if dead_count > self._max_ratio * max(total, WINDOW_ROWS_MIN):
            raise TooManyDeadLetters(
                f"{dead_count:,} of the last {total:,} rows are dead letters, more than [dead_letter] "
                f"max_ratio = {self._max_ratio:g} allows; inspect them, correct the schema or the producer, "
                "or raise max_ratio"
            )

    def add_progress(self, progress: Mapping[str, Any]) -> None:
        """Count the batch of a Spark progress report."""
        counts = (progress.get("observedMetrics") or {}).get(METRICS)
        if counts:
            self.add(int(counts.get("rows") or 0), int(counts.get("dead_letters") or 0))

    def _rows(self) -> int:
        return sum(rows for rows, _ in self._batches)
