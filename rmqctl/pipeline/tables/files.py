"""The files of a partitioned table, on any file system of Spark. Not for Spark Connect, which has no access to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from rmqctl.errors import RmqctlError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TableFile(NamedTuple):
    """A file of a table: its full path, and the values of its partition columns."""

    path: str
    values: tuple[tuple[str, str], ...]

    def value(self, name: str) -> str:
        """Return the value of a partition column, or "" when the file is not below such a folder."""
        return dict(self.values).get(name, "")


class TableFiles:
    """Lists, moves and deletes files with Hadoop's FileSystem. Paths are as in Spark."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        # Spark has no public API for file systems.
        self._path = spark._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr,unused-ignore] # noqa: SLF001
        conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        self._fs = self._path(path).getFileSystem(conf)
        self._root = self._fs.makeQualified(self._path(path)).toString()

    @classmethod
    def of(cls, spark: SparkSession, path: str) -> TableFiles | None:
        """Return the files of a table, None with Spark Connect."""
        return cls(spark, path) if hasattr(spark, "_jsparkSession") else None

    def list(self) -> list[TableFile]:
        """Return all data files, without those that Spark is writing or left behind."""
        found = []
        for path in self._walk(self._root) if self.exists(self._root) else ():
            *folders, name = path.removeprefix(self._root).lstrip("/").split("/")
            if name.endswith(".parquet"):
                values = (folder.partition("=") for folder in folders)
                found.append(TableFile(path, tuple((key, value) for key, _, value in values)))
        return sorted(found)

    def _walk(self, folder: str) -> Iterator[str]:
        """Yield the files below a folder. Hadoop's own listFiles runs a program for each file of a local disk."""
        for status in self._fs.listStatus(self._path(folder)):
            path = status.getPath().toString()
            if path.rpartition("/")[2].startswith(("_", ".")):
                continue
            if status.isDirectory():
                yield from self._walk(path)
            else:
                yield path

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        return bool(self._fs.exists(self._path(path)))

    def move(self, path: str, folder: str) -> str:
        """Move a file into a folder atomically, with the same name; return its new path. Raises RmqctlError."""
        target = f"{folder}/{path.rpartition('/')[2]}"
        self._fs.mkdirs(self._path(folder))
        if self.exists(target) or not self._fs.rename(self._path(path), self._path(target)):
            hint = "Make sure that no other process changes the table."
            raise RmqctlError(f"Cannot move {path} to {folder}.", hint=hint)
        return target

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, and the folders that become empty."""
        folders = set()
        for path in paths:
            self._delete_one(path)
            folders.add(path.rpartition("/")[0])
        for folder in sorted(folders):
            if self.exists(folder) and not self._fs.listStatus(self._path(folder)):
                self._delete_one(folder)

    def delete_folder(self, path: str) -> None:
        """Delete a folder with its contents, if it exists."""
        self._fs.delete(self._path(path), True)

    def _delete_one(self, path: str) -> None:
        self._fs.delete(self._path(path), False)
