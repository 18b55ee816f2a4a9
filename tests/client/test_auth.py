from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from msgspec.structs import replace

from rmqctl.client.auth import Credentials, signed
from rmqctl.protocol.command import Command, HeaderEncoding

_FIELDS = {"topic": "%RETRY%gü", "queueId": "3", "b": "x"}
_BODY = b'{"a":1}'


@pytest.mark.parametrize(
    ("command", "credentials", "signature"),
    [
        # Computed by RocketMQ 4.9.7's own AclUtils.
        (Command(25, _FIELDS, _BODY), Credentials("operator", "s3cret-ä"), "D263UsBfEKoTuGDp9d8KmQZHgE0="),
        (Command(25, _FIELDS, _BODY), Credentials("operator", "s3cret-ä", "tok"), "OLRqARGNLJnNDYXvAC+39/Sq9pE="),
        (Command(25), Credentials("operator", "secret"), "dUmGRzyBeeCf2xh5zyrb4bJ5W6s="),
    ],
    ids=["fields and a body", "security token", "nothing"],
)
def test_a_signature_is_the_one_that_java_makes(command: Command, credentials: Credentials, signature: str) -> None:
    assert signed(command, credentials).ext_fields["Signature"] == signature


def test_the_signature_covers_the_values_in_the_order_of_their_names_then_the_body() -> None:
    content = "operator" + "x" + "3" + "%RETRY%gü" + '{"a":1}'  # AccessKey b queueId topic
    digest = hmac.new(b"secret", content.encode(), hashlib.sha1).digest()

    command = signed(Command(25, _FIELDS, _BODY), Credentials("operator", "secret"))

    assert command.ext_fields == {
        **_FIELDS,
        "AccessKey": "operator",
        "Signature": base64.b64encode(digest).decode(),
    }


def test_a_security_token_is_sent_and_signed() -> None:
    with_token = signed(Command(25), Credentials("operator", "secret", "token"))
    assert with_token.ext_fields["SecurityToken"] == "token"
    assert (
        with_token.ext_fields["Signature"]
        != signed(Command(25), Credentials("operator", "secret")).ext_fields["Signature"]
    )


def test_nothing_else_of_a_command_changes() -> None:
    command = Command(11, {"a": "b"}, b"body", opaque=7, flag=2, encoding=HeaderEncoding.ROCKETMQ)
    made = signed(command, Credentials("operator", "secret"))
    assert replace(made, ext_fields={"a": "b"}) == command
    assert command.ext_fields == {"a": "b"}


def test_signing_again_replaces_the_signature() -> None:
    once = signed(Command(25, _FIELDS, _BODY), Credentials("operator", "secret"))
    assert signed(once, Credentials("operator", "secret")) == once
    assert signed(once, Credentials("another", "secret")) == signed(
        Command(25, _FIELDS, _BODY), Credentials("another", "secret")
    )


def test_the_secret_is_never_sent() -> None:
    made = signed(Command(25, _FIELDS, _BODY), Credentials("operator", "very-secret"))
    assert "very-secret" not in str(made)


def test_credentials_do_not_show_their_secrets() -> None:
    credentials = Credentials("operator", "very-secret", "token")
    for text in (repr(credentials), str(credentials), f"{credentials}", f"{[credentials]}"):
        assert "operator" in text
        assert "very-secret" not in text
        assert "token" not in text
