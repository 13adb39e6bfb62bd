"""Contract tests of the file system port, run on each implementation.

A test module subclasses the contract once per implementation and provides its fixtures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from odradek.ports.files import FileSlice, FileSystem


@contextmanager
def raises(error: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


class FileContract:
    """Open files. Fixtures: ``files``, a file system; ``directory``, the path of an empty directory in it."""

    def test_consecutive_appends(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        assert file.append(b"abc") == 0
        assert file.append(memoryview(b"defg")) == 3
        assert file.append(bytearray(b"h")) == 7
        assert file.size() == 8
        assert file.read_at(0, 100) == b"abcdefgh"

    def test_empty_append_changes_nothing(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"abc")
        assert file.append(b"") == 3
        assert file.size() == 3

    def test_append_to_reopened_file(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"abc")
        file.close()
        reopened = files.open(f"{directory}/a")
        assert reopened.append(b"d") == 3
        assert files.read_whole(f"{directory}/a") == b"abcd"

    def test_reads_are_short_only_at_end_of_file(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"0123456789")
        assert file.read_at(2, 3) == b"234"
        assert file.read_at(8, 3) == b"89"
        assert file.read_at(10, 3) == b""
        assert file.read_at(50, 3) == b""

    def test_write_at_overwrites_and_extends(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"0123456789")
        file.write_at(8, b"xyz")
        assert file.read_at(0, 20) == b"01234567xyz"
        assert file.append(b"!") == 11

    def test_append_after_truncate(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"0123456789")
        file.truncate(4)
        assert file.size() == 4
        assert file.append(b"x") == 4
        assert file.read_at(0, 20) == b"0123x"

    def test_truncate_beyond_end_fills_with_zeros(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"01")
        file.truncate(4)
        assert file.read_at(0, 20) == b"01\0\0"

    def test_map_whole_file(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        assert bytes(file.map()) == b""
        file.append(b"0123456789")
        view = file.map()
        assert view.readonly
        assert bytes(view) == b"0123456789"
        assert view.format == "B"

    def test_map_outlives_its_file(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"0123")
        view = file.map()
        file.close()
        files.remove(f"{directory}/a")
        assert bytes(view) == b"0123"

    def test_slice_reads_its_range(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"0123456789")
        part = FileSlice(file, 3, 4)
        assert len(part) == 4
        assert part.read() == b"3456"

    def test_removed_file_is_readable_while_open(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"abc")
        files.remove(f"{directory}/a")
        assert not files.exists(f"{directory}/a")
        assert file.read_at(0, 3) == b"abc"

    def test_read_only_file_cannot_be_written(self, files: FileSystem, directory: str) -> None:
        files.write_whole(f"{directory}/a", b"abc")
        file = files.open(f"{directory}/a", writable=False)
        with raises(OSError):
            file.append(b"d")
        assert files.read_whole(f"{directory}/a") == b"abc"

    def test_closed_file_is_unusable_and_close_is_idempotent(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"abc")
        file.close()
        file.close()
        with raises(OSError):
            file.read_at(0, 1)
        with raises(OSError):
            file.append(b"d")

    def test_sync_returns(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"abc")
        file.sync()
        files.sync_dir(directory)

    def test_files_and_directories_are_synced_together(self, files: FileSystem, directory: str) -> None:
        files.make_directories(f"{directory}/d")
        for name in ("a", "d/b"):
            files.open(f"{directory}/{name}", create=True).append(b"abc")
        files.sync_all([f"{directory}/a", f"{directory}/d/b", f"{directory}/d", directory])
        files.sync_all([])
        with raises(FileNotFoundError):
            files.sync_all([directory, f"{directory}/none"])

    def test_written_data_is_cached(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(bytes(300_000))
        assert file.is_cached(0, 300_000)
        assert file.is_cached(299_999, 1)
        assert file.is_cached(0, 0)

    def test_cached_range_is_read(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        assert file.read_cached(0, 10) == b""
        file.append(b"0123456789")
        assert file.read_cached(2, 3) == b"234"
        assert file.read_cached(8, 100) == b"89"
        assert file.read_cached(50, 10) == b""
        part = FileSlice(file, 3, 4)
        assert part.read_cached() == b"3456"

    def test_range_beyond_end_counts_as_cached(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        assert file.is_cached(0, 10)
        file.append(b"abc")
        assert file.is_cached(0, 1_000_000)
        assert file.is_cached(1_000_000, 10)

    def test_paged_in_range_is_cached(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"0123456789")
        for position, size_bytes in ((0, 10), (4, 3), (8, 100), (50, 10)):
            file.page_in(position, size_bytes)
            assert file.is_cached(position, size_bytes)
        assert file.read_at(0, 10) == b"0123456789"

    def test_removed_file_can_be_paged_in_while_open(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"0123456789")
        files.remove(f"{directory}/a")
        file.page_in(0, 10)
        assert file.is_cached(0, 10)

    def test_slices(self, files: FileSystem, directory: str) -> None:
        file = files.open(f"{directory}/a", create=True)
        file.append(b"0123456789")
        part = FileSlice(file, 2, 6)
        assert part.starts_cached(3)
        rest = part.without_first(4)
        assert (rest.read(), rest.is_recent) == (b"67", False)
        assert FileSlice(file, 2, 6, is_recent=True).without_first(4).is_recent


class FileSystemContract:
    """Paths, locks and threads, with the fixtures of ``FileContract``."""

    def test_file_opened_without_waiting(self, files: FileSystem, directory: str) -> None:
        assert files.open_cached(f"{directory}/none") is None
        files.open(f"{directory}/a", create=True).append(b"abc")
        file = files.open_cached(f"{directory}/a")
        if file is not None:  # not every system can
            assert (file.path, file.size(), file.read_at(0, 9)) == (f"{directory}/a", 3, b"abc")
            file.close()

    def test_limit_on_open_files(self, files: FileSystem) -> None:
        assert files.open_files_max() >= 64

    def test_disk_space(self, files: FileSystem, directory: str) -> None:
        files.write_whole(f"{directory}/a", b"abc")
        for path in (directory, f"{directory}/a"):
            space = files.space(path)
            assert 0 <= space.usable_bytes <= space.total_bytes
            assert space.total_bytes > 0
        with raises(FileNotFoundError):
            files.space(f"{directory}/none")

    def test_absolute_path(self, files: FileSystem, directory: str) -> None:
        files.write_whole(f"{directory}/a", b"abc")
        assert files.absolute(f"{directory}/./none/../a/") == f"{directory}/a"
        assert files.absolute("some/where").startswith("/")

    def test_missing_file_raises(self, files: FileSystem, directory: str) -> None:
        with raises(FileNotFoundError):
            files.open(f"{directory}/a")
        with raises(FileNotFoundError):
            files.open(f"{directory}/none/a", create=True)
        for call in (files.size_of, files.modified_ms, files.read_whole, files.remove, files.list_names):
            with raises(FileNotFoundError):
                call(f"{directory}/a")

    def test_open_with_create_keeps_contents(self, files: FileSystem, directory: str) -> None:
        files.write_whole(f"{directory}/a", b"abc")
        assert files.open(f"{directory}/a", create=True).size() == 3

    def test_size_existence_and_modification_time(self, files: FileSystem, directory: str) -> None:
        files.write_whole(f"{directory}/a", b"abc")
        assert files.size_of(f"{directory}/a") == 3
        assert files.modified_ms(f"{directory}/a") >= 0
        files.set_modified_ms(f"{directory}/a", 86_400_000)
        assert files.modified_ms(f"{directory}/a") == 86_400_000
        assert files.exists(f"{directory}/a")
        assert files.exists(directory)
        assert not files.exists(f"{directory}/b")
        assert files.is_directory(directory)
        assert not files.is_directory(f"{directory}/a")
        assert not files.is_directory(f"{directory}/b")

    def test_listings_are_not_recursive(self, files: FileSystem, directory: str) -> None:
        files.make_directories(f"{directory}/d/e")
        files.write_whole(f"{directory}/b", b"22")
        files.write_whole(f"{directory}/a", b"1")
        files.write_whole(f"{directory}/d/inner", b"")
        assert files.list_names(directory) == ["a", "b", "d"]
        assert files.list_files(directory) == {"a": 1, "b": 2}
        with raises(FileNotFoundError):
            files.list_files(f"{directory}/none")

    def test_directories_are_created_with_parents(self, files: FileSystem, directory: str) -> None:
        files.make_directories(f"{directory}/d/e")
        files.make_directories(f"{directory}/d/e")
        assert files.is_directory(f"{directory}/d/e")

    def test_rename_replaces_the_target(self, files: FileSystem, directory: str) -> None:
        files.write_whole(f"{directory}/a", b"new")
        files.write_whole(f"{directory}/b", b"old")
        files.rename(f"{directory}/a", f"{directory}/b")
        files.sync_dir(directory)
        assert files.list_files(directory) == {"b": 3}
        assert files.read_whole(f"{directory}/b") == b"new"
        with raises(FileNotFoundError):
            files.rename(f"{directory}/a", f"{directory}/c")

    def test_renamed_directory_keeps_its_files(self, files: FileSystem, directory: str) -> None:
        files.make_directories(f"{directory}/d")
        files.write_whole(f"{directory}/d/a", b"abc")
        file = files.open(f"{directory}/d/a")
        files.rename(f"{directory}/d", f"{directory}/e")
        assert files.list_names(directory) == ["e"]
        assert files.read_whole(f"{directory}/e/a") == b"abc"
        file.append(b"d")
        assert files.read_whole(f"{directory}/e/a") == b"abcd"

    def test_remove_tree(self, files: FileSystem, directory: str) -> None:
        files.make_directories(f"{directory}/d/e")
        files.write_whole(f"{directory}/d/e/a", b"abc")
        files.remove_tree(f"{directory}/d")
        assert files.list_names(directory) == []
        with raises(FileNotFoundError):
            files.remove_tree(f"{directory}/d")

    def test_write_whole_leaves_no_temporary_file(self, files: FileSystem, directory: str) -> None:
        files.write_whole(f"{directory}/a", b"long content")
        files.write_whole(f"{directory}/a", b"short")
        assert files.read_whole(f"{directory}/a") == b"short"
        assert files.list_names(directory) == ["a"]

    def test_lock_is_exclusive(self, files: FileSystem, directory: str) -> None:
        lock = files.lock(f"{directory}/.lock")
        with raises(BlockingIOError):
            files.lock(f"{directory}/.lock")
        lock.release()
        files.lock(f"{directory}/.lock").release()
        assert files.exists(f"{directory}/.lock")

    def test_offload_returns_result_or_raises(self, files: FileSystem, directory: str) -> None:
        async def run() -> None:
            assert await files.offload(lambda: files.list_names(directory)) == []
            with raises(FileNotFoundError):
                await files.offload(lambda: files.read_whole(f"{directory}/a"))
            assert await files.offload_read(lambda: files.list_names(directory)) == []
            with raises(FileNotFoundError):
                await files.offload_read(lambda: files.read_whole(f"{directory}/a"))

        asyncio.run(run())
