"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long one example takes says something of the machine's other work only.
settings.register_profile("rmqctl", deadline=None)
settings.load_profile("rmqctl")
