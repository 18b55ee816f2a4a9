"""The files of a partitioned table, on whatever file system Spark finds it. Not for Spark Connect, which shows none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from rmqctl.errors import RmqctlError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TableFile(NamedTuple):
    """A file of a table: its whole path, and the values of the folders that it is in, by their names."""

    path: str
    values: tuple[tuple[str, str], ...]

    def value(self, name: str) -> str:
        """Return the value of one partition's column, "" where there is no such folder."""
        return dict(self.values).get(name, "")


class TableFiles:
    """Lists, moves and deletes files by Hadoop's FileSystem. Paths are as Spark takes them."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        # Spark has no public way to a file system.
        self._path = spark._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr,unused-ignore] # noqa: SLF001
        conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        self._fs = self._path(path).getFileSystem(conf)
        self._root = self._fs.makeQualified(self._path(path)).toString()

    @classmethod
    def of(cls, spark: SparkSession, path: str) -> TableFiles | None:
        """Return the files of a table, None with Spark Connect."""
        return cls(spark, path) if hasattr(spark, "_jsparkSession") else None

    def list(self) -> list[TableFile]:
        """Return all files with data, none of those that Spark is about to write or left behind."""
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
        """Tell whether there is such a file or folder."""
        return bool(self._fs.exists(self._path(path)))

    def move(self, path: str, folder: str) -> str:
        """Move a file into a folder under its own name, at once; return where it is. Raises RmqctlError."""
        target = f"{folder}/{path.rpartition('/')[2]}"
        self._fs.mkdirs(self._path(folder))
        if self.exists(target) or not self._fs.rename(self._path(path), self._path(target)):
            raise RmqctlError(f"{path} could not be moved to {folder}.", hint="Does something else change the table?")
        return target

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, and the folders that are empty without them."""
        folders = set()
        for path in paths:
            self._delete_one(path)
            folders.add(path.rpartition("/")[0])
        for folder in sorted(folders):
            if self.exists(folder) and not self._fs.listStatus(self._path(folder)):
                self._delete_one(folder)

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it; it need not be there."""
        self._fs.delete(self._path(path), True)

    def _delete_one(self, path: str) -> None:
        self._fs.delete(self._path(path), False)
