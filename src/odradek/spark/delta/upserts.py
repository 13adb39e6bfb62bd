"""Upserts through ``foreachBatch``, for output mode update."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from odradek.spark.delta.options import read_sink_options
from odradek.spark.delta.sink.commits import check_not_stale


def upsert_into(
    path: str, keys: str, *, name: str = "odradek", options: Mapping[str, str] | None = None
) -> Callable[[DataFrame, int], None]:
    """Return a ``foreachBatch`` function that upserts, as Spark has no update mode for Python sinks.

    Writes are exactly once as with the sink: each commit carries the query id and the batch id.
    """
    write_options = {**(options or {}), "keys": keys}
    checked: set[str] = set()

    def upsert(frame: DataFrame, batch_id: int) -> None:
        query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if f"{query_id}" not in checked:
            # Once per query: after its first batch it never goes back.
            storage_options = read_sink_options({"path": path, **write_options}).storage_options
            check_not_stale(path, f"{name}:{query_id}", batch_id, storage_options)
            checked.add(f"{query_id}")
        sink_id = {"sinkId": f"{name}:{query_id}", "sinkVersion": str(batch_id)}
        frame.write.format("odradek_delta").options(**write_options, **sink_id).mode("append").save(path)

    return upsert
