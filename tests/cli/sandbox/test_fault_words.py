"""The words of `rmqctl sandbox fault`."""

from __future__ import annotations

import pytest

from rmqctl.cli.sandbox.fault_words import ACTIONS, FaultOptions, parse_fault
from rmqctl.errors import UsageError
from rmqctl.sandbox.control.messages import Ask, ChangeBroker, ClearFaults, CutClient, HealClient, ListFaults, PlanFault

_NONE = FaultOptions()
_AT_A = FaultOptions(broker="broker-a")


@pytest.mark.parametrize(
    ("words", "options", "asked"),
    [
        ("answer 11 with 2", _NONE, PlanFault("answer", 11, with_code=2)),
        ("answer PULL_MESSAGE with SYSTEM_BUSY", _NONE, PlanFault("answer", 11, with_code=2)),
        ("ANSWER pull_message WITH system_busy", _NONE, PlanFault("answer", 11, with_code=2)),
        ("answer any 2", FaultOptions(remark="r"), PlanFault("answer", with_code=2, remark="r")),
        ("answer 9999 with 8888", _NONE, PlanFault("answer", 9999, with_code=8888)),
        ("drop", _NONE, PlanFault("drop")),
        ("drop any", FaultOptions(count=3), PlanFault("drop", count=3)),
        ("silence 34", FaultOptions(forever=True), PlanFault("silence", 34, count=None)),
        ("corrupt HEART_BEAT", _AT_A, PlanFault("corrupt", 34, server="broker-a")),
        ("corrupt", FaultOptions(broker="namesrv"), PlanFault("corrupt", server="namesrv")),
        ("delay 1m30s", _NONE, PlanFault("delay", delay_ms=90_000)),
        ("delay 500ms 310", _NONE, PlanFault("delay", 310, delay_ms=500)),
        ("refuse-writes", _AT_A, ChangeBroker("refuse-writes", "broker-a")),
        ("allow-writes", _NONE, ChangeBroker("allow-writes")),
        ("skew 90s", _NONE, ChangeBroker("skew", skew_ms=90_000)),
        ("skew +90s ahead", _AT_A, ChangeBroker("skew", "broker-a", skew_ms=90_000)),
        ("skew 2h behind", _NONE, ChangeBroker("skew", skew_ms=-7_200_000)),
        ("skew 0", _NONE, ChangeBroker("skew", skew_ms=0)),
        ("partition 10.0.0.7@1#2", _AT_A, CutClient("10.0.0.7@1#2", "broker-a")),
        ("heal", _NONE, HealClient()),
        ("heal 10.0.0.7@1#2", _NONE, HealClient("10.0.0.7@1#2")),
        ("restart", FaultOptions(lose_unflushed=True), ChangeBroker("restart", lose_unflushed=True)),
        ("stop", _AT_A, ChangeBroker("stop", "broker-a")),
        ("start", _NONE, ChangeBroker("start")),
        ("list", _NONE, ListFaults()),
        ("", _NONE, ListFaults()),
        ("clear", _NONE, ClearFaults()),
    ],
)
def test_what_is_asked(words: str, options: FaultOptions, asked: Ask) -> None:
    assert parse_fault(words.split(), options) == asked


@pytest.mark.parametrize(
    ("words", "options", "sentence", "hint"),
    [
        ("anwser 11 with 2", _NONE, "Unknown fault 'anwser'.", "Did you mean answer?"),
        ("\x1b[31m", _NONE, "Unknown fault ", "Use one of: answer,"),
        ("answer", _NONE, "Invalid words after answer.", "answer REQUEST with CODE"),
        ("answer 11 as 2", _NONE, "Invalid words after answer.", "answer REQUEST with CODE"),
        ("answer 11 with 2 3", _NONE, "Invalid words after answer.", "answer REQUEST with CODE"),
        ("answer PULL_MESAGE with 2", _NONE, "Unknown request code 'PULL_MESAGE'.", "Did you mean PULL_MESSAGE"),
        ("answer 11 with SYSTEM_BUSI", _NONE, "Unknown response code 'SYSTEM_BUSI'.", "Did you mean SYSTEM_BUSY"),
        ("answer 11 with -1", _NONE, "Unknown response code '-1'.", "rmqctl explain"),
        ("drop 99999999999", _NONE, "Unknown request code ", "rmqctl explain"),
        ("drop 11 12", _NONE, "Invalid words after drop.", "drop [REQUEST]"),
        ("drop", FaultOptions(count=0), "--count must be 1 or more.", ""),
        ("drop", FaultOptions(count=2, forever=True), "cannot be used together.", ""),
        ("drop", FaultOptions(remark="r"), "drop does not accept --remark.", "drop [REQUEST]"),
        ("heal", FaultOptions(broker="b"), "heal does not accept --broker.", "heal [CLIENT_ID]"),
        ("stop", FaultOptions(lose_unflushed=True), "stop does not accept --lose-unflushed.", "stop"),
        ("delay", _NONE, "Invalid words after delay.", "delay TIME"),
        ("delay soon", _NONE, "invalid duration 'soon'", ""),
        ("skew", _NONE, "Invalid words after skew.", "ahead|behind"),
        ("skew 2h later", _NONE, "Invalid words after skew.", "ahead|behind"),
        ("skew tomorrow", _NONE, "invalid duration 'tomorrow'", ""),
        ("partition", _NONE, "Invalid words after partition.", "CLIENT_ID"),
        ("heal a b", _NONE, "Invalid words after heal.", "CLIENT_ID"),
        ("restart broker-a", _NONE, "Invalid words after restart.", "--broker"),
        ("clear all", _NONE, "Invalid words after clear.", "clear"),
    ],
)
def test_mistakes_are_told_with_the_way_to_write_it(
    words: str, options: FaultOptions, sentence: str, hint: str
) -> None:
    with pytest.raises(UsageError) as raised:
        parse_fault(words.split(), options)
    assert sentence in raised.value.sentence
    assert hint in (raised.value.hint or "")


def test_the_help_names_every_action() -> None:
    from rmqctl.cli.sandbox.fault import HELP

    for name, action in ACTIONS.items():
        assert name in HELP
        assert action.usage.startswith(name)


def test_a_client_without_a_name_is_none() -> None:
    with pytest.raises(UsageError, match="Invalid words after partition"):
        parse_fault(["partition", ""], _NONE)
