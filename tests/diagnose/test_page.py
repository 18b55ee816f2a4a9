"""The page of a diagnosis: what it must say, and what it must never say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.cli.diagnose.page import render_page
from rmqctl.diagnose.diagnosis import Diagnosis, DiagnosisRound, compare_rounds
from rmqctl.diagnose.finding import Finding, Severity
from rmqctl.diagnose.table import CHECKS
from rmqctl.errors import UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate.averagely import allocate_averagely
from tests.admin.cluster import HOUR_MS, ON_TIME, BrokerState, Cluster, Group, Queue, held, running, subscribed
from tests.cli.group.groups import WORDS, offline, torn
from tests.page.reader import PageReader
from tests.scripted_peer import SILENCE

from .groups import at_a, both, groups_of, half_down, healthy, look, member, members, second_group, sick

EVIL = '</title><script>alert("1")</script>&\'{{ 7 }}\x1b\u202e'


def _moving() -> DiagnosisRound:
    """Return a group with an unowned queue, a queue with two owners, and a clock that is off."""
    c2 = member("b0", skew_ms=HOUR_MS)
    return look(sick(members(c1=member("a0", "a1", consumeTimeout="1"), c2=c2, c3=member("a1"))))


def _silent() -> DiagnosisRound:
    return look(sick(members(c1=member("a0", "a1"), c2=SILENCE)))


def _broadcasting() -> DiagnosisRound:
    each = member("a0", "a1", "b0", "b1", messageModel="BROADCASTING")
    return look(sick(both(members(c1=each), groups_of(message_model="BROADCASTING"))))


def _popping() -> DiagnosisRound:
    pops = running({}, {("T", "broker-a", 0): 3}, subscriptions=[subscribed("T")], **WORDS)
    return look(sick(both(members(c1=pops), groups_of(consume_type="CONSUME_POP"))))


def _both_ways() -> DiagnosisRound:
    return look(sick(members(c1=member(pops="ab", clientRebalance="false"), c2=member("b0", "b1"))))


def _both_models() -> DiagnosisRound:
    each = member("a0", "a1", "b0", "b1", messageModel="BROADCASTING")
    return look(sick(members(c1=member("a0", "a1"), c2=each)))


def _dead(broker: Any) -> None:
    broker.topics["%DLQ%G"] = [Queue(1234)]
    broker.topics["%RETRY%G"] = [Queue(77)]
    broker.offsets["G"]["%RETRY%G"] = {0: 7}


def _passed() -> DiagnosisRound:
    return compare_rounds(_moving(), look(healthy()))


LOOKS: dict[str, Callable[[], DiagnosisRound]] = {
    "healthy": lambda: look(healthy()),
    "moving": _moving,
    "silent": _silent,
    "torn": lambda: look(torn()),
    "half down": lambda: look(half_down()),
    "offline": lambda: look(offline()),
    "broadcasting": _broadcasting,
    "popping": _popping,
    "popping and pulling": _both_ways,
    "broadcasting and sharing": _both_models,
    "passed": _passed,
    "nothing": lambda: DiagnosisRound((), ()),
}


def _read(found: DiagnosisRound, **options: Any) -> PageReader:
    return PageReader(render_page(found, CHECKS, **options))


def _text(found: DiagnosisRound, **options: Any) -> str:
    return " ".join("".join(_read(found, **options).words).split())


def _called(found: DiagnosisRound, name: str) -> Diagnosis:
    (one,) = found.diagnoses
    findings = tuple(replace(each, group=name) for each in one.findings)
    return replace(one, facts=replace(one.facts, group=name), findings=findings)


@pytest.mark.parametrize("make", LOOKS.values(), ids=LOOKS)
def test_a_page_is_whole_and_needs_nothing_else(make: Callable[[], DiagnosisRound]) -> None:
    text = render_page(make(), CHECKS)
    read = PageReader(text)
    assert read.open == []
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & {tag for tag, _ in read.tags}
    for tag, attributes in read.tags:
        assert not {"src", "srcset", "style"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#"), tag
    assert re.search(r"url\(|@import|https?:", text) is None
    policy = next(each["content"] for each in read.all("meta") if each.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "@media print" in text
    assert "None" not in "".join(read.words)


@pytest.mark.parametrize("make", LOOKS.values(), ids=LOOKS)
def test_who_cannot_see_it_is_told(make: Callable[[], DiagnosisRound]) -> None:
    read = _read(make())
    assert read.all("html") == [{"lang": "en"}]
    assert len(read.all("h1")) == 1
    assert len(read.all("table")) == len(read.all("caption"))
    assert all(each.get("scope") in {"col", "row", "colgroup"} for each in read.all("th"))
    # Bars only repeat the number beside them.
    assert all(each.get("aria-hidden") == "true" for each in read.all("svg"))
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {each["href"] for each in read.all("a")} <= {f"#{each}" for each in ids}
    levels = [int(tag[1]) for tag, _ in read.tags if re.fullmatch("h[1-6]", tag)]
    assert all(below <= above + 1 for above, below in pairwise(levels))


def test_findings_have_all_that_is_known_of_them() -> None:
    text = _text(_moving())
    for finding in _moving().diagnoses[0].findings:
        (check,) = (check for check in CHECKS if check.code == finding.code)
        said = [finding.code, finding.sentence, check.title, check.meaning, check.advice]
        said += [finding.symptom.next_command or "", finding.symptom.topic or ""]
        said += [fact.name for fact in finding.symptom.evidence] + [f.reported_by for f in finding.symptom.evidence]
        assert [each for each in said if " ".join(each.split()) not in text] == []
        assert str(finding.severity) in text
    assert text.index("ALO002") < text.index("MEM006") < text.index("Unknown values")
    assert "seen only once" in text


def test_the_head_says_what_was_diagnosed() -> None:
    text = _text(_moving(), scope=["Cluster: prod."])
    head = text[: text.index("Findings")]
    assert all(each in head for each in ("G", "prod", f"{len(CHECKS)} checks", "2027-01-15 08:00:00 UTC", "3ERROR"))


def test_findings_below_the_severity_are_counted() -> None:
    text = _text(_moving(), least=Severity.ERROR)
    assert "MEM006" not in text.split("Unknown values")[0]
    assert "2 not shown (--severity)" in text
    mild = look(sick(members(c1=member("a0", "a1", consumeTimeout="1"), c2=member("b0", "b1"))))
    read = _read(mild, least=Severity.ERROR)
    assert not _is_green(read)


def _is_green(read: PageReader) -> bool:
    return any("good" in (each.get("class") or "") for each in read.all("span"))


@pytest.mark.parametrize(("name", "is_green"), [(name, name == "healthy") for name in LOOKS if name != "offline"])
def test_only_a_group_of_which_everything_is_known_looks_healthy(name: str, is_green: bool) -> None:
    assert _is_green(_read(LOOKS[name]())) is is_green
    few = DiagnosisRound((_called(LOOKS["healthy"](), "H"), *LOOKS[name]().diagnoses), LOOKS[name]().failures)
    if name not in ("healthy", "nothing") and few.failures:
        assert not _is_green(_read(few))


def test_a_failure_alone_takes_the_green_away() -> None:
    failed = Failure("broker-x", "configuration", UnreachableError("broker-x", "it is down"))
    for text, read in [(_text(look(healthy()), failures=[failed]), _read(look(healthy()), failures=[failed]))]:
        assert not _is_green(read)
        assert "broker-x" in text
        assert "it is down" in text


@pytest.mark.parametrize("make", [_silent, lambda: look(half_down()), lambda: look(torn())])
def test_what_is_unknown_is_named_with_its_checks_and_what_failed(make: Callable[[], DiagnosisRound]) -> None:
    found = make()
    text = _text(found)
    (one,) = found.diagnoses
    for need, reason in one.unknown.items():
        assert reason in text
        assert ", ".join(one.open_codes(CHECKS, need)) in text
    assert all(failure.what in text and failure.error.sentence in text for failure in found.failures)


def test_codes_of_one_reading_only_are_named() -> None:
    text = _text(_passed())
    assert "ALO003" in text
    assert "only one of two readings" in text


# Queues


def _matrix(read: PageReader) -> Counter[str]:
    return Counter(each.get("class") or "" for each in read.all("td"))


def test_queues_of_members_that_pop_or_broadcast_are_not_without_a_holder() -> None:
    for make, sentence, wrong_count in (
        (_both_ways, "Held by one member, and popped by another: T@broker-b:0, T@broker-b:1.", 2),
        (_both_models, "Not shown: members that broadcast (c2).", 0),
    ):
        text = _text(make())
        assert sentence in text
        assert "Held by no member" not in text
        marks = _matrix(_read(make()))
        assert (marks["HELD"], marks["WRONG"]) == (2, wrong_count)


def test_who_holds_what_is_drawn() -> None:
    assert _matrix(_read(look(healthy())))["HELD"] == 4
    moving = _read(_moving())
    marks = _matrix(moving)
    assert (marks["HELD"], marks["OTHER"], marks["DUE"], marks["WRONG"]) == (3, 1, 1, 2)
    text = _text(_moving())
    assert "by no member: T@broker-b:1" in text
    assert "by several members: T@broker-a:1" in text


def test_a_member_that_did_not_answer_is_not_said_to_hold_nothing() -> None:
    text, marks = _text(_silent()), _matrix(_read(_silent()))
    assert "c2? did not answer" in text
    assert "Holder unknown: T@broker-b:0, T@broker-b:1" in text
    assert "by no member:" not in text
    # The member, and the two queues that it may hold.
    assert (marks["UNKNOWN"], marks["WRONG"]) == (3, 0)


@pytest.mark.parametrize(
    ("name", "word"),
    [("broadcasting", "broadcast"), ("popping", "pop"), ("offline", "No broker sees a member")],
)
def test_groups_that_do_not_share_queues_have_a_sentence(name: str, word: str) -> None:
    found = LOOKS[name]()
    assert word in _text(found)
    assert not any(each.get("class") == "matrix" for each in _read(found).all("table"))


def test_lag_is_drawn_and_what_is_unknown_is_not_0() -> None:
    read = _read(look(half_down()))
    bars = Counter(each["class"] for each in read.all("rect"))
    rows = look(half_down()).diagnoses[0].facts.rows
    assert bars == {"bar": sum(bool(row.lag) for row in rows), "blank": sum(row.lag is None for row in rows)}
    assert "broker unreachable" in _text(look(half_down()))
    assert "At least 25 unread" in _text(look(half_down()))
    assert "Dead letters: unknown" in _text(look(half_down()))


def test_retries_and_dead_letters_count() -> None:
    text = _text(look(sick(at_a(_dead))))
    assert "Dead letters: 1,234" in text
    assert "70 unread" in text


def test_clocks_are_there_where_they_were_measured() -> None:
    assert "+0.000 s ± 1 ms" in _text(look(healthy()))
    assert "did not report" in _text(look(torn())) or "unknown:" in _text(look(torn()))


# Names


def test_names_are_never_html() -> None:
    def page(name: str) -> str:
        change = both(members(**{name: member("a0", "a1", consumeTimeout="1"), "c3": SILENCE}))
        found = look(sick(change))
        one = _called(found, name)
        evil = tuple(_renamed(each, name) for each in one.findings)
        failure = Failure(name, name, UnreachableError(name, name))
        rows = tuple(replace(row, mq=MessageQueue(name, name, 1)) for row in one.facts.rows[:1])
        one = replace(one, findings=evil, facts=replace(one.facts, rows=(*one.facts.rows, *rows)))
        more = {"scope": [name], "failures": [failure], "warnings": [name]}
        return render_page(DiagnosisRound((one, _called(look(healthy()), "H")), ()), CHECKS, **more)

    plain, text = PageReader(page("a plain one")), page(EVIL)
    read = PageReader(text)
    assert Counter(tag for tag, _ in read.tags) == Counter(tag for tag, _ in plain.tags)
    assert [list(attributes) for _, attributes in read.tags] == [list(attributes) for _, attributes in plain.tags]
    assert "<script" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "{{ 7 }}" in text


def _renamed(finding: Finding, name: str) -> Finding:
    evidence = tuple(replace(fact, name=name, value=name, reported_by=name) for fact in finding.symptom.evidence)
    symptom = replace(finding.symptom, sentence=name, next_command=name, topic=name, evidence=evidence)
    return replace(finding, symptom=symptom)


# Size


def crowd(member_count: int, queue_count: int, broker_count: int) -> Cluster:
    """Return a group of members that share the queues of T by RocketMQ's own strategy."""
    states = [BrokerState(f"broker-{number}", tells_time=True) for number in range(broker_count)]
    queues = [MessageQueue("T", state.name, each) for state in states for each in range(queue_count // broker_count)]
    shares = allocate_averagely(queues, [f"10.1.2.{number:03}@{number}#7" for number in range(member_count)])
    told = [subscribed("T"), subscribed("%RETRY%G")]
    own = {
        client_id: running({tuple(mq): held(commit=75, **ON_TIME) for mq in share}, subscriptions=told, **WORDS)
        for client_id, share in shares.items()
    }
    for state in states:
        state.topics |= {"T": [Queue(100)] * (queue_count // broker_count), "%RETRY%G": [Queue()]}
        state.configured.add("G")
        state.groups["G"] = Group(own, ("T", "%RETRY%G"))
        state.offsets["G"] = {"T": dict.fromkeys(range(queue_count // broker_count), 75)}
    return Cluster(*states)


def test_a_large_group_fits() -> None:
    found = look(crowd(200, 1000, 8))
    text = render_page(found, CHECKS)
    assert len(text) < 2_000_000
    assert len(re.findall("10.1.2.199@199#7", text)) >= 1
    assert "1000 queues, held by 200 members" in text
    assert "Too many queues for one column each" in text
    assert "5 (0-4)" in text
    assert _matrix(PageReader(text))["WRONG"] == 0
    # A cell for each member and broker.
    assert sum(_matrix(PageReader(text)).values()) < 6_000


def _names(read: PageReader) -> Sequence[str]:
    return [each["href"] or "" for each in read.all("a")]


def _concerning(finding: Finding, group: str) -> Finding:
    return replace(finding, group=group, symptom=replace(finding.symptom, next_command=f"rmqctl group members {group}"))


def test_a_fact_about_a_broker_is_shown_once_for_all_groups() -> None:
    found = look(sick(both(second_group, at_a(lambda broker: setattr(broker, "skew_ms", -90_000)))), "*")
    assert [each.code for one in found.diagnoses for each in one.findings].count("CLK001") == 2
    read = PageReader(render_page(found, CHECKS))
    words = " ".join("".join(read.words).split())
    assert words.count("90.000 s (± 2 ms) ahead of that of") == 1
    assert "2 groups: G, H" in words
    assert words.count("Shared with other groups, see above: CLK001.") == 2
    assert "No findings" not in words
    assert not _is_green(read)


def test_of_many_groups_the_worst_have_a_section() -> None:
    large = _called(look(crowd(200, 1000, 8)), "large")
    findings = _moving().diagnoses[0].findings
    sick_ones = [
        replace(
            large,
            facts=replace(large.facts, group=f"sick-{number}"),
            findings=tuple(_concerning(each, f"sick-{number}") for each in findings),
        )
        for number in range(70)
    ]
    silent = replace(_called(_silent(), "silent"), findings=())
    well = look(healthy())
    found = DiagnosisRound((*(_called(well, f"well-{number}") for number in range(200)), silent, *sick_ones), ())
    text = render_page(found, CHECKS)
    read = PageReader(text)
    assert len(text) < 3_000_000
    assert len(_names(read)) == len([each for each in read.all("section") if each.get("class") == "group"]) == 50
    words = " ".join("".join(read.words).split())
    assert "271 groups" in words
    assert "20 groups with findings but without a section" in words
    assert "201 groups without findings, 1 of them with unknown values" in words
    assert "c2 did not answer" in words
    assert all(f"sick-{number}" in words for number in range(70))
    assert not _is_green(read)
