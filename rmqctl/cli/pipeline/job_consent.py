"""Consent to the jobs that change something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqctl.cli.change.consent import confirm, confirm_by_name
from rmqctl.cli.globals import TABLE_FORMATS
from rmqctl.errors import UsageError

if TYPE_CHECKING:
    from rmqctl.cli.invocation import Invocation
    from rmqctl.pipeline.jobs.definition import Job, JobOptions


def require_consent(
    invocation: Invocation, jobs: Sequence[Job], options: JobOptions, *, confirmed: str | None, is_agreed: bool
) -> None:
    """Return only with consent to the jobs that change something. Raises as confirm() and confirm_by_name() do."""
    changes = [job.change(options) for job in jobs if job.change is not None]
    if not changes and (is_agreed or confirmed is not None):
        flag = "--yes" if is_agreed else "--confirm"
        raise UsageError(f"{flag} is only for jobs that change something.", hint="Among the jobs, dlq-replay does.")
    display = invocation.display
    for change in changes:
        invocation.require_writable()
        # In a protected context, the name is the consent.
        is_protected = invocation.is_protected
        is_quiet = display.format not in TABLE_FORMATS or not display.with_notes
        sentences = () if is_quiet and (confirmed is not None if is_protected else is_agreed) else change.sentences
        confirm(sentences, is_confirmed=is_agreed or is_protected, may_ask=invocation.may_ask)
        if is_protected:
            confirm_by_name(change.name, given=confirmed, may_ask=invocation.may_ask)
