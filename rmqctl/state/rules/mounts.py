"""Which file system a path is on, and whether SQLite's write-ahead log is safe there."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

# On these, every process immediately sees the same memory of a file. On others (NFS, SMB, AFS, 9p, virtiofs, FUSE)
# another machine may not, which breaks the index of a write-ahead log, and with it the database.
_LOCAL = frozenset(
    {"bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "msdos", "ntfs3", "overlay", "ramfs"}
    | {"reiserfs", "tmpfs", "vfat", "xfs", "zfs"}
)


def file_system_type(mountinfo: str, path: PurePosixPath) -> str | None:
    """Return the type of the file system of an absolute path without links; None when no mount point matches.

    `mountinfo` is the text of /proc/self/mountinfo (proc_pid_mountinfo(5)). The longest mount point counts; of several
    at the same point the last one, which hides the others.
    """
    found: str | None = None
    longest = -1
    for line in mountinfo.splitlines():
        mount, separator, rest = line.partition(" - ")
        fields, kinds = mount.split(" "), rest.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = PurePosixPath(_unescaped(fields[4]))
        depth = len(point.parts)
        if depth >= longest and path.is_relative_to(point):
            found, longest = kinds[0], depth
    return found


def is_shared_memory_safe(kind: str | None) -> bool:
    """Tell whether a type of file system is local to this machine; an unknown type is not."""
    return kind in _LOCAL


def _unescaped(text: str) -> str:
    """Return an unescaped mount point: blanks, tabs, line ends and backslashes are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
