from __future__ import annotations

import json

import pytest

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.headers import check_expression, int_field, pull_without_trace, query_message
from tests.protocol.golden import answer, answers


def test_recorded_numbers() -> None:
    assert [int_field(answer(exchange), "offset") for exchange in answers(14)] == [0, 0, 0, 102, 100, 100]
    assert [int_field(answer(exchange), "nextBeginOffset") for exchange in answers(11)] == [1, 2, 32, 4, 2, 1]


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, -(2**63)])
def test_a_long(number: int) -> None:
    assert int_field(Command(0, {"offset": str(number)}), "offset") == number


@pytest.mark.parametrize("text", ["", "x", "1.0", "0x1", "1e3", str(2**63), str(-(2**63) - 1), "9" * 5000, "null"])
def test_what_is_no_long(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="no number in the field offset"):
        int_field(Command(0, {"offset": text}), "offset")


def test_a_missing_field() -> None:
    with pytest.raises(RemoteProtocolError, match="no number in the field maxOffset"):
        int_field(Command(0, {"offset": "1"}), "maxOffset")


def test_an_expression_is_checked_with_what_a_consumer_would_send() -> None:
    request = check_expression("T", "a > 1")
    assert request.code == RequestCode.CHECK_CLIENT_CONFIG
    body = json.loads(request.body)
    assert body["group"] == "TOOLS_CONSUMER"
    subscription = body["subscriptionData"]
    assert (subscription["topic"], subscription["expressionType"], subscription["subString"]) == ("T", "SQL92", "a > 1")


def test_a_pull_to_look_at_messages_commits_nothing_and_waits_for_nothing() -> None:
    fields = pull_without_trace("T", 3, 7, max_count=1, expression="A", expression_type="TAG").ext_fields
    assert fields["sysFlag"] == "4"
    assert fields["suspendTimeoutMillis"] == "0"
    assert (fields["subscription"], fields["expressionType"], fields["maxMsgNums"]) == ("A", "TAG", "1")


def test_an_index_query_is_signed_by_all_versions_alike() -> None:
    # Servers up to 4.9.3 leave _UNIQUE_KEY_QUERY out of what they sign.
    fields = query_message("T", "k", max_count=5, begin_ms=1, end_ms=2).ext_fields
    assert fields == {"topic": "T", "key": "k", "maxNum": "5", "beginTimestamp": "1", "endTimestamp": "2"}
