"""Every error that rmqctl raises on purpose, with its exit code; any other exception is reported as a bug.

RmqctlError                 1  something failed
├── UsageError              2  the arguments or the configuration are invalid
│   └── UnmatchedMapError   2  --map-address names an address that no broker has registered
├── DeclinedError           3  the user declined the confirmation
├── NotAuthorisedError      4  the cluster rejected the credentials, or a permission is missing
├── NotFoundError           5  the group, topic, broker or code does not exist
├── UnreachableError        6  no server answered: refused, reset, unresolvable
│   ├── DeadlineError       6  no answer in time
│   │   └── CutShortError   6  the command's own deadline left little of that time
│   ├── NotRegisteredError  6  an expected broker is not registered
│   ├── NoBrokerError       6  the name servers list no brokers
│   └── NotAskedError       6  the command's own deadline expired before the request was sent
├── ProtocolError           1
│   ├── LocalProtocolError  1  rmqctl was about to send something that the protocol forbids
│   └── RemoteProtocolError 1  the peer sent something that the protocol forbids
├── BrokerError             1  the peer answered with an error code (code, remark, address)
├── NameServersDifferError  1  a name server omits something that another one lists
├── DuplicateBrokerError    1  several brokers use one name, or several names one address
├── RefusedError            1  the state of the group does not allow the change
├── StaleError              7  the cluster has changed since the plan was made
├── UnsupportedError        1  this operating system lacks a required feature
├── AlreadyRunningError     1  another sandbox uses the port
├── BusyError               1  another process is changing the same thing
├── PluginError             1  a plugin cannot be loaded, or its code failed
└── BugError                1  any other exception

Two exit codes have no exception. 8 (some brokers answered, some did not) is a property of a result. 130 is the shell's
code for Ctrl-C.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

# A remark can be megabytes long. Anything longer than this is a stack trace, whose beginning names the exception.
_REMARK_LENGTH = 300


def shortened(remark: str) -> str:
    """Return at most the first 300 characters of a peer's remark, so that it fits in a sentence."""
    return remark if len(remark) <= _REMARK_LENGTH else f"{remark[:_REMARK_LENGTH]}..."


