from __future__ import annotations

import pytest

from rmqctl.client.auth import Credentials
from rmqctl.client.refusal import refusal
from rmqctl.errors import BrokerError, NotAuthorisedError
from rmqctl.protocol.codes import ResponseCode
from tests.scripted_peer import refused

_OPERATOR = Credentials("operator", "very-secret", "some-token")
_JAVA = "org.apache.rocketmq.acl.common.AclException: "
_AT = ", org.apache.rocketmq.acl.plain.PlainPermissionManager.validate(PlainPermissionManager.java:663)"
_DENIED = ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("code", "remark", "said", "hint"),
    [
        # 4.9.7: everything is SYSTEM_ERROR.
        (
            1,
            f"{_JAVA}No acl config for operator{_AT}",
            "No acl config for operator",
            "the cluster does not know operator",
        ),
        (
            1,
            f"{_JAVA}Check signature failed for accessKey=operator{_AT}",
            "Check signature failed for accessKey=operator",
            "Check the secret key",
        ),
        (
            1,
            f"{_JAVA}No default permission for topic:Other{_AT}",
            "No default permission for topic:Other",
            "missing permission",
        ),
        (
            1,
            f"{_JAVA}Need admin permission for request code=25, but accessKey=operator is not{_AT}",
            "Need admin permission for request code=25, but accessKey=operator is not",
            "missing permission",
        ),
        # 5.4.0
        (_DENIED, "User:operator is not found.", "User:operator is not found", "the cluster does not know operator"),
        (_DENIED, "check signature failed.", "check signature failed", "Check the secret key"),
        (_DENIED, "User:operator is disabled.", "User:operator is disabled", "is disabled"),
        (
            _DENIED,
            "User:operator has no permission to access Topic:Other from 127.0.0.1, no matched policies.",
            "User:operator has no permission to access Topic:Other from 127.0.0.1, no matched policies",
            "missing permission",
        ),
        # Names that hold the words of other refusals.
        (
            _DENIED,
            "User:operator has no permission to access Topic:notes-signature from 127.0.0.1, no matched policies.",
            "User:operator has no permission to access Topic:notes-signature from 127.0.0.1, no matched policies",
            "missing permission",
        ),
        (
            1,
            f"{_JAVA}No default permission for group:signature-expired-user-not{_AT}",
            "No default permission for group:signature-expired-user-not",
            "missing permission",
        ),
        (_DENIED, "The token is expired", "The token is expired", "have expired"),
        (_DENIED, None, "no permission", "missing permission"),
    ],
)
def test_a_refusal_says_what_the_cluster_said_and_what_it_means(
    code: int, remark: str | None, said: str, hint: str
) -> None:
    error = refusal("a:1", refused(code, remark), _OPERATOR)
    assert isinstance(error, NotAuthorisedError)
    assert error.sentence == f"a:1 refused the request: {said}."
    assert error.hint is not None
    assert hint in error.hint
    assert error.exit_code == 4


@pytest.mark.parametrize(
    ("code", "remark"), [(1, f"{_JAVA}No accessKey is configured{_AT}"), (_DENIED, "username cannot be null.")]
)
def test_a_request_that_was_not_signed_is_told_how_to_be(code: int, remark: str) -> None:
    error = refusal("a:1", refused(code, remark))
    assert isinstance(error, NotAuthorisedError)
    assert error.hint is not None
    assert error.hint.startswith("The request was not signed: give --credentials FILE")


@pytest.mark.parametrize("credentials", [None, _OPERATOR])
@pytest.mark.parametrize("remark", ["the topic[T] pulling message is forbidden", "subscription group no permission, G"])
def test_what_is_closed_for_everybody_asks_for_no_credentials(remark: str, credentials: Credentials | None) -> None:
    error = refusal("a:1", refused(_DENIED, remark), credentials)
    assert error.exit_code == 4
    assert error.hint is not None
    assert error.hint.startswith("Check the permissions")


@pytest.mark.parametrize("code", [1, _DENIED, ResponseCode.TOPIC_NOT_EXIST])
def test_a_remark_that_repeats_our_secrets_is_not_passed_on(code: int) -> None:
    error = refusal("a:1", refused(code, "AclException very-secret\nand some-token, very-secret"), _OPERATOR)
    for text in (error.sentence, str(error), error.hint or "", str(getattr(error, "remark", ""))):
        assert "very-secret" not in text
        assert "some-token" not in text
    assert "***" in error.sentence


def test_any_other_code_is_an_error_of_the_broker() -> None:
    error = refusal("a:1", refused(ResponseCode.TOPIC_NOT_EXIST, "no T"), _OPERATOR)
    assert isinstance(error, BrokerError)
    assert (error.code, error.name, error.hint) == (17, "TOPIC_NOT_EXIST", "rmqctl explain 17")
