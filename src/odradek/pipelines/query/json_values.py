"""JSON values: their schema, given or found in a sample and pinned beside the checkpoint, and their parsing.

A restart must see the columns of the runs before, so a sampled schema is sampled once, and a given one that
has changed is refused until somebody says that it is meant.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.pipelines.checkpoint.checkpoint import Checkpoint
from odradek.pipelines.query.transforms import first_line
from odradek.pipelines.query.value_sample import SchemaRefused, sampled_schema
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
    """What is kept: the words of the file, and the schema they stood for."""

    declared: str
    schema: str


def read_pin(found: Mapping[str, Any] | None) -> StoredSchema | None:
    return None if found is None else StoredSchema(found["declared"], json.dumps(found["schema"]))


def pin_text(declared: str, schema_json: str) -> str:
    return json.dumps({"declared": declared, "schema": json.loads(schema_json)}, indent=1)


def schema_change(spec: Spec, pinned: StoredSchema | None) -> str | None:
    """What is wrong if the file has another schema than the checkpoint began with. Pure."""
    declared = spec.source.value.schema
    if pinned is None or declared is None or _plain(declared) == _plain(pinned.declared):
        return None
    return (
        f"{spec.file.name}: the schema of values is {declared!r} now and was {pinned.declared!r} when this "
        f"checkpoint began. Put it back, or begin anew (odradek pipeline reset), or, if rows of both may "
        f"stand side by side in the sink, remove {spec.checkpoint}/odradek/{SCHEMA_FILE}"
    )


def _plain(declared: str) -> str:
    return " ".join(declared.replace(",", " , ").split()).lower()


def column_problem(names: Sequence[str], *, file_name: str) -> str | None:
    """Why fields cannot be columns beside ``record``: Spark knows no case in names."""
    lower = [name.lower() for name in names]
    if RECORD in lower:
        return (
            f"{file_name}: values have a field named {RECORD}, which is the name of the column with key, "
            f'topic and offset; name the other fields in schema = "…", or use format = "text" and from_json'
        )
    doubled = sorted(name for name, count in Counter(lower).items() if count > 1)
    if doubled:
        return f"{file_name}: values have fields that differ in case only: {', '.join(doubled)}"
    return None


def value_schema(spark: SparkSession, spec: Spec, checkpoint: Checkpoint) -> StructType:
    """The schema of this pipeline's values; pinned from now on."""
    pinned = read_pin(checkpoint.read_sidecar_json(SCHEMA_FILE))
    change = schema_change(spec, pinned)
    if change is not None:
        raise SchemaRefused(change)
    schema = _schema_of(spark, spec, pinned)
    problem = column_problem(schema.fieldNames(), file_name=spec.file.name)
    if problem is not None:
        raise SchemaRefused(problem)
    if pinned is None:
        checkpoint.write_sidecar(SCHEMA_FILE, pin_text(spec.source.value.schema or "", schema.json()))
    return schema


def _schema_of(spark: SparkSession, spec: Spec, pinned: StoredSchema | None) -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if pinned is not None:
        return StructType.fromJson(json.loads(pinned.schema))
    declared = spec.source.value.schema or ""
    if declared == SAMPLE:
        return sampled_schema(spark, spec)
    try:
        schema = StructType.fromDDL(declared)
    except PySparkException as wrong:
        raise SchemaRefused(
            f'{spec.file.name}: [source.value] schema must be DDL, as in "id bigint, at timestamp": '
            f"{first_line(wrong)}"
        ) from None
    if not isinstance(schema, StructType):
        raise SchemaRefused(f"{spec.file.name}: [source.value] schema names no fields")
    return schema


def with_parsed(raw: DataFrame, schema: StructType) -> DataFrame:
    """The row as it came, and its value parsed in one column more."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    with_corrupt = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    return raw.withColumn(PARSED, F.from_json(F.col("value").cast("string"), with_corrupt, _PERMISSIVE))


def is_unreadable() -> Column:
    """Whether a value is there and is no JSON of the schema. A tombstone has no value and is none."""
    from pyspark.sql import functions as F

    parsed = F.col(PARSED)
    return F.col("value").isNotNull() & (parsed.isNull() | parsed[CORRUPT].isNotNull())


def why_unreadable(schema: StructType) -> Column:
    """Return the field of an unreadable value that does not fit, and what it holds instead.

    A field does not fit if it is there as a text and Spark could not read it as what the schema says.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    text = F.col("value").cast("string")
    shown = F.substring(text, 1, _SHOWN_CHARACTERS)
    as_texts = StructType([StructField(one.name, StringType()) for one in schema.fields])
    corrupt = StructField(CORRUPT, StringType())
    texts = F.from_json(text, StructType([*as_texts.fields, corrupt]), _PERMISSIVE)
    whole = F.when(F.length("value") == 0, F.lit("the value is empty")).when(
        texts.isNull() | texts[CORRUPT].isNotNull(),
        F.concat(F.lit("the value is not a JSON object: "), shown),
    )
    for one in schema.fields:
        content = texts.getField(one.name)
        alone = F.from_json(text, StructType([one, corrupt]), _PERMISSIVE)
        whole = whole.when(
            content.isNotNull() & (alone.isNull() | alone[CORRUPT].isNotNull()),
            F.concat(
                F.lit(f"field {one.name} must be {one.dataType.simpleString()}, got "),
                F.substring(content, 1, _SHOWN_CHARACTERS),
            ),
        )
    return whole.otherwise(F.concat(F.lit("the value does not fit the schema: "), shown))


def readable_or_stop(schema: StructType) -> Column:
    """True, or the end of the query with a message that names the record, its field and the cause."""
    from pyspark.sql import functions as F

    words = F.concat(
        F.lit("the value of a record is no JSON of the schema: topic "),
        F.col("topic"),
        F.lit(", partition "),
        F.col("partition").cast("string"),
        F.lit(", offset "),
        F.col("offset").cast("string"),
        F.lit(": "),
        why_unreadable(schema),
        F.lit(" (correct the schema, or name a topic for such records in [dead_letter])"),
    )
    return F.when(is_unreadable(), F.raise_error(words).cast("boolean")).otherwise(F.lit(True))


def fields_and_record(parsed: DataFrame, schema: StructType) -> DataFrame:
    """The fields of the values as columns, and all else of the record in one."""
    from pyspark.sql import functions as F

    kept = [name for name in parsed.columns if name not in ("value", PARSED)]
    fields = [F.col(PARSED).getField(name).alias(name) for name in schema.fieldNames()]
    return parsed.select(*fields, F.struct(*kept).alias(RECORD))
