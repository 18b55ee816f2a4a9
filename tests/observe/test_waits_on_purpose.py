"""A wait on purpose is longer than the deadline of the command: all that is asked after it is still answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rmqctl.client.core import Client
from rmqctl.diagnose.diagnosis import diagnose_groups
from rmqctl.diagnose.table import CHECKS
from rmqctl.observe.stuck_scan import scan_group
from rmqctl.whatif.live_snapshot import fetch_snapshot
from tests.cli.group.groups import ask, healthy

_WAIT_S = 30.0  # the deadline is 10 s


@pytest.mark.parametrize(
    ("what", "question"),
    [
        ("two readings", lambda client: diagnose_groups(client, ["G"], (), CHECKS, sample_s=_WAIT_S)),
        ("watching a group", lambda client: scan_group(client, "G", window_s=_WAIT_S)),
        ("counting messages", lambda client: fetch_snapshot(client, "G", (), sample_s=_WAIT_S)),
    ],
)
def test_it_is_not_counted(what: str, question: Callable[[Client], Awaitable[Any]]) -> None:
    assert not ask(healthy(), question).failures, what
