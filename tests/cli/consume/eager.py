"""rmqctl whose consumers pull at once, where those of RocketMQ 5 first wait for half a second."""

from __future__ import annotations

import rmqctl.consumer.settings
from rmqctl.__main__ import main

# Commands import it from there when they run.
SETTINGS = "rmqctl.consumer.settings.ConsumerSettings"


class EagerSettings(rmqctl.consumer.settings.ConsumerSettings, frozen=True, kw_only=True):
    """Settings without that wait."""

    first_pull_delay_s: float = 0.0


if __name__ == "__main__":
    rmqctl.consumer.settings.ConsumerSettings = EagerSettings  # type: ignore[misc]
    main()
