"""The status of a cluster until it is stopped: a live table on a terminal, else a line per change."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from odradek.cli.output import show_line
from odradek.local_cluster.status.status_report import ClusterStatus
from odradek.local_cluster.status.status_text import status_lines, summary_line

if TYPE_CHECKING:
    from rich.text import Text

REFRESH_MS: Final = 1000
_ATTENTION: Final = (
    r"\b(stopped|paused|unregistered|refuses acks=all|no broker responds)\b"
    r"|\b[1-9][0-9]* (under-replicated|below min ISR|offline)\b"
    r"| offline$|^controller +none$"
)


async def show_live_status(
    read_status: Callable[[], Awaitable[ClusterStatus]],
    is_stopped: Callable[[], bool],
    sleep_ms: Callable[[int], Awaitable[None]],
    note: str,
) -> None:
    """Show the status until the cluster is stopped by another command, or this is cancelled."""
    if sys.stdout.isatty():
        await _show_table(read_status, is_stopped, sleep_ms, note)
    else:
        await _show_changes(read_status, is_stopped, sleep_ms)


async def _show_table(
    read_status: Callable[[], Awaitable[ClusterStatus]],
    is_stopped: Callable[[], bool],
    sleep_ms: Callable[[int], Awaitable[None]],
    note: str,
) -> None:
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        while not is_stopped():
            live.update(styled_lines([*status_lines(await read_status()), "", note]), refresh=True)
            await sleep_ms(REFRESH_MS)


async def _show_changes(
    read_status: Callable[[], Awaitable[ClusterStatus]],
    is_stopped: Callable[[], bool],
    sleep_ms: Callable[[int], Awaitable[None]],
) -> None:
    last = None
    while not is_stopped():
        line = summary_line(await read_status())
        if line != last:
            show_line(line, flush=True)
            last = line
        await sleep_ms(REFRESH_MS)


def styled_lines(lines: list[str]) -> Text:
    """Return lines with headings in bold and what needs attention in red."""
    from rich.text import Text

    text = Text()
    for line in lines:
        style = "bold" if line.startswith(("BROKER ", "PARTITION ")) else ""
        styled = Text(line, style=style, overflow="fold")
        styled.highlight_regex(_ATTENTION, style="red")
        text.append_text(styled).append("\n")
    return text
