"""Makes a group's dead-letter topic readable: `rmqctl dlq show GROUP --fix-permission`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rmqctl.changes.groups.dead_letter_permission import plan_permission
from rmqctl.cli.change.execution import check_consent, confirm_and_apply
from rmqctl.cli.change.options import Consent, group_name
from rmqctl.model.plan import Subject

if TYPE_CHECKING:
    from rmqctl.cli.invocation import Invocation


def fix_permission(invocation: Invocation, group: str, consent: Consent) -> int:
    """Add the read permission on each broker that lacks it, after consent. Returns the exit code.

    The code is 0 even if nothing has to be done, and 8 if a broker did not answer. Raises NotFoundError for a group
    without a dead-letter topic, UsageError for a pattern, RefusedError in a readonly context, and the errors of
    confirm_and_apply().
    """
    name = group_name(invocation, group)
    check_consent(invocation, Subject(name), consent, is_config_change=True)
    planned = invocation.ask(lambda client: plan_permission(client, name, reason=consent.reason))
    # Each broker has its own copy of the permission: a broker that does not answer need not block the others.
    return confirm_and_apply(invocation, planned, replace(consent, partial=True))
