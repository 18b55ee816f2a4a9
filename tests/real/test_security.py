"""rmqctl on clusters behind TLS and accounts, with the right, wrong and missing ones; ACL 1.0 and 2.0."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.real.harness.secured_cluster import (
    ADMIN,
    CONSUMER,
    GROUP,
    LETTER_READER,
    READER,
    STRANGER,
    TOPIC,
    Account,
    SecuredCluster,
)

from .harness.rmqctl import Result, Rmqctl

Run = Callable[..., Result]


@pytest.fixture
def as_account(secured: SecuredCluster, tmp_path: Path) -> Run:
    """Run rmqctl over TLS as an account, or as none."""
    return partial(secured.run_as, folder=tmp_path)


@pytest.mark.smoke
def test_the_administrator_reads_everything(secured: SecuredCluster, as_account: Run) -> None:
    secured.java.produce(TOPIC, 8, keys="key")
    secured.java.consume("reads", GROUP, TOPIC)
    secured.java.wait_consumed("reads", 8)
    secured.java.persist("reads")
    for words in (
        ("offset", "show", GROUP), ("group", "list"), ("group", "describe", GROUP), ("group", "members", GROUP),
        ("group", "config", GROUP), ("cluster", "list"), ("topic", "list"), ("topic", "route", TOPIC),
        ("topic", "status", TOPIC), ("broker", "show", "broker-a"), ("message", "find", TOPIC),
        ("message", "get", "--topic", TOPIC, "--key", "key3"),
    ):  # fmt: skip
        result = as_account(ADMIN, *words, "-o", "json")
        assert result.exit_code == 0, (words, result.stderr)
        assert result.document["items"], words
    secured.java.stop("reads")


def test_nobody_is_told_what_to_give(secured: SecuredCluster, as_account: Run) -> None:
    result = as_account(None, "offset", "show", GROUP)
    assert (result.exit_code, result.stdout) == (4, "")
    assert "refused the request" in result.stderr
    assert "--credentials" in result.stderr
    # Name servers know no accounts; only the comparison with the brokers is missing.
    route = as_account(None, "topic", "route", TOPIC, "-o", "json")
    assert (route.exit_code, bool(route.document["items"])) == (4, True)


def test_a_wrong_secret_and_an_unknown_key_are_told_apart(as_account: Run) -> None:
    wrong = as_account(Account(ADMIN.access_key, "s3cret-typo"), "offset", "show", GROUP, "--debug")
    unknown = as_account(Account("nobodyKey", "whatever-secret"), "offset", "show", GROUP, "--debug")

    assert (wrong.exit_code, unknown.exit_code) == (4, 4)
    assert f"it does not match the access key {ADMIN.access_key}." in wrong.stderr
    assert "the cluster does not know nobodyKey" in unknown.stderr


@pytest.mark.smoke
def test_a_missing_right_is_named(secured: SecuredCluster, as_account: Run) -> None:
    """4.9 checks rights only where messages are read; 5.x at every read."""
    stranger = as_account(STRANGER, "message", "find", TOPIC)
    assert stranger.exit_code == 4
    assert TOPIC in stranger.stderr
    assert "Grant the access key" in stranger.stderr
    if secured.version == "5.4.0":
        consumer = as_account(CONSUMER, "offset", "show", GROUP)
        assert consumer.exit_code == 4
        assert f"Group:{GROUP}" in consumer.stderr
    assert as_account(READER, "offset", "show", GROUP).exit_code == 0


def test_who_may_not_look_where_messages_wait_is_told_what_is_known(as_account: Run) -> None:
    result = as_account(CONSUMER, "message", "get", "--topic", TOPIC, "--key", "nowhere")
    assert result.exit_code == 5, result.stderr
    assert "which this account is not allowed to read" in result.stderr
    found = as_account(CONSUMER, "message", "find", TOPIC, "--key", "nowhere")
    assert found.exit_code == 0, found.stderr
    assert "which this account is not allowed to read" in found.stderr


def test_who_may_read_dead_letters_but_not_send_them(
    secured: SecuredCluster, as_account: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    secured.create_topic(f"%DLQ%{GROUP}", queue_count=1)
    secured.java.produce(f"%DLQ%{GROUP}", 8)
    words = ("dlq", "replay", GROUP, "--to-topic", TOPIC, "-o", "json")
    planned = as_account(LETTER_READER, *words, "--dry-run")
    assert (planned.exit_code, planned.document["count"]) == (0, 8), planned.stderr
    before = _stored_count(as_account)
    # 4.9 does not check the right to send batches (PlainAccessResource.parse): the first message goes alone.
    for more in (("--max", "1"), ()):
        refused = as_account(LETTER_READER, *words, "--yes", *more)
        assert (refused.exit_code, refused.stdout) == (4, ""), refused
        error = json.loads(refused.stderr)
        assert error["name"] == "NOT_AUTHORISED"
        assert "Grant the access key" in error["hint"]
        assert TOPIC in error["message"]
    assert _stored_count(as_account) == before
    (ledger,) = as_account(ADMIN, "dlq", "status", GROUP, "-o", "json").document["items"]
    assert (ledger["sentCount"], ledger["inDoubtCount"], ledger["state"]) == (0, 0, "LEFT")
    # With the right all is sent.
    sent = as_account(ADMIN, *words, "--yes")
    assert (sent.exit_code, sent.document["summary"]["sentCount"]) == (0, 8), sent.stderr
    assert _stored_count(as_account) == before + 8


def _stored_count(as_account: Run) -> int:
    """Return how many messages TOPIC has been given."""
    items = as_account(ADMIN, "topic", "status", TOPIC, "-o", "json").document["items"]
    return sum(item["maxOffset"] for item in items)


def test_a_broker_never_hands_out_its_secrets(secured: SecuredCluster, as_account: Run) -> None:
    for form in ("json", "plain"):
        shown = as_account(ADMIN, "broker", "show", "broker-a", "--config", "-o", form)
        assert shown.exit_code == 0
        assert "brokerName" in shown.stdout
        # as_account() looks for the secret itself.


def test_credentials_of_the_environment_and_of_a_context(
    secured: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQCTL_ACCESS_KEY", ADMIN.access_key)
    monkeypatch.setenv("RMQCTL_SECRET_KEY", ADMIN.secret_key)
    monkeypatch.setenv("RMQCTL_SECURITY_TOKEN", "any")
    assert Rmqctl(secured.namesrv)("group", "list", *secured.tls_words()).exit_code == 0
    for name in ("RMQCTL_ACCESS_KEY", "RMQCTL_SECRET_KEY", "RMQCTL_SECURITY_TOKEN"):
        monkeypatch.delenv(name)

    certificates = secured.certificates
    (tmp_path / "admin").write_text(f"accessKey: {ADMIN.access_key}\nsecretKey: {ADMIN.secret_key}\n")
    client = ""
    if secured.version == "4.9.7":
        client = f'cert = "{certificates.client}"\nkey = "{certificates.client_key}"\n'
    (tmp_path / "config.toml").write_text(
        f'[contexts.c]\nnamesrv = "{secured.namesrv}"\ncredentials = "admin"\n'
        f'[contexts.c.tls]\nca = "{certificates.ca}"\n{client}'
    )
    monkeypatch.setenv("RMQCTL_CONFIG", str(tmp_path / "config.toml"))
    assert Rmqctl(secured.namesrv)("group", "list", "--context", "c").exit_code == 0


def test_a_plain_connection_is_told_to_try_tls(secured: SecuredCluster) -> None:
    result = Rmqctl(secured.namesrv)("cluster", "list")
    assert (result.exit_code, result.stdout) == (6, "")
    assert "the connection was closed before the answer arrived" in result.stderr
    assert "--tls" in result.stderr
    assert result.seconds < 5


def test_who_is_not_trusted_is_told_why(secured: SecuredCluster) -> None:
    rmqctl, certificates = Rmqctl(secured.namesrv), secured.certificates
    own = secured.tls_words()[2:]
    for words in (["--tls"], ["--tls-ca", str(certificates.stranger_ca)]):
        result = rmqctl("cluster", "list", *words, *own)
        assert (result.exit_code, result.stdout) == (6, "")
        assert "its certificate is not trusted" in result.stderr
        assert "--tls-ca" in result.stderr
    # The name server answers; the brokers refuse a client without an account.
    assert "broker-a" in rmqctl("topic", "route", TOPIC, "--tls-verify", "none", *own).stdout


def test_another_hosts_certificate_is_taken_only_on_request(secured: SecuredCluster) -> None:
    elsewhere = f"127.0.0.2:{secured.namesrv_port}"
    refused = Rmqctl(elsewhere)("topic", "route", TOPIC, *secured.tls_words())
    taken = Rmqctl(elsewhere)("topic", "route", TOPIC, *secured.tls_words(), "--tls-verify", "ca")

    assert refused.exit_code == 6
    assert "not valid for '127.0.0.2'" in refused.stderr
    assert "--tls-verify ca" in refused.stderr
    assert "broker-a" in taken.stdout


def test_a_client_without_the_certificate_that_is_wanted(secured: SecuredCluster) -> None:
    if secured.version != "4.9.7":
        return  # this server wants none: nothing to see
    certificates = secured.certificates
    stranger = ["--tls-cert", str(certificates.stranger), "--tls-key", str(certificates.stranger_key)]
    for words in ([], stranger):
        result = Rmqctl(secured.namesrv)("cluster", "list", "--tls-ca", str(certificates.ca), *words)
        assert (result.exit_code, result.stdout) == (6, "")
        assert "rejected the client certificate" in result.stderr
        assert result.seconds < 5
