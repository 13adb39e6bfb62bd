"""Our tables against Kafka 3.9.1's own, which were printed from its classes into the file beside this one."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from odradek.config import broker, topic
from odradek.config.definition import InvalidValue, Setting


class Fact(NamedTuple):
    table: str
    name: str
    type: str
    default: str
    bounds: str
    importance: str
    mode: str
    listed: str


FACTS = [
    Fact(*line.split("\t"))
    for line in (Path(__file__).parent / "kafka_3_9_settings.tsv").read_text().splitlines()
    if not line.startswith("#")
]
BROKER = {fact.name: fact for fact in FACTS if fact.table == "broker"}
TOPIC = {fact.name: fact for fact in FACTS if fact.table == "topic"}
ALL = [(fact, broker.BY_NAME[fact.name]) for fact in BROKER.values()] + [
    (fact, topic.BY_NAME[fact.name]) for fact in TOPIC.values()
]


def test_every_name_of_kafka_is_declared_and_no_other() -> None:
    assert {setting.name for setting in broker.KAFKA} == set(BROKER)
    assert {setting.name for setting in topic.TOPIC} == set(TOPIC)
    assert (len(BROKER), len(TOPIC)) == (328, 36)


def test_no_setting_is_declared_twice() -> None:
    assert len(broker.BROKER) == len(broker.BY_NAME)


def test_our_own_names_cannot_meet_kafkas() -> None:
    assert all(name.startswith("odradek.") for name in set(broker.BY_NAME) - set(BROKER))


def test_types_are_kafkas() -> None:
    assert [s.name for fact, s in ALL if s.type.name != fact.type] == []


def test_defaults_are_kafkas() -> None:
    def shown(setting: Setting[Any]) -> str:
        text = setting.text(setting.default)
        return "(none)" if text is None else text or "(empty)"

    assert [(s.name, shown(s)) for fact, s in ALL if shown(s) != fact.default] == []


def test_importance_is_kafkas() -> None:
    assert [s.name for fact, s in ALL if s.importance.name != fact.importance] == []


def test_update_modes_are_kafkas() -> None:
    assert [s.name for fact, s in ALL if fact.mode not in {"-", s.dynamic.value}] == []


def test_unlisted_settings_are_kafkas_undocumented_ones() -> None:
    assert [s.name for fact, s in ALL if s.unlisted != (fact.listed == "unlisted")] == []


def _edges(bounds: str) -> tuple[list[str], list[str]]:
    """Values just inside and just outside of ``[low,...,high]`` or ``[a, b]``."""
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
    ("fact", "setting"), [pair for pair in ALL if pair[0].bounds != "-"], ids=lambda value: value.name
)
def test_bounds_are_kafkas(fact: Fact, setting: Setting[Any]) -> None:
    inside, outside = _edges(fact.bounds)
    for text in inside:
        setting.read(text)
    for text in outside:
        with pytest.raises(InvalidValue, match=f"for configuration {setting.name}: "):
            setting.read(text)


def test_every_default_passes_its_own_check() -> None:
    for setting in (*broker.BROKER, *topic.TOPIC):
        if setting.default is not None and setting.check is not None:
            assert setting.check(setting.default) is None, setting.name


def test_constants_are_named_like_their_settings() -> None:
    for name in ("log.segment.bytes", "broker.id", "offsets.topic.replication.factor"):
        assert getattr(broker, name.upper().replace(".", "_")) is broker.BY_NAME[name]


def test_every_setting_has_a_sentence() -> None:
    for setting in (*broker.BROKER, *topic.TOPIC):
        assert setting.doc.endswith("."), setting.name
        assert len(setting.doc) > 15, setting.name


def test_a_topic_setting_has_the_default_of_its_synonyms() -> None:
    for setting, synonyms in topic.SYNONYMS.items():
        last = next(s for s in reversed(synonyms) if s.setting.default is not None)
        inherited = last.setting.default if last.factor == 1 else last.setting.default * last.factor
        assert setting.default == inherited, setting.name
