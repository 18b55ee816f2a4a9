"""`doctor` and `context test` against real servers, healthy, silent, dead and closed to us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.real.harness.secured_cluster import ADMIN, CONSUMER, STRANGER, Account, SecuredCluster

from .harness.cluster import Cluster
from .harness.held import held, held_when_quiet
from .harness.process import free_port
from .harness.rmqctl import Result, Rmqctl
from .test_bad_days import paused


def _checks(result: Result, check: str) -> dict[str, Any]:
    """Return the rows of a check by the broker's name, or by address."""
    rows = [item for item in result.document["items"] if item["check"] == check]
    return {item["subject"].partition("/")[0]: item for item in rows}


@pytest.fixture(autouse=True)
def _no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQCTL_CONFIG", str(tmp_path / "config.toml"))


def test_a_healthy_cluster(cluster: Cluster, rmqctl: Rmqctl) -> None:
    result = rmqctl("doctor", "-o", "json")

    assert result.exit_code == 0, result.stdout
    for check in ("broker", "rights", "clock", "TLS"):
        rows = _checks(result, check)
        assert {rows[name]["status"] for name in ("broker-a", "broker-b")} == {"OK"}, rows
    assert _checks(result, "broker versions")["cluster"]["found"] == cluster.version
    assert _checks(result, "name server")[cluster.namesrv]["measured"]["kind"] == "NAME_SERVER"
    for row in _checks(result, "clock").values():
        # One machine, one clock.
        assert -1_000 < row["measured"]["skewLowMs"] <= row["measured"]["skewHighMs"] < 1_000


def test_doctor_leaves_no_trace(cluster: Cluster, rmqctl: Rmqctl) -> None:
    before = held_when_quiet(cluster.namesrv, ["TOOLS_CONSUMER"])
    assert rmqctl("doctor").exit_code == 0
    assert held(cluster.namesrv, ["TOOLS_CONSUMER"]) == before


def test_a_broker_that_never_answers_fails_and_the_others_are_checked(cluster: Cluster, rmqctl: Rmqctl) -> None:
    with paused(cluster.brokers["broker-b"].java):
        result = rmqctl("doctor", "--timeout", "6s", "-o", "json")

    assert result.exit_code == 6
    assert result.seconds < 7
    brokers = _checks(result, "broker")
    assert (brokers["broker-a"]["status"], brokers["broker-b"]["status"]) == ("OK", "FAIL")
    assert "no answer within" in brokers["broker-b"]["found"]
    assert set(_checks(result, "clock")) == {"broker-a"}


def test_a_broker_in_place_of_a_name_server(cluster: Cluster, rmqctl: Rmqctl) -> None:
    address = cluster.brokers["broker-a"].address
    result = rmqctl("doctor", "-o", "json", namesrv=address)

    assert result.exit_code == 1
    assert _checks(result, "name server")[address]["found"] == f"{address} is not a name server (a broker)"


def test_contexts_are_tried_and_a_dead_one_hides_no_other(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        f'[contexts.good]\nnamesrv = "{cluster.namesrv}"\n[contexts.dead]\nnamesrv = "127.0.0.1:{free_port()}"\n'
    )
    result = rmqctl("context", "test", "-o", "json")

    assert result.exit_code == 8
    good, dead = result.document["items"]
    assert (good["status"], good["nameServersOk"], good["brokersOk"]) == ("OK", 1, 2)
    assert good["versions"] == [cluster.version]
    assert (dead["status"], dead["error"]) == ("FAILED", "UNREACHABLE")
    assert [(server["kind"], server["brokerName"]) for server in good["servers"]] == [
        *(("NAME_SERVER", None), ("BROKER", "broker-a"), ("BROKER", "broker-b")),
    ]
    assert rmqctl("context", "test", "dead").exit_code == 6


@pytest.fixture
def as_account(secured: SecuredCluster, tmp_path: Path) -> Any:
    """Run rmqctl over TLS, signed as an account or not at all."""
    files = secured.certificates
    tls = ("--tls-ca", str(files.ca), "--tls-cert", str(files.client), "--tls-key", str(files.client_key))

    def call(account: Account | None, *words: str) -> Result:
        path = tmp_path / "keys"
        signed: tuple[str, ...] = ()
        if account is not None:
            path.write_text(f"accessKey: {account.access_key}\nsecretKey: {account.secret_key}\n")
            signed = ("--credentials", str(path))
        return Rmqctl(secured.namesrv)(*words, *tls, *signed)

    return call


def test_the_administrator_may_read_everything_over_tls(as_account: Any) -> None:
    result = as_account(ADMIN, "doctor", "-o", "json")

    assert result.exit_code == 0, result.stdout
    assert _checks(result, "rights")["broker-a"]["status"] == "OK"
    tls = _checks(result, "TLS")["broker-a"]
    assert (tls["status"], tls["measured"]["protocol"]) == ("OK", "TLSv1.3")
    assert tls["measured"]["certificateExpiresAt"] > 1_800_000_000_000


@pytest.mark.parametrize("account", [None, Account("nobody", "s3cret"), Account(ADMIN.access_key, "wrong-s3cret")])
def test_whoever_is_not_known_is_told_so(as_account: Any, account: Account | None) -> None:
    result = as_account(account, "doctor", "-o", "json")

    assert result.exit_code == 4
    rights = _checks(result, "rights")["broker-a"]
    assert (rights["status"], rights["error"]) == ("FAIL", "NOT_AUTHORISED")
    # It is reached, and known for a broker all the same.
    assert _checks(result, "broker")["broker-a"]["status"] == "OK"
    assert "s3cret" not in result.stdout + result.stderr


@pytest.mark.parametrize("account", [CONSUMER, STRANGER])
def test_rights_that_are_missing_are_named(secured: SecuredCluster, as_account: Any, account: Account) -> None:
    """4.9 checks no right for most reads; a pull is what it refuses."""
    result = as_account(account, "doctor", "-o", "json")

    # Only a reader may ask for the clock: without it, a check was not made.
    unknown = [row for row in _checks(result, "clock").values() if row["status"] == "UNKNOWN"]
    assert result.exit_code == (8 if unknown else 0), result.stdout
    rights = _checks(result, "rights")["broker-a"]
    refused = [11] if secured.version.startswith("4.") else [202, 203, 208, 303, 11]
    assert (rights["status"], rights["measured"]["refusedCodes"]) == ("WARN", refused)


def test_a_certificate_of_another_authority_is_not_trusted(secured: SecuredCluster, rmqctl_plain: Rmqctl) -> None:
    result = rmqctl_plain("doctor", "-o", "json", "--tls-ca", str(secured.certificates.stranger_ca))

    assert result.exit_code == 6
    assert "its certificate is not trusted" in _checks(result, "name server")[secured.namesrv]["found"]


@pytest.fixture
def rmqctl_plain(secured: SecuredCluster) -> Rmqctl:
    return Rmqctl(secured.namesrv)
