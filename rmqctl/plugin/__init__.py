"""The API for plugins: everything that they need to import. Only these names are stable; others in rmqctl may move."""

from __future__ import annotations

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Check, Evidence, Need, Severity, Symptom, check
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import AllocationError, Assignment, CustomStrategy, sort_client_ids, sort_queues

from .hookspecs import BodyCodec, SiteResolver, hookimpl

__all__ = [
    "AllocationError",
    "Assignment",
    "BodyCodec",
    "Check",
    "CustomStrategy",
    "Evidence",
    "GroupFacts",
    "MessageQueue",
    "Need",
    "Severity",
    "SiteResolver",
    "Symptom",
    "check",
    "hookimpl",
    "sort_client_ids",
    "sort_queues",
]
