"""JSON values: their schema, declared or sampled and stored beside the checkpoint, and their parsing.

A restarted query must have the same columns, so a schema is sampled once, and a changed declaration is an
error until the user confirms it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.pipelines.checkpoint.checkpoint import Checkpoint
from odradek.pipelines.query.transforms import first_line
from odradek.pipelines.query.value_sample import InvalidSchema, sampled_schema
from odradek.pipelines.spec.model import SAMPLE, Spec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

SCHEMA_FILE: Final = "schema.json"
RECORD: Final = "record"
CORRUPT: Final = "_odradek_corrupt"
PARSED: Final = "_odradek_parsed"
_SHOWN_CHARACTERS: Final = 100
_PERMISSIVE: Final = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


class StoredSchema(NamedTuple):
    """The schema as declared in the pipeline file, and as resolved."""

    declared: str
    schema: str


def parse_stored_schema(value: Mapping[str, Any] | None) -> StoredSchema | None:
    return None if value is None else StoredSchema(value["declared"], json.dumps(value["schema"]))


def stored_schema_json(declared: str, schema_json: str) -> str:
    return json.dumps({"declared": declared, "schema": json.loads(schema_json)}, indent=1)


def schema_change(spec: Spec, stored: StoredSchema | None) -> str | None:
    """Return the error if the file declares another schema than the checkpoint was started with. Pure."""
    declared = spec.source.value.schema
    if stored is None or declared is None or _normalized(declared) == _normalized(stored.declared):
        return None
    return (
        f"{spec.file.name}: the schema of values must not change within a checkpoint: it is {declared!r} and "
        f"was {stored.declared!r}. Undo the change, or start over (odradek pipeline reset), or, if the sink "
        f"may have rows of both, remove {spec.checkpoint}/odradek/{SCHEMA_FILE}"
    )


def _normalized(declared: str) -> str:
    return " ".join(declared.replace(",", " , ").split()).lower()


def column_problem(names: Sequence[str], *, file_name: str) -> str | None:
    """Return why fields cannot be columns beside ``record``; Spark's names are case-insensitive."""
    lower = [name.lower() for name in names]
    if RECORD in lower:
        return (
            f"{file_name}: values have a field named {RECORD}, which is reserved for the column with key, "
            f'topic and offset; list the other fields in schema = "…", or use format = "text" and from_json'
        )
    duplicates = sorted(name for name, count in Counter(lower).items() if count > 1)
    if duplicates:
        return f"{file_name}: values have fields that differ in case only: {', '.join(duplicates)}"
    return None


def value_schema(spark: SparkSession, spec: Spec, checkpoint: Checkpoint) -> StructType:
    """Return the schema of this pipeline's values, and store it beside the checkpoint."""
    stored = parse_stored_schema(checkpoint.read_sidecar_json(SCHEMA_FILE))
    change = schema_change(spec, stored)
    if change is not None:
        raise InvalidSchema(change)
    schema = _resolve_schema(spark, spec, stored)
    problem = column_problem(schema.fieldNames(), file_name=spec.file.name)
    if problem is not None:
        raise InvalidSchema(problem)
    if stored is None:
        declared = spec.source.value.schema or ""
        checkpoint.write_sidecar(SCHEMA_FILE, stored_schema_json(declared, schema.json()))
    return schema


def _resolve_schema(spark: SparkSession, spec: Spec, stored: StoredSchema | None) -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if stored is not None:
        return StructType.fromJson(json.loads(stored.schema))
    declared = spec.source.value.schema or ""
    if declared == SAMPLE:
        return sampled_schema(spark, spec)
    try:
        schema = StructType.fromDDL(declared)
    except PySparkException as error:
        raise InvalidSchema(
            f'{spec.file.name}: [source.value] schema must be DDL, as in "id bigint, at timestamp": '
            f"{first_line(error)}"
        ) from None
    if not isinstance(schema, StructType):
        raise InvalidSchema(f"{spec.file.name}: [source.value] schema must have at least one field")
    return schema


def with_parsed(raw: DataFrame, schema: StructType) -> DataFrame:
    """Add a column with the parsed value."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    with_corrupt = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    return raw.withColumn(PARSED, F.from_json(F.col("value").cast("string"), with_corrupt, _PERMISSIVE))


def is_unreadable() -> Column:
    """Return the condition for a non-null value that is not JSON of the schema."""
    from pyspark.sql import functions as F

    parsed = F.col(PARSED)
    return F.col("value").isNotNull() & (parsed.isNull() | parsed[CORRUPT].isNotNull())


def unreadable_reason(schema: StructType) -> Column:
    """Return the reason why a value cannot be parsed: the first mismatching field, and its content.

    A field mismatches if it is present as text and Spark could not parse it as the type of the schema.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    text = F.col("value").cast("string")
    shown = F.substring(text, 1, _SHOWN_CHARACTERS)
    as_texts = StructType([StructField(field.name, StringType()) for field in schema.fields])
    corrupt = StructField(CORRUPT, StringType())
    texts = F.from_json(text, StructType([*as_texts.fields, corrupt]), _PERMISSIVE)
    reason = F.when(F.length("value") == 0, F.lit("the value is empty")).when(
        texts.isNull() | texts[CORRUPT].isNotNull(),
        F.concat(F.lit("the value is not a JSON object: "), shown),
    )
    for field in schema.fields:
        content = texts.getField(field.name)
        field_only = F.from_json(text, StructType([field, corrupt]), _PERMISSIVE)
        reason = reason.when(
            content.isNotNull() & (field_only.isNull() | field_only[CORRUPT].isNotNull()),
            F.concat(
                F.lit(f"field {field.name} must be {field.dataType.simpleString()}, got "),
                F.substring(content, 1, _SHOWN_CHARACTERS),
            ),
        )
    return reason.otherwise(F.concat(F.lit("the value does not match the schema: "), shown))


def valid_or_fail(schema: StructType) -> Column:
    """Return a condition that is true for valid values, and fails the query for others."""
    from pyspark.sql import functions as F

    message = F.concat(
        F.lit("the value of a record is not JSON of the schema: topic "),
        F.col("topic"),
        F.lit(", partition "),
        F.col("partition").cast("string"),
        F.lit(", offset "),
        F.col("offset").cast("string"),
        F.lit(": "),
        unreadable_reason(schema),
        F.lit(" (correct the schema, or set a topic for such records in [dead_letter])"),
    )
    return F.when(is_unreadable(), F.raise_error(message).cast("boolean")).otherwise(F.lit(True))


def fields_and_record(parsed: DataFrame, schema: StructType) -> DataFrame:
    """Select the fields of the values as columns, and the rest of the record as one."""
    from pyspark.sql import functions as F

    record_columns = [name for name in parsed.columns if name not in ("value", PARSED)]
    fields = [F.col(PARSED).getField(name).alias(name) for name in schema.fieldNames()]
    return parsed.select(*fields, F.struct(*record_columns).alias(RECORD))
