"""A cluster that asks who one is, over TLS only: ACL 1.0 on 4.9, authentication and authorisation 2.0 on 5.x."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.real.harness.certificates import Certificates
from tests.real.harness.cluster import Cluster
from tests.real.harness.process import QUICK_START
from tests.real.harness.rmqctl import PATIENT, Result, Rmqctl

TOPIC, OTHER_TOPIC, GROUP = "Secured", "OutOfBounds", "SecuredGroup"


class Account(NamedTuple):
    """Who a request is signed as."""

    access_key: str
    secret_key: str


ADMIN = Account("adminKey", "adminSecret")
CONSUMER = Account("consumerKey", "consumerSecret")  # may consume TOPIC as GROUP, what a consumer's own account may
READER = Account(
    "readerKey", "readerSecret"
)  # 5.x: may Get both and the cluster; 4.9 has no such right, so as CONSUMER
# May read the dead letters of GROUP, and on 5.x where the queues of TOPIC end; may not send to it.
LETTER_READER = Account("letterReaderKey", "letterReaderSecret")
STRANGER = Account("strangerKey", "strangerSecret")  # known, without a right to anything

_ACL_ACCOUNT = """
- accessKey: {0.access_key}
  secretKey: {0.secret_key}
  admin: {1}
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
"""
_ACL_CONSUMES = f"  topicPerms: [{TOPIC}=SUB]\n  groupPerms: [{GROUP}=SUB]\n"
_ACL_READS_LETTERS = f"  topicPerms: ['%DLQ%{GROUP}=SUB']\n  groupPerms: [TOOLS_CONSUMER=SUB]\n"


class SecuredCluster(Cluster):
    """A broker and a name server that take TLS only (`certificates` has what clients need); Java signs as ADMIN.

    With `client_certificates` set to "require" they refuse clients without a certificate of the CA.
    wait() makes the accounts, TOPIC and OTHER_TOPIC.
    """

    def __init__(self, version: str, folder: Path, *, client_certificates: str = "none") -> None:
        self.certificates = Certificates(folder.with_name(f"{folder.name}-certificates"))
        super().__init__(
            version,
            folder,
            settings={"aclEnable": "true"} if version.startswith("4.") else _authentication(folder),
            jvm=(*QUICK_START, *self.certificates.jvm(client_certificates=client_certificates)),
            conf={"plain_acl.yml": _plain_acl()},
            credentials=ADMIN,
        )

    def wait(self) -> SecuredCluster:
        """Wait as a Cluster does, then make what the tests need."""
        super().wait()
        if not self.version.startswith("4."):
            self._create_accounts()
        self.create_topic(TOPIC)
        self.create_topic(OTHER_TOPIC)
        return self

    def tls_words(self) -> list[str]:
        """Return what rmqctl needs: the CA, and on 4.9.7 a certificate of its own."""
        words = ["--tls-ca", str(self.certificates.ca)]
        if self.version == "4.9.7":
            words += ["--tls-cert", str(self.certificates.client), "--tls-key", str(self.certificates.client_key)]
        return words

    def run_as(self, account: Account | None, *words: str, folder: Path) -> Result:
        """Run rmqctl over TLS as an account, or as none; its credentials and its state are in `folder`."""
        given = []
        if account is not None:
            path = folder / f"{account.access_key}.credentials"
            path.write_text(f"accessKey: {account.access_key}\nsecretKey: {account.secret_key}\n")
            path.chmod(0o600)
            given = ["--credentials", str(path)]
        result = Rmqctl(self.namesrv, timeout=PATIENT, state=str(folder / "state"))(*words, *given, *self.tls_words())
        if account is not None:
            assert account.secret_key not in result.stdout + result.stderr
        return result

    def create_account(self, account: Account, rights: Mapping[str, str]) -> None:
        """Create an account with these rights: actions by "topic NAME" or "group NAME"."""
        if self.version.startswith("4."):
            by_kind: dict[str, list[str]] = {"topic": [], "group": []}
            for resource, actions in rights.items():
                kind, _, name = resource.partition(" ")
                by_kind[kind].append(f"{name}={actions}")
            lists = [word for kind, on in by_kind.items() if on for word in (f"-{kind[0]}", ",".join(on))]
            words = ("-a", account.access_key, "-s", account.secret_key, "-i", "DENY", "-u", "DENY", "-m", "false")
            self._change("updateAclConfig", *words, *lists)
            return
        self._change("createUser", "-u", account.access_key, "-p", account.secret_key, "-t", "Normal")
        for resource, actions in rights.items():
            kind, _, name = resource.partition(" ")
            subject, on = f"User:{account.access_key}", f"{kind.capitalize()}:{name}"
            self._change("createAcl", "-s", subject, "-r", on, "-a", actions, "-d", "Allow")

    # Requests that mqadmin signs and sends over TLS.

    def _update_topic(self, broker_name: str, topic: str, queue_count: int, perm: int) -> None:
        count, address = str(queue_count), self.addresses[broker_name]
        printed = self.java.mqadmin(
            "updateTopic", "-b", address, "-t", topic, "-r", count, "-w", count, "-p", str(perm)
        )  # fmt: skip
        if "success" not in printed:
            raise RuntimeError(f"updateTopic {topic} on {broker_name}: {printed}")

    def _route_size(self, topic: str) -> int:
        return self.java.mqadmin("topicRoute", "-n", self.namesrv, "-t", topic).count('"writeQueueNums"')

    def _create_accounts(self) -> None:
        topic, group, dead = f"topic {TOPIC}", f"group {GROUP}", f"topic %DLQ%{GROUP}"
        reads = "Get,List"
        self.create_account(CONSUMER, {topic: "Sub", group: "Sub"})
        self.create_account(READER, {topic: reads, group: reads, "cluster DefaultCluster": reads})
        self.create_account(LETTER_READER, {dead: "Get,Sub", "group TOOLS_CONSUMER": "Get,Sub", topic: "Get"})
        self.create_account(STRANGER, {})

    def _change(self, command: str, *args: str) -> None:
        (broker,) = self.brokers.values()
        printed = self.java.mqadmin(command, "-b", broker.address, *args)
        if not re.search("success", printed):
            raise RuntimeError(f"{command} {args}: {printed or self.java.java.log_tail()}")


def _plain_acl() -> str:
    accounts = [_ACL_ACCOUNT.format(ADMIN, "true"), _ACL_ACCOUNT.format(STRANGER, "false")]
    accounts += [
        _ACL_ACCOUNT.format(account, "false").rstrip() + "\n" + rights
        for account, rights in (
            (CONSUMER, _ACL_CONSUMES), (READER, _ACL_CONSUMES), (LETTER_READER, _ACL_READS_LETTERS),
        )
    ]  # fmt: skip
    return "globalWhiteRemoteAddresses: []\naccounts:" + "".join(accounts)


def _authentication(folder: Path) -> Mapping[str, object]:
    package = "org.apache.rocketmq.auth"
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{package}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{package}.authentication.provider.LocalAuthenticationMetadataProvider",
        "authorizationEnabled": "true",
        "authorizationProvider": f"{package}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{package}.authorization.provider.LocalAuthorizationMetadataProvider",
        "authConfigPath": folder / "accounts",
        "initAuthenticationUser": json.dumps({"username": ADMIN.access_key, "password": ADMIN.secret_key}),
        # The broker signs its own requests (to itself, to slaves) too.
        "innerClientAuthenticationCredentials": json.dumps(
            {"accessKey": ADMIN.access_key, "secretKey": ADMIN.secret_key}
        ),
    }
