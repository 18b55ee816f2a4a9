from __future__ import annotations

import json

import pytest

from rmqctl.protocol.codes import RequestCode, ResponseCode

from .calls import call


def test_a_number_that_is_two_codes_shows_both_the_response_first(capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "explain", "206")
    assert (result.code, result.err) == (0, "")
    first, second = result.out.split("\n\n")
    assert first.startswith("206 CONSUMER_NOT_ONLINE (response code)\n")
    assert second.startswith("206 GET_ALL_TOPIC_LIST_FROM_NAMESERVER (request code)\n")


@pytest.mark.parametrize("name", ["CONSUMER_NOT_ONLINE", "consumer_not_online", " Consumer_Not_Online "])
def test_a_name_is_found_in_any_case(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "explain", name)
    assert result.code == 0
    assert result.out.startswith("206 CONSUMER_NOT_ONLINE (response code)\n")
    assert "request code" not in result.out


@pytest.mark.parametrize(
    ("code", "hint"),
    [("CONSUMER_NOT_ONLIEN", "Did you mean CONSUMER_NOT_ONLINE"), ("424242", None), ("", None), ("0x1", None)],
)
def test_an_unknown_code_is_not_found_with_names_alike(
    code: str, hint: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    result = call(capsys, "explain", code)
    assert (result.code, result.out) == (5, "")
    assert f"Code {code} does not exist." in result.err
    assert hint is None or hint in result.err


def test_a_negative_code_can_be_asked_behind_two_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "explain", "--", "-1000")
    assert result.out.startswith("-1000 RPC_UNKNOWN")


def test_json_has_the_whole_text(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(call(capsys, "explain", "206", "-o", "json").out)
    assert (document["apiVersion"], document["kind"], document["errors"]) == ("rmqctl/v1", "CodeList", [])
    assert [(item["code"], item["role"]) for item in document["items"]] == [(206, "response"), (206, "request")]
    assert all(item["meaning"] for item in document["items"])


def test_names_are_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "explain", "206", "-o", "name")
    assert result.out == "CONSUMER_NOT_ONLINE\nGET_ALL_TOPIC_LIST_FROM_NAMESERVER\n"


def test_every_code_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for code in (*ResponseCode, *RequestCode):
        result = call(capsys, "explain", code.name)
        assert result.code == 0
        assert result.out.startswith(f"{code.value} {code.name} (")
        assert len(result.out.splitlines()) >= 2


def test_it_needs_neither_a_cluster_nor_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "explain", "1", "-n", "nonsense", "--timeout", "nonsense").code == 0
