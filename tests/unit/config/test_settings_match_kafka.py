"""Settings compared with those of Kafka 3.9.1, printed from its classes to the TSV file."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from odradek.config import broker, topic
from odradek.config.definition import InvalidValue, Setting


class KafkaSetting(NamedTuple):
    table: str
    name: str
    type: str
    default: str
    bounds: str
    importance: str
    mode: str
    listed: str


KAFKA_SETTINGS = [
    KafkaSetting(*line.split("\t"))
    for line in (Path(__file__).parent / "kafka_3_9_settings.tsv").read_text().splitlines()
    if not line.startswith("#")
]
BROKER = {kafka.name: kafka for kafka in KAFKA_SETTINGS if kafka.table == "broker"}
TOPIC = {kafka.name: kafka for kafka in KAFKA_SETTINGS if kafka.table == "topic"}
ALL = [(kafka, broker.BY_NAME[kafka.name]) for kafka in BROKER.values()] + [
    (kafka, topic.BY_NAME[kafka.name]) for kafka in TOPIC.values()
]


def test_exactly_kafkas_settings_are_declared() -> None:
    assert {setting.name for setting in broker.KAFKA} == set(BROKER)
    assert {setting.name for setting in topic.TOPIC} == set(TOPIC)
    assert (len(BROKER), len(TOPIC)) == (328, 36)


def test_no_setting_is_declared_twice() -> None:
    assert len(broker.BROKER) == len(broker.BY_NAME)


def test_odradek_settings_have_their_own_prefix() -> None:
    assert all(name.startswith("odradek.") for name in set(broker.BY_NAME) - set(BROKER))


def test_types_equal_kafkas() -> None:
    assert [setting.name for kafka, setting in ALL if setting.type.name != kafka.type] == []


def test_defaults_equal_kafkas() -> None:
    def default_text(setting: Setting[Any]) -> str:
        text = setting.format_value(setting.default)
        return "(none)" if text is None else text or "(empty)"

    assert [
        (setting.name, default_text(setting))
        for kafka, setting in ALL
        if default_text(setting) != kafka.default
    ] == []


def test_importance_equals_kafkas() -> None:
    assert [setting.name for kafka, setting in ALL if setting.importance.name != kafka.importance] == []


def test_update_modes_equal_kafkas() -> None:
    assert [setting.name for kafka, setting in ALL if kafka.mode not in {"-", setting.dynamic.value}] == []


def test_unlisted_settings_are_kafkas_undocumented_settings() -> None:
    assert [setting.name for kafka, setting in ALL if setting.unlisted != (kafka.listed == "unlisted")] == []


def _edges(bounds: str) -> tuple[list[str], list[str]]:
    """Return values just inside and just outside of ``[low,...,high]`` or ``[a, b]``."""
    inner = bounds.strip("[]")
    if ",..." not in inner:
        return inner.split(", "), ["no-such-word"]
    low, _, high = inner.partition(",...")
    high = high.strip(",")
    inside, outside = [low], [str(float(low) - 1) if "." in low + high else str(int(low) - 1)]
    if high:
        inside.append(high)
        outside.append(str(float(high) + 1) if "." in low + high else str(int(high) + 1))
    return inside, outside


@pytest.mark.parametrize(
    ("kafka", "setting"), [pair for pair in ALL if pair[0].bounds != "-"], ids=lambda value: value.name
)
def test_bounds_equal_kafkas(kafka: KafkaSetting, setting: Setting[Any]) -> None:
    inside, outside = _edges(kafka.bounds)
    for text in inside:
        setting.parse_value(text)
    for text in outside:
        with pytest.raises(InvalidValue, match=f"{setting.name} must .*, got "):
            setting.parse_value(text)


def test_every_default_passes_its_own_check() -> None:
    for setting in (*broker.BROKER, *topic.TOPIC):
        if setting.default is not None and setting.check is not None:
            assert setting.check(setting.default) is None, setting.name


def test_constants_have_the_names_of_their_settings() -> None:
    for name in ("log.segment.bytes", "broker.id", "offsets.topic.replication.factor"):
        assert getattr(broker, name.upper().replace(".", "_")) is broker.BY_NAME[name]


def test_every_setting_has_a_description() -> None:
    for setting in (*broker.BROKER, *topic.TOPIC):
        assert setting.doc.endswith("."), setting.name
        assert len(setting.doc) > 15, setting.name


def test_topic_setting_has_the_default_of_its_synonyms() -> None:
    for setting, synonyms in topic.SYNONYMS.items():
        last = next(each for each in reversed(synonyms) if each.setting.default is not None)
        inherited = last.setting.default if last.factor == 1 else last.setting.default * last.factor
        assert setting.default == inherited, setting.name
