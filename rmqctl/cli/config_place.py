"""Where the configuration file is. On its own, for completion, which reads it without the rest."""

from __future__ import annotations

import os
from pathlib import Path


def config_path() -> Path:
    """Return where the configuration file is, or would be (RMQCTL_CONFIG, else the user's folder)."""
    given = os.environ.get("RMQCTL_CONFIG")
    if given:
        return Path(given)
    from platformdirs import user_config_path

    return user_config_path("rmqctl") / "config.toml"