class RmqctlError(Exception):
    """The base class: one sentence for the operator, and a hint on what to do next.

    `name` is the short upper-case name that scripts can match in JSON output.
    """

    exit_code: ClassVar[int] = 1
    name: str = "FAILED"

    def __init__(self, sentence: str, *, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint

    def reworded(self, sentence: str, *, hint: str | None = None) -> Self:
        """Return a copy with another sentence. Requests can share one error, so it is never changed in place."""
        copy = type(self).__new__(type(self), sentence)
        copy.__dict__.update(self.__dict__, sentence=sentence, hint=self.hint if hint is None else hint)
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the attributes: the arguments of __init__ differ from the text that Exception keeps."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[RmqctlError], args: tuple[Any, ...], attributes: dict[str, Any]) -> RmqctlError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class UsageError(RmqctlError):
    """The arguments or the configuration are invalid."""

    exit_code = 2
    name = "USAGE"


class UnmatchedMapError(UsageError):
    """An address map names an address that no broker has registered."""


class DeclinedError(RmqctlError):
    """The user declined the confirmation, so nothing was changed."""

    exit_code = 3
    name = "DECLINED"


class NotAuthorisedError(RmqctlError):
    """The cluster rejected the credentials, or they lack the permission that the request needs: `right`, if known."""

    exit_code = 4
    name = "NOT_AUTHORISED"

    def __init__(self, sentence: str, *, hint: str | None = None, right: str | None = None) -> None:
        super().__init__(sentence, hint=hint)
        self.right = right


class NotFoundError(RmqctlError):
    """The requested thing does not exist; `suggestions` are existing names that are similar."""

    exit_code = 5
    name = "NOT_FOUND"

    def __init__(self, kind: str, wanted: str, *, suggestions: tuple[str, ...] = (), hint: str | None = None) -> None:
        if suggestions and hint is None:
            hint = f"Did you mean {' or '.join(suggestions)}?"
        super().__init__(f"{kind} {wanted} does not exist.", hint=hint)
        self.kind = kind
        self.wanted = wanted
        self.suggestions = suggestions


class UnreachableError(RmqctlError):
    """No server answered at `address`; `reason` is the operating system's, in plain words."""

    exit_code = 6
    name = "UNREACHABLE"

    def __init__(self, address: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"{address}: {reason}.", hint=hint)
        self.address = address
        self.reason = reason


class DeadlineError(UnreachableError):
    """No answer arrived from `address` within the time that was left."""

    name = "TIMED_OUT"

    def __init__(self, address: str, waited_s: float, *, hint: str | None = None) -> None:
        super().__init__(address, f"no answer within {waited_s:.1f} s", hint=hint)
        self.waited_s = waited_s


class CutShortError(DeadlineError):
    """The command's own deadline left less than half of the usual time to answer. The server may not be at fault."""

    def __init__(self, address: str, waited_s: float, deadline_s: float) -> None:
        super().__init__(address, waited_s, hint="Give the command more time with --timeout.")
        self.reason = f"no answer in the {waited_s:.1f} s that the command's deadline of {deadline_s:g} s left"
        self.sentence = f"{address}: {self.reason}."
        self.args = (self.sentence,)


class NotRegisteredError(UnreachableError):
    """An expected broker is not registered with any name server; `last_seen_ms`: None if it was never seen."""

    name = "NOT_REGISTERED"

    def __init__(self, broker_name: str, reason: str, last_seen_ms: int | None, *, hint: str | None = None) -> None:
        hint = hint or f"If it was removed permanently: rmqctl doctor --forget-broker {broker_name}"
        super().__init__(broker_name, reason, hint=hint)
        self.last_seen_ms = last_seen_ms


class NoBrokerError(UnreachableError):
    """The name servers list no brokers."""

    name = "NO_BROKER"

    def __init__(self, name_servers: tuple[str, ...], before: str = "") -> None:
        """Create the error; `before` is a sentence about brokers that were registered earlier."""
        hint = "Brokers register every 30 s: wait, start one, or check its namesrvAddr."
        super().__init__(name_servers[0], "no broker is registered", hint=hint)
        where = f"name server{'s' if len(name_servers) > 1 else ''} {', '.join(name_servers)}"
        self.sentence = f"No broker has registered with {where} (yet). {before}".rstrip()
        self.args = (self.sentence,)


class NotAskedError(UnreachableError):
    """The request to `address` was never sent: the command's own deadline had expired. The server is not at fault."""

    name = "NOT_ASKED"

    def __init__(self, address: str, deadline_s: float) -> None:
        reason = f"not asked: the command's deadline of {round(deadline_s, 3):g} s was over"
        super().__init__(address, reason, hint="Give the command more time with --timeout.")
        self.deadline_s = deadline_s


# The peer did not fail to answer: the command had no time left to ask.
OUT_OF_TIME = (NotAskedError, CutShortError)


class ProtocolError(RmqctlError):
    """The remoting protocol was broken."""

    name = "PROTOCOL"


class LocalProtocolError(ProtocolError):
    """rmqctl was about to send something that the protocol forbids."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol forbids."""


class BrokerError(RmqctlError):
    """The peer at `address` answered with an error code; `code_name` is RocketMQ's name for it."""

    def __init__(self, address: str, code: int, code_name: str, remark: str | None, *, hint: str | None = None) -> None:
        words = shortened(" ".join(remark.split())) if remark else ""  # 5.x ends some with a line that names a web page
        says = f": {words}" if words else ""
        super().__init__(f"{address} answered {code_name} ({code}){says}", hint=hint)
        self.address = address
        self.code = code
        self.name = code_name
        self.remark = remark


class NameServersDifferError(RmqctlError):
    """A name server omits something that another one lists."""

    name = "NAME_SERVERS_DIFFER"


class DuplicateBrokerError(RmqctlError):
    """Several brokers use one name, or several names share one address: an answer may be from the wrong broker."""

    name = "DUPLICATE_BROKER"


class RefusedError(RmqctlError):
    """The current state does not allow the change, so nothing was changed."""

    name = "REFUSED"


class StaleError(RmqctlError):
    """The cluster has changed since the plan was made, so nothing was changed."""

    exit_code = 7
    name = "STALE"


class UnsupportedError(RmqctlError):
    """The operating system that rmqctl runs on lacks a required feature, so nothing was done."""

    name = "UNSUPPORTED"


class AlreadyRunningError(RmqctlError):
    """Another sandbox of this user already uses the port."""

    name = "ALREADY_RUNNING"


class BusyError(RmqctlError):
    """Another process is changing the same thing, so nothing was changed."""

    name = "BUSY"


class BugError(RmqctlError):
    """An unexpected exception: a bug in rmqctl. Created only in rmqctl.cli.unexpected_errors."""

    name = "BUG"

    def __init__(self, error: BaseException) -> None:
        says = " ".join(str(error).split())
        sentence = f"rmqctl has a bug: {type(error).__name__}{f': {says}' if says else ''}."
        super().__init__(sentence, hint="Run the command again with --debug and report its output.")


class PluginError(RmqctlError):
    """A plugin, or something that it provides, failed."""

    name = "PLUGIN"
