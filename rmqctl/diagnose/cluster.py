"""Checks the path to a cluster: name servers, brokers, rights, TLS, clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from rmqctl.admin.brokers.cluster import fetch_expected
from rmqctl.admin.brokers.probe import fetch_bad_reads, measure_clock
from rmqctl.admin.brokers.servers import ClusterServer, fetch_servers
from rmqctl.admin.messages.held_back import fetch_held_back
from rmqctl.client.core import Client
from rmqctl.client.duplicates import find_duplicates
from rmqctl.client.identity import ServerKind
from rmqctl.client.rules.views import differing_views
from rmqctl.errors import DuplicateBrokerError, NameServersDifferError, NoBrokerError, NotAuthorisedError, RmqctlError
from rmqctl.model.check_result import CheckResult, Status
from rmqctl.model.names import GIVEN_UP_TOPIC
from rmqctl.model.route import MASTER_ID, BrokerData
from rmqctl.rules.cluster_memory import master_missing
from rmqctl.rules.message_wait import OpenHalves
from rmqctl.text.durations import short_duration
from rmqctl.text.times import short_time
from rmqctl.text.words import agreeing, counted, listed

_MAX_SKEW_MS = 1_000
_EXPIRY_WARNING_MS = 30 * 86_400_000
# Several times transactionTimeOut and transactionCheckInterval.
_UNCHECKED_MS = 300_000


async def fetch_cluster_findings(client: Client, *, is_signed: bool, tls_verify: str | None) -> list[CheckResult]:
    """Run every check of a cluster; problems become results. `tls_verify`: None for plain connections."""
    servers = await fetch_servers(client)
    name_servers = [server for server in servers if server.broker_name is None]
    brokers = [server for server in servers if server.broker_name is not None]
    findings = [_reached(server) for server in name_servers]
    findings += _agreement(name_servers)
    hints = client.addresses.hints()
    findings += [_reached(server, hints) for server in brokers]
    answering = [
        server for server in brokers if server.probe.kind is ServerKind.BROKER and server.probe.rtt_ms is not None
    ]
    if any(server.error is None for server in name_servers) and not brokers:
        none = NoBrokerError(client.name_servers)
        findings.append(CheckResult("brokers", "cluster", Status.FAIL, none.reason, none.hint, error=none))
    findings += await _expected(client)
    findings += [
        CheckResult("broker names", failure.broker_name or "cluster", Status.FAIL, failure.error.sentence.rstrip("."),
                    failure.error.hint, error=failure.error)
        for failure in await find_duplicates(client)
    ]  # fmt: skip
    findings += _versions(brokers)
    found, held = await asyncio.gather(
        asyncio.gather(
            *(_rights(client, server, is_signed=is_signed) for server in answering),
            *(_tls(client, server, tls_verify) for server in servers if server.probe.rtt_ms is not None),
            *(_clock(client, server) for server in answering),
        ),
        asyncio.gather(*(_held_back(client, server) for server in answering if server.broker_id == MASTER_ID)),
    )
    return [*findings, *_identities(answering), *found, *(each for results in held for each in results)]


def _name(server: ClusterServer) -> str:
    if server.broker_name is None:
        return server.probe.address
    return f"{server.broker_name}/{server.broker_id} {server.probe.address}"


def _reached(server: ClusterServer, hints: Mapping[str, str] | None = None) -> CheckResult:
    check = "name server" if server.broker_name is None else "broker"
    error, probe = server.error, server.probe
    if error is not None and not isinstance(error, NotAuthorisedError):
        hint = error.hint or (hints or {}).get(probe.address)
        return CheckResult(check, _name(server), Status.FAIL, error.sentence.rstrip("."), hint, error=error)
    kind = str(probe.kind or "unknown").lower().replace("_", " ")
    found = kind if probe.version is None else f"{kind} {probe.version}"
    if probe.rtt_ms is not None:
        found += f", {probe.rtt_ms:.1f} ms"
    measured = {"kind": probe.kind, "version": probe.version, "rttMs": probe.rtt_ms}
    return CheckResult(check, _name(server), Status.OK, found, measured=measured)


def _agreement(name_servers: list[ClusterServer]) -> list[CheckResult]:
    """Compare the brokers that each name server lists. Brokers register with each name server separately."""
    views = {
        server.probe.address: {
            f"{broker.broker_name}/{broker_id} at {address}"
            for broker in server.probe.cluster.brokers
            for broker_id, address in broker.addresses.items()
        }
        for server in name_servers
        if server.probe.cluster is not None
    }
    if len(views) < 2:
        return []
    missing = differing_views(views)
    if not missing:
        return [CheckResult("name servers agree", "cluster", Status.OK, f"{len(views)} list the same brokers")]
    hint = "Check namesrvAddr of the missing brokers: brokers register with each name server separately."
    found = "; ".join(f"{address} does not list {', '.join(names)}" for address, names in missing.items())
    error = NameServersDifferError(f"{found}.", hint=hint)
    return [CheckResult("name servers agree", "cluster", Status.FAIL, found, hint, error=error)]


async def _expected(client: Client) -> list[CheckResult]:
    """Compare the registered brokers with the expected ones."""
    try:
        cluster = await fetch_expected(client)
    except RmqctlError:
        return []  # each name server has its own result
    now_ms, expectation = client.clock.now_ms(), client.expectation
    findings = [
        CheckResult("brokers", broker.broker_name, Status.FAIL, gone.reason, gone.hint, error=gone)
        for broker in cluster.brokers
        if (gone := master_missing(broker, now_ms)) is not None
    ]
    if expectation.brokers and not findings:
        count = counted(len(expectation.brokers), "broker")
        by = "the context names" if expectation.is_named else agreeing(len(expectation.brokers), "was") + " seen before"
        findings.append(CheckResult("brokers", "cluster", Status.OK, f"registered: {count} that {by}"))
    there = {broker.broker_name for broker in cluster.registered}
    for name, seen in sorted(expectation.faded.items()):
        if name not in there:
            found = f"last seen {short_time(seen.last_seen_ms, now_ms)}, no longer expected"
            findings.append(CheckResult("brokers", name, Status.OK, found))
    return findings


def _identities(brokers: list[ClusterServer]) -> Iterator[CheckResult]:
    """Yield the brokers that say they are another one: the name server or --map-address names them wrongly."""
    for server in brokers:
        name = server.probe.settings.get("brokerName")
        if name not in (None, server.broker_name):
            cluster = server.probe.settings.get("brokerClusterName", "")
            sentence = f"{server.probe.address} says that it is {name} of {cluster}"
            hint = "Check brokerIP1 and listenPort of both brokers, and --map-address."
            error = DuplicateBrokerError(f"{sentence}.", hint=hint)
            yield CheckResult("broker names", _name(server), Status.FAIL, sentence, hint, error=error)


def _versions(brokers: list[ClusterServer]) -> list[CheckResult]:
    versions = sorted({server.probe.version for server in brokers if server.probe.version is not None})
    if not versions:
        return []
    if len(versions) == 1:
        return [CheckResult("broker versions", "cluster", Status.OK, versions[0])]
    return [
        CheckResult(
            "broker versions", "cluster", Status.WARN, ", ".join(versions),
            "Brokers of different versions answer differently: some columns are unknown for some brokers.",
        )
    ]  # fmt: skip


async def _rights(client: Client, server: ClusterServer, *, is_signed: bool) -> CheckResult:
    name = _name(server)
    try:
        bad = await fetch_bad_reads(client, server.probe.address)
    except RmqctlError as error:
        return CheckResult("rights", name, Status.UNKNOWN, error.sentence.rstrip("."), error.hint)
    how = "signed" if is_signed else "not signed"
    refused, read_count, partial = bad.refused, bad.read_count, bad.lists_error
    if partial is not None and not isinstance(partial, NotAuthorisedError):
        lists = ", ".join(dict.fromkeys(part for read, _ in bad.failed for part in read.commands.split(", ")))
        found = f"{partial.sentence.rstrip('.')}; partial: {lists}"
        return CheckResult("tables", name, Status.FAIL, found, partial.hint, error=partial)
    if not refused:
        return CheckResult("rights", name, Status.OK, f"all {read_count} reads are allowed, {how}")
    codes = [read.command.code for read in refused]
    measured = {"refusedCodes": codes}
    if len(refused) == read_count:
        why = server.error or NotAuthorisedError(f"{server.probe.address} refuses every read.")
        return CheckResult("rights", name, Status.FAIL, f"all reads are refused, {how}", why.hint, measured, why)
    wanted = "; ".join(sorted({read.right for read in refused}))
    lost = ", ".join(dict.fromkeys(part for read in refused for part in read.commands.split(", ")))
    found = f"{len(refused)} of {read_count} reads are refused, {how} ({', '.join(map(str, codes))})"
    status = Status.WARN if partial is None else Status.FAIL
    hint = f"Grant: {wanted}. Topics and groups that you read need the same. Without these rights, {lost} show less."
    return CheckResult("rights", name, status, found, hint, measured, partial)


async def _held_back(client: Client, server: ClusterServer) -> list[CheckResult]:
    """Check whether a broker delivers delayed messages in time, and whether producers end their transactions."""
    name, broker = _name(server), BrokerData("", server.broker_name or "", {MASTER_ID: server.probe.address})
    try:
        held = await fetch_held_back(client, broker)
    except RmqctlError as error:
        sentence = error.sentence.rstrip(".")
        return [CheckResult(each, name, Status.UNKNOWN, sentence, error.hint) for each in ("delays", "transactions")]
    late = held.late_words()
    measured = {
        "lateLevels": {str(each.level): each.overdue_ms for each in held.late_levels},
        "timersOverdueMs": held.timers_overdue_ms,
    }
    if late:
        hint = "Check the broker's disk and its store.log."
        delays = CheckResult("delays", name, Status.WARN, f"late: {listed(late)}", hint, measured)
    else:
        delays = CheckResult("delays", name, Status.OK, "delayed messages are delivered in time", measured=measured)
    return [delays, _transactions(name, held.halves)]


def _transactions(name: str, halves: OpenHalves) -> CheckResult:
    oldest, count = halves.oldest, len(halves.checked)
    measured = {"openCount": count, "mostCount": halves.most_count, "givenUpCount": halves.given_up_count}
    found, hints = [], []
    if oldest is not None:
        found.append(
            f"at least {counted(count, 'half message')} open, the oldest of {oldest.producer_group or '-'} for "
            f"{oldest.topic}, prepared {short_duration(oldest.age_ms)} ago, checked "
            f"{counted(oldest.check_count, 'time')}"
        )
    if halves.is_piled_up and oldest is not None:
        hints.append(f"See whether a producer is connected: rmqctl topic producers {oldest.topic}")
    if halves.unchecked_ms >= _UNCHECKED_MS:
        found.append(f"half messages were not checked for {short_duration(halves.unchecked_ms)}")
        hints.append("Check the broker's transaction.log.")
    if halves.given_up_count:
        last = "" if halves.given_up_age_ms is None else f", the last {short_duration(halves.given_up_age_ms)} ago"
        found.append(f"{counted(halves.given_up_count, 'half message', 'was')} given up{last}")
        hints.append(f"They are not delivered. Read them: rmqctl message tail {GIVEN_UP_TOPIC}")
    status = Status.WARN if hints else Status.OK
    text = "; ".join(found) or "no half message was found open by a check"
    return CheckResult("transactions", name, status, text, hints[0] if hints else None, measured)


async def _tls(client: Client, server: ClusterServer, verify: str | None) -> CheckResult:
    name = _name(server)
    if verify is None:
        return CheckResult("TLS", name, Status.OK, "plain connection")
    try:
        facts = await client.tls_facts(server.probe.address)
    except RmqctlError as error:
        return CheckResult("TLS", name, Status.UNKNOWN, error.sentence.rstrip("."), error.hint)
    if facts is None:
        return CheckResult("TLS", name, Status.UNKNOWN, "the connection does not report its TLS parameters")
    found = f"{facts.protocol}, {facts.cipher}"
    measured = {"protocol": facts.protocol, "certificateExpiresAt": facts.expires_at_ms, "verify": verify}
    if verify == "none":
        found += ", any certificate is trusted"
        return CheckResult("TLS", name, Status.WARN, found, "Use --tls-verify ca, or full.", measured)
    if facts.expires_at_ms is None:
        return CheckResult("TLS", name, Status.UNKNOWN, f"{found}, certificate expiry unknown", measured=measured)
    left_ms = facts.expires_at_ms - client.clock.now_ms()
    found += f", certificate valid for {short_duration(left_ms)}"
    if left_ms < _EXPIRY_WARNING_MS:
        return CheckResult("TLS", name, Status.WARN, found, "Renew the server's certificate.", measured)
    return CheckResult("TLS", name, Status.OK, found, measured=measured)


async def _clock(client: Client, server: ClusterServer) -> CheckResult:
    name = _name(server)
    try:
        skew = await measure_clock(client, server.probe.address)
    except RmqctlError as error:
        return CheckResult("clock", name, Status.UNKNOWN, error.sentence.rstrip("."), error.hint)
    if skew is None:
        return CheckResult("clock", name, Status.UNKNOWN, "the broker does not report its time")
    found = f"{skew.middle_ms:+} ms from this machine's clock, ± {skew.error_ms} ms"
    measured = {"skewLowMs": skew.low_ms, "skewHighMs": skew.high_ms}
    is_skewed = skew.exceeds(_MAX_SKEW_MS)
    if is_skewed:
        hint = "Ages and time lags use the broker's clock; subscription versions by this clock may be ordered wrongly."
        return CheckResult("clock", name, Status.WARN, found, hint, measured)
    if is_skewed is None:
        return CheckResult("clock", name, Status.UNKNOWN, found, "The answers are too slow to decide.", measured)
    return CheckResult("clock", name, Status.OK, found, measured=measured)
