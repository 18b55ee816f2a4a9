"""Looking at groups: what could not be seen, what two looks confirm, what plugins' checks do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rmqctl.diagnose.diagnosis import DiagnosisRound, compare_rounds
from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Need, Severity, Symptom, check
from rmqctl.diagnose.table import CHECKS
from rmqctl.errors import NotFoundError, PluginError
from rmqctl.model.names import PROXY_GROUP
from rmqctl.plugin.guards import guarded_check
from rmqctl.protocol.codes import RequestCode, ResponseCode
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, running, subscribed
from tests.cli.group.groups import offline
from tests.diagnose.groups import both, filtered, groups_of, half_down, healthy, look, member, members, pulling, sick
from tests.observe.test_stuck_scan import after, cluster
from tests.observe.test_stuck_scan import member as resting
from tests.scripted_peer import SILENCE, refused


@check("ACME001", Severity.ERROR, "a group called G", meaning="It is.", advice="Rename it.", needs=())
def called_g(facts: GroupFacts) -> Iterator[Symptom]:
    """Find every group."""
    yield Symptom(f"{facts.group} is called so.")


@check("ACME002", Severity.ERROR, "never", meaning="Fails.", advice="Mend it.")
def failing(facts: GroupFacts) -> Iterator[Symptom]:
    """Fail."""
    raise ZeroDivisionError("by 0")


def _codes(found: DiagnosisRound) -> list[str]:
    return [finding.code for diagnosis in found.diagnoses for finding in diagnosis.findings]


def test_the_worst_comes_first() -> None:
    orderly = member("b0", PROP_CONSUMEORDERLY="true")
    found = look(sick(members(c1=member("a0", "a1", consumeTimeout="1"), c2=orderly, c3=SILENCE)))
    severities = [finding.severity for finding in found.diagnoses[0].findings]
    assert severities == sorted(severities, key=list(Severity).index)
    assert len(set(severities)) == 3


def test_what_may_pass_counts_when_both_looks_show_it() -> None:
    moving = look(sick(members(c1=member("a0", "a1"), c2=member("b0"))))
    assert moving.diagnoses[0].may_pass
    other = look(sick(members(c1=member("a0", "a1"), c2=member("a1", "b0", "b1"))))
    settled = look(healthy())
    assert not settled.diagnoses[0].may_pass

    passed = compare_rounds(moving, settled).diagnoses[0]
    assert (passed.findings, passed.passed_codes, passed.looks) == ((), ("ALO002", "ALO003"), 2)
    (both,) = compare_rounds(moving, moving).diagnoses
    assert [finding.code for finding in both.findings] == ["ALO002", "ALO003"]
    assert all(finding.is_confirmed for finding in both.findings)
    # c2 is not where it should be at either look, but queues went on moving between them.
    between = compare_rounds(moving, other).diagnoses[0]
    assert (between.findings, set(between.passed_codes)) == ((), {"ALO002", "ALO003", "ALO004"})


def test_what_cannot_pass_is_as_the_second_look_has_it() -> None:
    first = look(sick(members(c1=member("a0", "a1", consumeTimeout="1"), c2=member("b0", "b1"))))
    assert _codes(compare_rounds(first, look(healthy()))) == []
    assert _codes(compare_rounds(look(healthy()), first)) == ["MEM006"]
    # Only groups that were looked at again are replaced.
    assert _codes(compare_rounds(first, DiagnosisRound((), ()))) == ["MEM006"]


@pytest.mark.parametrize(
    ("need", "found"),
    [
        (Need.MEMBERS, lambda: look(sick(members(c1=member("a0", "a1"), c2=SILENCE)))),
        (Need.MEMBERS, lambda: look(_behind_a_proxy())),
        (Need.BROKERS, lambda: look(half_down())),
        (Need.BACKLOG, lambda: look(_without_index())),
        (Need.BACKLOG, lambda: look(sick(_popping_elsewhere))),
    ],
)
def test_what_could_not_be_seen_is_unknown_by_need(need: Need, found: object) -> None:
    (diagnosis,) = found().diagnoses  # type: ignore[operator]
    assert need in diagnosis.unknown
    # A clock is known by what its member has consumed, too.
    assert set(diagnosis.unknown) - {Need.CLOCKS} == {need}


def test_members_that_pull_by_themselves_are_watched_until_the_offset_moves_or_certainly_does_not() -> None:
    for options, severity, least_s in (
        ({"sample_s": 2}, "WARNING", 30),
        ({"sample_s": 2, "is_final": True}, "ERROR", 55),
        ({"sample_s": 70}, "ERROR", 70),
    ):
        idle = sick(pulling)
        began_s = idle.clock.monotonic_s()
        (found,) = look(idle, **options).diagnoses
        assert [(each.code, each.severity, each.is_confirmed) for each in found.findings] == [
            ("PRG002", severity, True)
        ]
        assert Need.MOTION not in found.unknown
        assert least_s <= idle.clock.monotonic_s() - began_s < least_s + 10

    live = sick(pulling)
    began_s = live.clock.monotonic_s()
    for broker in live.brokers.values():
        live.clock.call_later(5, lambda stored=broker.offsets["G"]["T"]: stored.update({0: 80}))
    (found,) = look(live, sample_s=2).diagnoses
    assert (_codes(DiagnosisRound((found,), ())), set(found.unknown) & {Need.MOTION}) == ([], set())
    assert live.clock.monotonic_s() - began_s < 30


def test_a_queue_that_no_watch_has_judged_yet_is_unknown() -> None:
    idle = sick(pulling)
    for broker in idle.brokers.values():
        broker.topics["T"][0].head_age_ms = None  # so that only a watch of a minute shows it
    (found,) = look(idle, sample_s=2).diagnoses
    assert Need.MOTION in found.unknown
    assert "PRG002" in found.open_codes(CHECKS, Need.MOTION)


def _without_index() -> Cluster:
    servers = sick(filtered([1]))
    for server in servers.servers.values():
        server.table = {**server.table, RequestCode.QUERY_CONSUME_QUEUE: refused(ResponseCode.SYSTEM_ERROR)}
    return servers


def _popping_elsewhere(cluster: Cluster) -> None:
    """Let broker-a keep pops in a store of its own that cannot be read."""
    cluster.brokers["broker-a"].settings["popConsumerKVServiceEnable"] = "true"
    members(c1=running(pops={("T", "broker-a", -1): 3}, subscriptions=[subscribed("T")]))(cluster)


def _behind_a_proxy(*members: str) -> Cluster:
    """Return a group that no broker sees a member of; the proxy at px:1 is connected to it by these."""
    cluster = offline()
    for broker in cluster.brokers.values():
        broker.groups[PROXY_GROUP] = Group({"proxy": running()})
        broker.offsets["G"] = {"T": {0: 75, 1: 100}}
    state = BrokerState("proxy", groups={"G": Group({name: running() for name in members})} if members else {})
    cluster.network.add("px:1", state.table())
    return cluster


def test_a_proxy_that_is_asked_names_the_members_that_no_broker_sees() -> None:
    (asked,) = look(_behind_a_proxy("one"), proxies=["px:1"]).diagnoses
    assert "PXY001" in [finding.code for finding in asked.findings]
    assert "px" not in asked.unknown[Need.MEMBERS]
    assert "behind a proxy" in asked.unknown[Need.MEMBERS]


def test_a_group_is_without_members_only_when_the_proxies_say_so_too() -> None:
    (asked,) = look(_behind_a_proxy(), proxies=["px:1"]).diagnoses
    assert [finding.code for finding in asked.findings] == ["PXY002"]
    assert Need.MEMBERS not in asked.unknown


def test_a_proxy_that_does_not_answer_leaves_members_unknown() -> None:
    for proxies in ([], ["gone:1"], ["px:1", "gone:1"]):
        found = look(_behind_a_proxy(), proxies=proxies)
        assert [finding.code for finding in found.diagnoses[0].findings] == []
        assert Need.MEMBERS in found.diagnoses[0].unknown
        assert [failure.what for failure in found.failures] == ["members at the proxy gone:1"] * ("gone:1" in proxies)


def test_a_broker_that_is_down_causes_no_false_finding() -> None:
    found = look(half_down())
    assert [finding for finding in found.diagnoses[0].findings if finding.severity is not Severity.INFO] == []
    assert {failure.broker_name for failure in found.failures} == {"broker-b"}


def test_a_message_that_rests_between_two_readings_is_stuck() -> None:
    def found(reply: object, sample_s: float = 2) -> set[str]:
        return {code for code in _codes(look(cluster(reply), sample_s=sample_s)) if code.startswith("PRG")}  # type: ignore[arg-type]

    assert found(resting(quiet_ms=120_000)) == {"PRG001"}
    assert found(resting(), sample_s=0) == set()
    assert found(after(resting(5), resting(6))) == set()


def test_a_message_that_nothing_was_finished_before_is_stuck_at_one_reading() -> None:
    one = look(cluster(resting(quiet_ms=120_000)))
    assert [code for code in _codes(one) if code.startswith("PRG")] == ["PRG001"]
    # Also where the second reading fails.
    lost = look(_closed_later(cluster(resting(quiet_ms=120_000))), sample_s=2).diagnoses[0]
    assert "PRG001" in {finding.code for finding in lost.findings}
    assert Need.MOTION in lost.unknown


def test_groups_without_members_are_read_once() -> None:
    def requests(change: object, sample_s: float) -> int:
        servers = sick(change)  # type: ignore[arg-type]
        look(servers, sample_s=sample_s)
        return sum(server.codes().count(RequestCode.GET_CONSUME_STATS) for server in servers.servers.values())

    assert requests(lambda cluster: None, 2) == 2 * requests(lambda cluster: None, 0)
    assert requests(_leave, 2) == requests(_leave, 0)


def _leave(cluster: Cluster) -> None:
    for broker in cluster.brokers.values():
        broker.groups.clear()


def _silent_later() -> Cluster:
    return sick(members(c1=member("a0", "a1"), c2=after(member("b0", "b1"), refused(ResponseCode.SYSTEM_ERROR))))


def _closed_later(servers: Cluster | None = None) -> Cluster:
    servers = servers or healthy()
    for server in servers.servers.values():
        table = {**server.table, RequestCode.GET_CONSUME_STATS: refused(ResponseCode.SYSTEM_ERROR)}
        servers.clock.call_later(1, lambda server=server, table=table: setattr(server, "table", table))
    return servers


@pytest.mark.parametrize("make", [_silent_later, _closed_later])
def test_a_second_reading_that_fails_leaves_motion_unknown(make: Callable[[], Cluster]) -> None:
    found = look(make(), sample_s=2)
    assert list(found.diagnoses[0].unknown) == [Need.MOTION]
    assert found.failures
    # Without a check that needs it, there is no second reading.
    few = [check for check in CHECKS if Need.MOTION not in check.needs]
    assert look(make(), sample_s=2, checks=few).diagnoses[0].unknown == {}


def test_a_group_that_does_not_exist_is_an_error_and_beside_others_a_failure() -> None:
    with pytest.raises(NotFoundError):
        look(healthy(), "gone")
    found = look(healthy(), "G", "gone")
    assert [failure.what for failure in found.failures] == ["group gone"]


def test_findings_about_other_topics_are_left_out() -> None:
    wants = [subscribed("T", "A"), subscribed("U", "A")]
    others = [subscribed("T", "B"), subscribed("U", "B")]
    change = both(members(c1=member(wants=wants), c2=member(wants=others)), groups_of(topics=("T", "U")))

    def about(*topics: str) -> set[str | None]:
        cluster = sick(change)
        cluster.brokers["broker-a"].topics["U"] = [Queue(1)]
        (diagnosis,) = look(cluster, topics=topics).diagnoses
        return {each.symptom.topic for each in diagnosis.findings if each.code == "SUB001"}

    assert (about(), about("T"), about("U*")) == ({"T", "U"}, {"T"}, {"U"})


def test_a_plugins_check_runs_and_one_that_fails_hides_no_other() -> None:
    own = [guarded_check("ACME001", called_g, "acme"), guarded_check("ACME002", failing, "acme")]
    found = look(healthy(), checks=[*CHECKS, *own])
    assert _codes(found) == ["ACME001"]
    ((failure, error),) = [(each.what, each.error) for each in found.failures]
    assert (failure, type(error)) == ("check ACME002 of G", PluginError)
    assert "ZeroDivisionError: by 0" in error.sentence


@pytest.mark.parametrize("made", [lambda facts: [], called_g, "ACME003"])
def test_what_is_no_check_of_its_code_is_refused(made: object) -> None:
    with pytest.raises(PluginError):
        guarded_check("ACME003", made, "acme")
