"""Which cluster a command means without asking it."""

from __future__ import annotations

from rmqctl.cli.invocation import Invocation
from rmqctl.errors import UsageError


def known_name_servers(invocation: Invocation) -> str | None:
    """Return the name servers that label a cluster without --cluster-label, None when they are not given."""
    try:
        return invocation.name_servers()
    except UsageError:
        return None
