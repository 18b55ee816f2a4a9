"""`cluster list`'s wide columns: what mqadmin's clusterList shows as well."""

from __future__ import annotations

import json

import pytest

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.status import fetch_broker_statuses
from rmqctl.cli.cluster import list as cluster_list
from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Listing
from rmqctl.cli.output.render import render
from tests.admin.cluster import BrokerState, Cluster
from tests.scripted_peer import passing, run

Captured = pytest.CaptureFixture[str]


def _listing(**runtime: str) -> Listing:
    cluster = Cluster(BrokerState("broker-a", runtime=runtime))

    async def fetch() -> Listing:
        async with cluster.client() as client:
            statuses, failures = await fetch_broker_statuses(client, await fetch_cluster(client))
            return cluster_list.to_listing(statuses, failures)

    return run(passing(cluster.clock, fetch()))


def test_queues_of_requests_and_the_timer_wheel_are_shown(capsys: Captured) -> None:
    listing = _listing(
        sendThreadPoolQueueSize="7", sendThreadPoolQueueHeadWaitTimeMills="120", pullThreadPoolQueueSize="0",
        timerCongestNum="30", timerReadBehind="4", timerOffsetBehind="2", msgPutTotalYesterdayMorning="40",
        pageCacheLockTimeMills="9", dispatchBehindBytes="1000",
    )  # fmt: skip
    render(listing, Display(format="wide"))
    headings, row = capsys.readouterr().out.splitlines()
    at = {name: headings.index(name) for name in ("SENDS-WAIT", "PULLS-WAIT", "TIMER", "ACTIVE")}
    assert row[at["SENDS-WAIT"] :].startswith("7 120ms ")
    assert row[at["PULLS-WAIT"] :].startswith("0 -ms ")
    assert row[at["TIMER"] :].startswith("30 4s ")
    assert row[at["ACTIVE"] :].startswith("yes ")
    render(listing, Display(format="json"))
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (item["putYesterdayCount"], item["putTodayCount"]) == (60, 40)
    assert (item["pageCacheLockTimeMills"], item["dispatchBehindBytes"], item["timerOffsetBehind"]) == (9, 1000, 2)
    assert item["reasons"]["getYesterdayCount"] == "NOT_REPORTED"


def test_an_older_brokers_wide_row_has_dashes(capsys: Captured) -> None:
    render(_listing(), Display(format="wide", with_headers=False))
    assert capsys.readouterr().out.split().count("-") == 7


def test_a_timer_wheel_that_does_not_tell_how_late_it_is(capsys: Captured) -> None:
    render(_listing(timerCongestNum="30"), Display(format="plain", columns=("timerCongestNum",), with_headers=False))
    assert capsys.readouterr().out == "30 -\n"
