"""Rows whose value cannot be read: sent to a topic of their own, and counted.

They are taken from the source beside the good ones and join them again behind the transform, so that one sink
writes both: rows and dead letters of a topic sink are in the same transactions. The price is that Spark reads
each batch twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.pipelines.query.json_values import PARSED, is_unreadable, why_unreadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

METRICS: Final = "odradek"
"""The name of the counts among Spark's observed metrics: ``rows`` and ``dead_letters``."""
DEAD_COLUMN: Final = "_dead"
WINDOW_ROWS_MIN: Final = 100
"""Below this a share says little: as many dead letters are allowed as in this many rows."""
WINDOW_ROWS: Final = 10_000
"""The share is that of the last batches with about so many rows."""
_ABOUT: Final = ("reason", "topic", "partition", "offset", "timestamp")


class TooManyDeadLetters(Exception):
    """More rows cannot be read than the file allows."""


def unreadable_records(parsed: DataFrame, schema: StructType) -> DataFrame:
    """The raw records that cannot be read, with the field and the cause; all rows are counted on the way."""
    from pyspark.sql import functions as F

    bad = is_unreadable()
    counted = parsed.observe(
        METRICS, F.count(F.lit(1)).alias("rows"), F.count(F.when(bad, F.lit(1))).alias("dead_letters")
    )
    return counted.filter(bad).drop(PARSED).withColumn("reason", why_unreadable(schema))


def as_topic_rows(dead: DataFrame, topic: str) -> DataFrame:
    """Dead letters as rows of a topic sink: key, value and headers as they came, and headers that say why."""
    from pyspark.sql import functions as F

    about = F.array(
        *(
            F.struct(F.lit(f"dead.{name}").alias("key"), _text(name).cast("binary").alias("value"))
            for name in _ABOUT
        )
    )
    headers = F.concat(F.col("headers"), about) if "headers" in dead.columns else about
    return dead.select(F.lit(topic).alias("topic"), "key", "value", headers.alias("headers"))


def _text(name: str) -> Any:
    from pyspark.sql import functions as F

    if name == "timestamp":
        return F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX")
    return F.col(name).cast("string")


def with_dead_column(rows: DataFrame, dead: DataFrame) -> DataFrame:
    """Rows of a table sink, and dead letters beside them in a column of their own that the sink takes out."""
    from pyspark.sql import functions as F

    names = ["key", "value", *(["headers"] if "headers" in dead.columns else []), *_ABOUT]
    buried = dead.select(F.struct(*names).alias(DEAD_COLUMN))
    return rows.unionByName(buried, allowMissingColumns=True)


class DeadLetterShare:
    """The share of dead letters among the last rows. Pure."""

    def __init__(self, max_ratio: float) -> None:
        self._max_ratio = max_ratio
        self._batches: deque[tuple[int, int]] = deque()

    def add(self, rows: int, dead: int) -> None:
        """Count a batch; raises TooManyDeadLetters."""
        self._batches.append((rows, dead))
        while len(self._batches) > 1 and self._rows() - self._batches[0][0] >= WINDOW_ROWS:
            self._batches.popleft()
        total, lost = self._rows(), sum(dead for _, dead in self._batches)
        if lost > self._max_ratio * max(total, WINDOW_ROWS_MIN):
            raise TooManyDeadLetters(
                f"{lost:,} of the last {total:,} rows could not be read and went to the topic of dead "
                f"letters, more than [dead_letter] max_ratio = {self._max_ratio:g} allows; look at them, "
                "correct the schema or the producer, or raise max_ratio"
            )

    def hear(self, progress: Mapping[str, Any]) -> None:
        """Count the batch that Spark tells of."""
        counts = (progress.get("observedMetrics") or {}).get(METRICS)
        if counts:
            self.add(int(counts.get("rows") or 0), int(counts.get("dead_letters") or 0))

    def _rows(self) -> int:
        return sum(rows for rows, _ in self._batches)
