"""Options of the Delta source and sink: parsing and validation errors."""

from __future__ import annotations

import pickle

import pytest

from odradek.spark.delta.errors import TableOptionError
from odradek.spark.delta.options import read_sink_options, read_source_options


def test_delta_option_defaults() -> None:
    options = read_sink_options({"path": "t"})
    assert (options.partition_by, options.keys, options.compression) == ((), (), "zstd")
    assert (options.compact_every, options.vacuum_hours, options.dead_letter_ratio_max) == (0, None, 1.0)
    source = read_source_options({"path": "t"})
    assert (source.files_per_trigger_max, source.versions_per_trigger_max) == (1000, None)
    assert (source.starting_version, source.fail_on_data_loss) == (None, True)


def test_delta_options_are_parsed_and_pickle() -> None:
    options = read_sink_options(
        {
            "path": "t",
            "partitionby": " day, hour,day",
            "mergeSchema": "TRUE",
            "storage.aws_region": "eu-1",
            "deadlettertopic": "dlq",
            "deadletter.kafka.bootstrap.servers": "b:1",
            "checkpointlocation": "c",
        }
    )
    assert options.partition_by == ("day", "hour")
    assert options.merge_schema
    assert options.storage_options == {"aws_region": "eu-1"}
    assert options.dead_letter_settings == {"bootstrap.servers": "b:1"}
    assert pickle.loads(pickle.dumps(options)) == options
    assert read_source_options({"path": "t", "startingversion": "Latest"}).starting_version == "latest"


@pytest.mark.parametrize(
    ("raw_options", "message"),
    [
        ({}, "path of the table is required"),
        ({"path": "t", "partitonby": "a"}, "did you mean partitionBy"),
        ({"path": "t", "filebytes": "0"}, "fileBytes must be an integer >= 1, got '0'"),
        ({"path": "t", "filebytes": "1m"}, "fileBytes must be an integer >= 1, got '1m'"),
        ({"path": "t", "compression": "lzo"}, "zstd or snappy or none"),
        ({"path": "t", "mergeschema": "yes"}, "true or false"),
        ({"path": "t", "deadlettermaxratio": "2"}, "between 0 and 1"),
        ({"path": "t", "orderby": "a"}, "requires the option keys"),
        ({"path": "t", "deadlettertopic": "d"}, r"deadLetter\.kafka\.bootstrap\.servers"),
        ({"path": "t", "vacuumhours": "0"}, ">= 1, got '0'"),
    ],
)
def test_invalid_delta_sink_options_are_rejected(raw_options: dict[str, str], message: str) -> None:
    with pytest.raises(TableOptionError, match=message):
        read_sink_options(raw_options)


@pytest.mark.parametrize(
    ("raw_options", "message"),
    [
        ({"path": "t", "startingversion": "first"}, "startingVersion must be an integer >= 0, got 'first'"),
        ({"path": "t", "versionasof": "1", "timestampasof": "2026-01-01"}, "exclude each other"),
        ({"path": "t", "maxfilespertriger": "1"}, "did you mean maxFilesPerTrigger"),
        ({"path": "t", "keys": "a"}, "has no option keys here"),
    ],
)
def test_invalid_delta_source_options_are_rejected(raw_options: dict[str, str], message: str) -> None:
    with pytest.raises(TableOptionError, match=message):
        read_source_options(raw_options)
