"""What may be set in a group's configuration, and what is sent for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.changes.configs.rules.fields import (
    ATTRIBUTES,
    GROUP,
    ConfigChanges,
    changed,
    default_config,
    differing_names,
    is_taken_over,
    parse_changes,
    request_body,
    setting_words,
)
from rmqctl.errors import UsageError

_OLD = {"retryMaxTimes": 16, "consumeBroadcastEnable": True, "ofTomorrow": {"a": [1]}, ATTRIBUTES: {"x": "1", "y": "2"}}


def test_values_are_read_as_their_fields_have_them() -> None:
    pairs = [
        "consumeEnable=FALSE",
        "retryQueueNums=0",
        "brokerId=4294967296",
        'groupRetryPolicy={"type":"EXPONENTIAL"}',
    ]
    changes = parse_changes(
        [*pairs, "+priority.factor=10", "-old"], {"retryMaxTimes": 3, "consumeMessageOrderly": None}
    )
    assert changes.values == {
        "retryMaxTimes": 3,
        "consumeEnable": False,
        "retryQueueNums": 0,
        "brokerId": 4_294_967_296,
        "groupRetryPolicy": {"type": "EXPONENTIAL"},
    }
    assert changes.attributes == {"priority.factor": "10", "old": None}
    assert changes.names == {*changes.values, ATTRIBUTES}
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}}
    assert parse_changes([f"groupRetryPolicy={json.dumps(policy)}"], {}).values == {"groupRetryPolicy": policy}
    assert parse_changes([word.removeprefix("--set ") for word in changes.words], {}) == changes


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("retryMaxTimes", "not FIELD=VALUE"),
        ("retryMaxTime=3", "Unknown field 'retryMaxTime'"),
        ("retryMaxTimes=many", "a number"),
        ("retryMaxTimes=-1", "0 to 2147483647"),
        ("retryMaxTimes=2147483648", "0 to 2147483647"),
        ("consumeTimeoutMinute=0", "1 to"),
        ("consumeEnable=maybe", "true or false"),
        ("groupRetryPolicy={", "JSON"),
        ('groupRetryPolicy={"type":"NONE"}', "CUSTOMIZED or EXPONENTIAL"),
        ("groupRetryPolicy=[]", "CUSTOMIZED or EXPONENTIAL"),
        ('groupRetryPolicy={"type":"EXPONENTIAL","exponentialRetryPolicy":{"multiplier":2.5}}', "whole numbers"),
        ('groupRetryPolicy={"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,true]}}', "whole numbers"),
        ('groupRetryPolicy={"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[0]}}', "whole numbers"),
        ('groupRetryPolicy={"type":"CUSTOMIZED","customizedRetryPolicy":[1]}', "invalid customizedRetryPolicy"),
        ('groupRetryPolicy={"type":"CUSTOMIZED","customisedRetryPolicy":{}}', "invalid customisedRetryPolicy"),
        (
            'groupRetryPolicy={"type":"EXPONENTIAL","exponentialRetryPolicy":{"min":1}}',
            "invalid exponentialRetryPolicy",
        ),
        ("attributes={}", "one by one"),
        ("+priority.factor", "Invalid attribute"),
        ("-priority.factor=1", "Invalid attribute"),
        ("+=1", "Invalid attribute"),
        ("groupName=other", "Unknown field 'groupName'"),
    ],
)
def test_what_a_field_can_not_have_is_refused(pair: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_changes([pair], {})


def test_a_field_is_set_once() -> None:
    with pytest.raises(UsageError, match="retryMaxTimes is set twice"):
        parse_changes(["retryMaxTimes=4"], {"retryMaxTimes": 3})
    with pytest.raises(UsageError, match="x is set twice"):
        parse_changes(["+x=1", "-x"], {})


def test_only_what_is_named_changes() -> None:
    target = changed(_OLD, ConfigChanges({"retryMaxTimes": 3}, {"x": None, "z": "3"}))
    assert target == {**_OLD, "retryMaxTimes": 3, ATTRIBUTES: {"y": "2", "z": "3"}}
    assert changed(_OLD, ConfigChanges()) == _OLD


def test_attributes_are_sent_as_changes_and_left_out_where_none_changes() -> None:
    target = changed(_OLD, ConfigChanges({}, {"x": None, "y": "5", "z": "3"}))
    assert request_body("G", _OLD, target)[ATTRIBUTES] == {"-x": "", "+y": "5", "+z": "3"}
    whole = request_body("G", _OLD, changed(_OLD, ConfigChanges({"retryMaxTimes": 3})))
    assert whole == {
        "groupName": "G", "retryMaxTimes": 3, "consumeBroadcastEnable": True, "ofTomorrow": {"a": [1]},
    }  # fmt: skip
    assert request_body("G", None, _OLD)[ATTRIBUTES] == {"+x": "1", "+y": "2"}


def test_a_broker_gets_the_fields_that_it_knows() -> None:
    assert default_config({"retryMaxTimes", "consumeEnable", "ofTomorrow"}) == {
        "consumeEnable": True,
        "retryMaxTimes": 16,
    }


def test_a_field_that_is_nowhere_set_is_at_its_default() -> None:
    assert differing_names({"retryMaxTimes": 16}, {}) == ()
    assert differing_names({"retryMaxTimes": 3, "brokerId": 0}, {"retryMaxTimes": 4}) == ("retryMaxTimes",)
    assert differing_names({"retryMaxTimes": 3}, None) == ("retryMaxTimes",)
    assert differing_names({"ofTomorrow": 1}, {}) == ("ofTomorrow",)
    assert differing_names(None, None) == ()


def test_what_a_newer_broker_adds_is_no_difference() -> None:
    assert is_taken_over({"retryMaxTimes": 3}, {"retryMaxTimes": 3, "ofTomorrow": 1})
    assert is_taken_over({"consumeMessageOrderly": False}, {})
    assert not is_taken_over({"consumeMessageOrderly": True}, {})
    assert not is_taken_over({"ofTomorrow": 1}, {"retryMaxTimes": 3})


def test_settings_are_said_as_they_are_set() -> None:
    config = {"consumeEnable": True, "groupRetryPolicy": {"type": "EXPONENTIAL"}, ATTRIBUTES: {"x": "1"}}
    names = ("consumeEnable", "groupRetryPolicy", ATTRIBUTES, "retryMaxTimes")
    assert setting_words(config, names) == [
        "consumeEnable=true",
        'groupRetryPolicy={"type":"EXPONENTIAL"}',
        "retryMaxTimes=16",
        "+x=1",
    ]
    assert setting_words({}, (ATTRIBUTES,)) == ["attributes={}"]


_values = st.fixed_dictionaries(
    {},
    optional={
        "retryMaxTimes": st.integers(0, 99),
        "consumeEnable": st.booleans(),
        "ofTomorrow": st.integers(),
        ATTRIBUTES: st.dictionaries(st.sampled_from("xyz"), st.text(max_size=3), max_size=3),
    },
)


@given(_values, _values)
def test_a_broker_that_takes_the_body_holds_the_target(before: dict[str, Any], target: dict[str, Any]) -> None:
    """What is sent, taken as brokers take it, gives the target; and what is taken over differs in nothing."""
    body = request_body("G", before, target)
    attributes = dict(before.get(ATTRIBUTES) or {})
    for name, value in body.pop(ATTRIBUTES, {}).items():
        if name[0] == "-":
            del attributes[name[1:]]
        else:
            attributes[name[1:]] = value
    del body["groupName"]
    after = {**{name: field.default for name, field in GROUP.fields.items()}, **body, ATTRIBUTES: attributes}
    assert is_taken_over(target, after)
    assert differing_names(target, after) == ()
