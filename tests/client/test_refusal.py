from __future__ import annotations

import pytest

from rmqctl.client.auth import Credentials
from rmqctl.client.refusal import refusal
from rmqctl.errors import BrokerError, NotAuthorisedError
from rmqctl.protocol.codes import RequestCode, ResponseCode
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
        # 5.4.0
        (_DENIED, "User:operator is not found.", "User:operator is not found", "the cluster does not know operator"),
        (_DENIED, "check signature failed.", "check signature failed", "Check the secret key"),
        (_DENIED, "User:operator is disabled.", "User:operator is disabled", "is disabled"),
        (_DENIED, "The token is expired", "The token is expired", "have expired"),
        (_DENIED, None, "no permission", "missing permission"),
    ],
)
def test_a_refusal_says_what_the_cluster_said_and_what_it_means(
    code: int, remark: str | None, said: str, hint: str
) -> None:
    error = refusal("a:1", RequestCode.GET_CONSUME_STATS, refused(code, remark), _OPERATOR)
    assert isinstance(error, NotAuthorisedError)
    assert error.sentence == f"a:1 refused the request: {said}."
    assert error.hint is not None
    assert hint in error.hint
    assert error.exit_code == 4


_NO_POLICY = "no matched policies"


@pytest.mark.parametrize(
    ("request_code", "code", "remark", "right"),
    [
        (RequestCode.PULL_MESSAGE, 1, f"{_JAVA}No default permission for topic:Other{_AT}", "SUB on the topic Other"),
        (RequestCode.SEND_MESSAGE_V2, 1, f"{_JAVA}No default permission for topic: O{_AT}", "PUB on the topic O"),
        # A send to a retry topic asks for the right to consume as the group.
        (RequestCode.SEND_MESSAGE_V2, 1, f"{_JAVA}No default permission for group:G{_AT}", "SUB on the group G"),
        (
            RequestCode.UPDATE_BROKER_CONFIG,
            1,
            f"{_JAVA}Need admin permission for request code=25, but accessKey=operator is not{_AT}",
            "an admin account",
        ),
        *(
            (code, _DENIED, f"User:operator has no permission to access {on} from 10.0.0.1, {why}.", f"{act} on {on}")
            for code, act, on, why in (
                (RequestCode.GET_CONSUME_STATS, "Get", "Group:G", _NO_POLICY),
                (RequestCode.PULL_MESSAGE, "Sub", "Topic:Other", "the decision is deny"),
                (RequestCode.SEND_BATCH_MESSAGE, "Pub", "Topic:Other", _NO_POLICY),
                (RequestCode.SEND_BATCH_MESSAGE, "Sub", "Group:G", _NO_POLICY),
                (RequestCode.QUERY_MESSAGE, "Get or Sub", "Topic:%RETRY%G", _NO_POLICY),
                (RequestCode.UPDATE_CONSUMER_OFFSET, "Sub or Update", "Group:G", _NO_POLICY),
                (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, "Update", "Topic:T", _NO_POLICY),
                (RequestCode.DELETE_SUBSCRIPTIONGROUP, "Delete", "Group:G", _NO_POLICY),
                (RequestCode.GET_BROKER_CONSUME_STATS, "Get", "Cluster:DefaultCluster", _NO_POLICY),
                # A request that rmqctl does not send.
                (RequestCode.CLEAN_BROKER_DATA, "a permission", "Cluster:DefaultCluster", _NO_POLICY),
                # Names that hold the words of other refusals.
                (RequestCode.PULL_MESSAGE, "Sub", "Topic:check-signature-expired-user-not", _NO_POLICY),
            )
        ),
    ],
)  # fmt: skip
def test_a_missing_right_is_named_as_it_is_granted(request_code: int, code: int, remark: str, right: str) -> None:
    error = refusal("a:1", request_code, refused(code, remark), _OPERATOR)
    assert isinstance(error, NotAuthorisedError)
    assert error.sentence.startswith(f"a:1 refused the request, which needs {right}: ")
    assert error.hint is not None
    assert right in error.hint


@pytest.mark.parametrize(
    ("code", "remark"), [(1, f"{_JAVA}No accessKey is configured{_AT}"), (_DENIED, "username cannot be null.")]
)
def test_a_request_that_was_not_signed_is_told_how_to_be(code: int, remark: str) -> None:
    error = refusal("a:1", RequestCode.PULL_MESSAGE, refused(code, remark))
    assert isinstance(error, NotAuthorisedError)
    assert error.hint is not None
    assert error.hint.startswith("The request was not signed: give --credentials FILE")


@pytest.mark.parametrize("credentials", [None, _OPERATOR])
@pytest.mark.parametrize("remark", ["the topic[T] pulling message is forbidden", "subscription group no permission, G"])
def test_what_is_closed_for_everybody_asks_for_no_credentials(remark: str, credentials: Credentials | None) -> None:
    error = refusal("a:1", RequestCode.PULL_MESSAGE, refused(_DENIED, remark), credentials)
    assert error.exit_code == 4
    assert error.hint is not None
    assert error.hint.startswith("Check the permissions")


@pytest.mark.parametrize("code", [1, _DENIED, ResponseCode.TOPIC_NOT_EXIST])
def test_a_remark_that_repeats_our_secrets_is_not_passed_on(code: int) -> None:
    error = refusal(
        "a:1",
        RequestCode.PULL_MESSAGE,
        refused(code, "AclException very-secret\nand some-token, very-secret"),
        _OPERATOR,
    )
    for text in (error.sentence, str(error), error.hint or "", str(getattr(error, "remark", ""))):
        assert "very-secret" not in text
        assert "some-token" not in text
    assert "***" in error.sentence


def test_any_other_code_is_an_error_of_the_broker() -> None:
    error = refusal("a:1", RequestCode.PULL_MESSAGE, refused(ResponseCode.TOPIC_NOT_EXIST, "no T"), _OPERATOR)
    assert isinstance(error, BrokerError)
    assert (error.code, error.name, error.hint) == (17, "TOPIC_NOT_EXIST", "rmqctl explain 17")
