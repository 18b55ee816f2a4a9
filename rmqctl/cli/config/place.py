"""Where the configuration file is: a separate module, because completion imports nothing else."""

from __future__ import annotations

import os
from pathlib import Path


def config_path() -> Path:
    """Return the path of the configuration file, which may not exist (RMQCTL_CONFIG, else the user's folder)."""
    given = os.environ.get("RMQCTL_CONFIG")
    if given:
        return Path(given)
    from platformdirs import user_config_path

    return user_config_path("rmqctl") / "config.toml"
