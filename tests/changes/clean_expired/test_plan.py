"""Which groups a cleaning is refused for before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqctl.changes.clean_expired.plan import CleanRequest, plan_cleaning
from rmqctl.changes.journal.journal import Journal
from rmqctl.errors import RefusedError
from tests.admin.cluster import running
from tests.observe.test_stuck_scan import cluster, member, scan
from tests.scripted_peer import passing, run


@pytest.mark.parametrize(("queue_id", "is_refused"), [(0, True), (1, False)])
def test_a_queue_that_another_member_pops_is_not_cleaned(tmp_path: Path, queue_id: int, is_refused: bool) -> None:
    mixed = cluster(member(quiet_ms=120_000))
    mixed.brokers["broker-a"].groups["G"].members["two"] = running({}, {("T", "broker-a", queue_id): 0})
    mixed.brokers["broker-a"].settings["useServerSideResetOffset"] = "true"
    found = scan(mixed, older_than_ms=5_000)

    async def main() -> None:
        async with mixed.client(open_ended=True) as client:
            with Journal(tmp_path / "journal") as journal:
                await passing(mixed.clock, plan_cleaning(client, found, CleanRequest(5_000), journal))

    if is_refused:
        with pytest.raises(RefusedError, match="only one of them"):
            run(main())
    else:
        run(main())
