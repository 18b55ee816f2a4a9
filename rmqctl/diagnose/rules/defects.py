"""Known defects of released clients and brokers that affect consumer groups, with their versions and conditions.

Each was verified in the sources of the releases on both sides of its fix; `source` names the issue or commit.
Versions of Java clients and of brokers are ordinals (MQVersion). All Go clients report V4_5_2 (317); their own
version is in PROP_CLIENT_VERSION. There, 2.1.1 also reports v2.1.0, but its client ids contain a #.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Severity
from rmqctl.model.group import CONSUME_ACTIVELY, CONSUME_PASSIVELY, CPP, GO, MemberView, RunningInfo
from rmqctl.protocol.versions import version_ordinal
from rmqctl.rules.member_settings import NO_LIMIT, broadcasts, member_settings, retry_limit

_V4_9_0, _V4_9_2, _V5_0_0 = version_ordinal(4, 9, 0), version_ordinal(4, 9, 2), version_ordinal(5, 0, 0)
_V5_1_0, _V5_1_1 = version_ordinal(5, 1, 0), version_ordinal(5, 1, 1)
_V4_0_0 = version_ordinal(4, 0, 0)


class Defect(Struct, frozen=True):
    """One defect: `sentence` is its effect as a clause; `severity` is INFO unless the group is certainly affected."""

    sentence: str
    advice: str
    source: str
    severity: Severity = Severity.INFO


class ClientProfile(Struct, frozen=True):
    """The properties of one member that decide whether a defect affects it; defaults where it did not answer."""

    member: MemberView
    is_push: bool
    is_lite_pull: bool
    is_orderly: bool
    has_limit: bool
    reported_version: str | None

    def is_java_before(self, fixed_in: int) -> bool:
        """Return whether this is a Java client of a version before the fix."""
        return "JAVA" in self.member.languages and any(version < fixed_in for version in self.member.versions)

    def is_go(self, *versions: str, with_hash: bool) -> bool:
        """Return whether this is a Go client that reports one of these versions; only ids of 2.1.1 contain a #."""
        return (
            GO in self.member.languages
            and self.reported_version in versions
            and (with_hash or "#" not in self.member.client_id)
        )


def clients_of(facts: GroupFacts) -> list[ClientProfile]:
    """Return every member of a group with the properties that the table of defects needs."""
    return [_client(facts.running.get(member.client_id), member) for member in facts.members]


def _client(info: RunningInfo | None, member: MemberView) -> ClientProfile:
    properties = {} if info is None else info.properties
    settings = None if info is None else member_settings(info)
    consume_type = properties.get("PROP_CONSUME_TYPE")
    is_orderly = settings is not None and bool(settings.is_orderly)
    limit = None if settings is None else retry_limit(settings.max_reconsume_times, is_orderly=is_orderly)
    return ClientProfile(
        member,
        is_push=consume_type == CONSUME_PASSIVELY and info is not None and not broadcasts(info),
        is_lite_pull=consume_type == CONSUME_ACTIVELY,
        is_orderly=is_orderly,
        has_limit=limit not in (None, NO_LIMIT),
        reported_version=properties.get("PROP_CLIENT_VERSION"),
    )


class ClientDefect(Struct, frozen=True):
    """A defect of clients; `hits` returns whether it affects a member, by its version, settings and brokers."""

    defect: Defect
    hits: Callable[[GroupFacts, ClientProfile], bool]


class BrokerDefect(Struct, frozen=True):
    """A defect of brokers from `since` until `fixed_in` (ordinals); `hits` returns whether it affects a group."""

    defect: Defect
    since: int
    fixed_in: int
    hits: Callable[[GroupFacts], bool]


