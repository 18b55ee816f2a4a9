"""Adds the manual pages to a wheel, made from the commands' own help."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface):
    """Writes share/man/man1; an editable installation has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages, and name them as files of the wheel."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from rmqctl.cli.man_pages import write

        folder = Path(self.root, "build", "man")
        write(folder)
        build_data["shared_data"][str(folder)] = "share/man/man1"
