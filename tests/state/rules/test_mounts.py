"""Which file system a path is on, by what Linux tells of its mounts."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from rmqctl.state.rules.mounts import file_system_type, is_shared_memory_safe

_MOUNTS = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 27 0:40 / /home rw,relatime shared:7 master:1 - nfs4 files:/home rw,vers=4.2
31 30 8:2 / /home/ada/local rw - xfs /dev/sdb rw
32 27 0:41 / /mnt/my\040disk\134x rw - fuse.sshfs ada@host: rw
33 27 0:42 / /data rw - ext4 /dev/sdc rw
34 33 0:43 / /data rw - cifs //host/data rw
a line without what belongs to it
""".strip()


@pytest.mark.parametrize(
    ("path", "kind", "is_safe"),
    [
        ("/root/.local/state/rmqctl/journal.db", "ext4", True),
        ("/home", "nfs4", False),
        ("/home/ada/journal.db", "nfs4", False),
        ("/home/ada/local/journal.db", "xfs", True),
        ("/home/ada/locale/journal.db", "nfs4", False),
        ("/homes/journal.db", "ext4", True),
        ("/mnt/my disk\\x/journal.db", "fuse.sshfs", False),
        # One lies over the other.
        ("/data/journal.db", "cifs", False),
    ],
)
def test_the_longest_mount_point_counts(path: str, kind: str, is_safe: bool) -> None:
    found = file_system_type(_MOUNTS, PurePosixPath(path))
    assert (found, is_shared_memory_safe(found)) == (kind, is_safe)


@pytest.mark.parametrize("mountinfo", ["", "nonsense", "1 2 3 - ext4 a rw", "22 27 0:21 / /proc rw - proc proc rw"])
def test_what_is_not_told_is_not_safe(mountinfo: str) -> None:
    assert file_system_type(mountinfo, PurePosixPath("/a")) is None
    assert not is_shared_memory_safe(None)
