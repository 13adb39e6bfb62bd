"""The end of a log, and what is appended."""

from __future__ import annotations

from pathlib import Path

from odradek.local_cluster.log_tail import LogTail, print_logs


def test_last_lines_then_new_ones(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("".join(f"line {number}\n" for number in range(9)) + "par")
    tail = LogTail(log)
    assert tail.last_lines(2) == ["line 7", "line 8"]
    assert list(tail.new_lines()) == []
    with log.open("a") as file:
        file.write("tial\nnext\n")
    assert list(tail.new_lines()) == ["partial", "next"]


def test_log_that_was_put_aside_is_read_from_its_new_start(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("one\ntwo\nthree\n")
    tail = LogTail(log)
    assert tail.last_lines(1) == ["three"]
    log.unlink()
    assert list(tail.new_lines()) == []
    log.write_text("four\n")
    assert list(tail.new_lines()) == ["four"]


def test_no_lines_and_no_log(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    assert LogTail(log).last_lines(5) == []
    log.write_text("one\n")
    assert LogTail(log).last_lines(0) == []


def test_lines_have_their_members_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"of {name}\n")
    shown: list[str] = []
    print_logs([(f"{name} | ", LogTail(tmp_path / name)) for name in ("a", "b")], 5, shown.append)
    assert shown == ["a | of a", "b | of b"]
