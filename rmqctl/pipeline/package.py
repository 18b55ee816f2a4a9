"""rmqctl as files for a Spark cluster: a zip for executors, and a script for spark-submit."""

from __future__ import annotations

import zipfile
from importlib.resources import files
from pathlib import Path

ARCHIVE, SCRIPT = "rmqctl.zip", "rmqctl_submit.py"
_SCRIPT = '''"""rmqctl under spark-submit: spark-submit --py-files rmqctl.zip rmqctl_submit.py pipeline run JOB..."""

from rmqctl.__main__ import main

main()
'''
# The earliest date in a zip: the same sources give the same bytes.
_ANY_DAY = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT = ("__pycache__",)


def write_package(folder: Path) -> tuple[Path, Path]:
    """Write the archive and the script into a folder, which is created if necessary; return their paths.

    The archive contains only rmqctl. Its libraries have parts in C, which Python cannot import from an archive. Each
    executor's Python needs them (`pip install '.[spark]'`).
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = Path(str(files("rmqctl")))
    archive, script = folder / ARCHIVE, folder / SCRIPT
    half = archive.with_name(f".{ARCHIVE}.half")
    with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as made:
        for path in sorted(root.rglob("*")):
            if path.is_file() and not any(part in _LEFT_OUT for part in path.parts):
                name = path.relative_to(root.parent).as_posix()
                info = zipfile.ZipInfo(name, _ANY_DAY)
                info.compress_type = zipfile.ZIP_DEFLATED
                made.writestr(info, path.read_bytes())
    half.replace(archive)
    script.write_text(_SCRIPT, encoding="utf-8")
    return archive, script