CLIENT_DEFECTS: tuple[ClientDefect, ...] = (
    ClientDefect(
        Defect(
            "an orderly message beyond its retry limit is retried without end on brokers 5.0.0 to 5.1.0",
            "Upgrade the brokers or the clients to 5.1.1, or set no limit for orderly consumers.",
            "ISSUE #6163, PR #6164",
            Severity.WARNING,
        ),
        lambda facts, client: (
            client.is_java_before(_V5_1_1)
            and client.is_orderly
            and client.has_limit
            and any(_V5_0_0 <= version < _V5_1_1 for version in facts.broker_versions.values())
        ),
    ),
    ClientDefect(
        Defect(
            "a lite pull consumer loses messages in a rebalance",
            "Upgrade the clients to 4.9.0 or later.",
            "ISSUE #2732, PR #2832",
            Severity.WARNING,
        ),
        lambda _, client: client.is_java_before(_V4_9_0) and client.is_lite_pull,
    ),
    ClientDefect(
        Defect(
            "a failed orderly message is lost",
            "Upgrade rocketmq-client-go to 2.1.1 or later immediately.",
            "rocketmq-client-go #618, PR #693",
            Severity.WARNING,
        ),
        lambda _, client: client.is_go("v2.1.0", with_hash=False) and client.is_orderly,
    ),
    ClientDefect(
        Defect(
            "a message whose send-back fails is lost when the member stops",
            "Upgrade rocketmq-client-go to 2.1.1 or later.",
            "rocketmq-client-go PR #860",
            Severity.WARNING,
        ),
        lambda _, client: client.is_go("v2.0.0", "v2.1.0", with_hash=False),
    ),
    ClientDefect(
        Defect(
            "a message whose send-back fails is lost",
            "Upgrade rocketmq-client-cpp to 2.2.0.",
            "rocketmq-client-cpp PR #209",
            Severity.WARNING,
        ),
        lambda _, client: (
            CPP in client.member.languages and any(version < _V4_0_0 for version in client.member.versions)
        ),
    ),
    ClientDefect(
        Defect(
            "a failed offset query can move an orderly queue back to its oldest message",
            "Upgrade the clients to 5.0.0 or later; until then restart brokers and members one at a time.",
            "ISSUE #2708; RebalancePushImpl.computePullFromWhereWithException",
        ),
        lambda _, client: client.is_java_before(_V5_0_0) and client.is_push and client.is_orderly,
    ),
    ClientDefect(
        Defect(
            "a queue starts like a new one when the broker refuses its offset query",
            "Upgrade the clients to 5.0.0 or later; after an overload or a change of rights, compare the offsets.",
            "commit b6ff649291; RemoteBrokerOffsetStore.readOffset",
        ),
        lambda _, client: client.is_java_before(_V5_0_0) and client.is_push,
    ),
    ClientDefect(
        Defect(
            "a message that was sent back as expired and then fails is sent back again",
            "Upgrade the clients to 5.1.0, or raise consumeTimeout above the longest run of the listener.",
            "ISSUE #5481, PR #5483",
        ),
        lambda _, client: client.is_java_before(_V5_1_0) and client.is_push and not client.is_orderly,
    ),
    ClientDefect(
        Defect(
            "the client id consists only of address and process id, which containers often share (MEM001)",
            "Upgrade the clients to 4.9.0, or give each client its own instanceName.",
            "ISSUE #2730; ClientConfig.changeInstanceNameToPID",
        ),
        lambda _, client: (
            client.is_java_before(_V4_9_0)
            and client.is_push
            and client.member.client_id.partition("@")[2].partition("@")[0].isdigit()
        ),
    ),
    ClientDefect(
        Defect(
            "a send-back that the broker refuses counts as successful: the message is acknowledged and lost",
            "Make sure that the group and its retry topic exist on every broker; no release up to 2.1.2 has the fix.",
            "rocketmq-client-go PR #1107",
        ),
        lambda _, client: client.is_go("v2.0.0", "v2.1.0", "v2.1.1", with_hash=True) and client.is_push,
    ),
)

BROKER_DEFECTS: tuple[BrokerDefect, ...] = (
    BrokerDefect(
        Defect(
            "popped messages that are not acknowledged can be lost",
            "Upgrade the brokers to 5.3.0 or later.",
            "ISSUE #7914, PR #7915",
            Severity.WARNING,
        ),
        _V5_0_0,
        version_ordinal(5, 3, 0),
        lambda facts: bool(facts.popping),
    ),
    BrokerDefect(
        Defect(
            "an offset beyond the end of a queue that starts at 0 moves the group back to 0",
            "Upgrade the brokers to 4.9.4 or later; compare offsets before a failover.",
            "ISSUE #4215, PR #4219",
        ),
        0,
        version_ordinal(4, 9, 4),
        lambda facts: any(topic.beyond_max_count for topic in facts.topics),
    ),
    BrokerDefect(
        Defect(
            "a dead letter can be up to 2 h late, and its topic may be unreadable",
            "rmqctl dlq show GROUP --fix-permission makes it readable; upgrade the brokers to 4.9.2 or later.",
            "ISSUE #2724, PR #3318; AbstractSendMessageProcessor",
        ),
        0,
        _V4_9_2,
        lambda facts: bool(facts.dead_letter_count),
    ),
    BrokerDefect(
        Defect(
            "a restart of more than 10 s redelivers old retries",
            "Upgrade the brokers to 5.1.2 or later; back up config/delayOffset.json before a restart.",
            "ISSUE #6881, PR #6882",
        ),
        _V5_0_0,
        version_ordinal(5, 1, 2),
        lambda facts: facts.is_online,
    ),
)
