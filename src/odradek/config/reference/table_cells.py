"""Table cells of the reference pages."""

from __future__ import annotations

from typing import Any

from odradek.config.definition import AnySetting


def type_cell(setting: AnySetting) -> str:
    return setting.type.name.lower()


def default_cell(setting: AnySetting) -> str:
    return value_cell(setting, setting.default)


def value_cell(setting: AnySetting, value: Any) -> str:
    text = setting.format_value(value)
    if text is None:
        return "none"
    return f"`{text}`" if text else "empty"


def description_cell(setting: AnySetting) -> str:
    mark = "*Inert.* " if setting.inert else "*Not available.* " if setting.unavailable else ""
    return mark + escaped(setting.doc)


def escaped(text: str) -> str:
    return text.replace("|", "\\|")
