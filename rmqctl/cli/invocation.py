"""One run of a command: its settings, and its requests to the cluster."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from rmqctl.cli.config.file import ContextConfig, read_context
from rmqctl.errors import NotFoundError, RefusedError, UnreachableError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.names import with_namespace
from rmqctl.model.tls import TLS_KEYS, TLS_VERIFICATIONS
from rmqctl.text.durations import parse_duration_ms
from rmqctl.text.filters import Condition, parse_condition
from rmqctl.text.names import hint_for, one_of
from rmqctl.text.option_errors import option_errors

from .globals import FORMATS, TABLE_FORMATS, RunState, given_globals
from .output.display import Display

if TYPE_CHECKING:
    from rmqctl.client.access import Access
    from rmqctl.client.core import Client
    from rmqctl.model.cluster_memory import Expectation

HEADER_ENCODINGS = ("JSON", "ROCKETMQ")
_T = TypeVar("_T")
_DEFAULT_TIMEOUT_MS = 10_000
# How often a command that runs until it is stopped writes and reads the cluster memory.
_MEMORY_EVERY_S = 60.0
# Options that apply to every cluster.
_OF_ANY_CLUSTER = ("timeout", "debug")


class Invocation:
    """The global options of this run, with the context and the environment behind them."""

    def __init__(self, ctx: Any, *, needs_cluster: bool = True, own_formats: Sequence[str] = ()) -> None:
        """Resolve the settings. `own_formats` are formats that only this command has, its default first."""
        self._given = given_globals(ctx)
        self._own_formats = tuple(own_formats)
        self._context: ContextConfig | None = None
        self._is_context_named = False
        self._proxies: list[str] = []
        # Problems of the cluster memory.
        self.memory_problems: tuple[str, ...] = ()
        self._reported: set[str] = set()
        if needs_cluster:
            self._context = self._read_context()
        self.display = self._display()
        if isinstance(state := ctx.find_root().obj, RunState):
            state.findings = self.display.findings
            # The format may be a context's; errors in the command line are reported before this.
            state.as_json = state.as_json or self.display.format in ("json", "jsonl")

    def _read_context(self) -> ContextConfig | None:
        """Read the named context, or the current one unless -n or the environment overrides it."""
        wanted = self._given.get("context")
        if wanted is None and "namesrv" not in self._given:
            wanted = os.environ.get("RMQCTL_CONTEXT") or None
        self._is_context_named = wanted is not None
        if wanted is None and ("namesrv" in self._given or os.environ.get("NAMESRV_ADDR")):
            return None
        return read_context(wanted)

    def _setting(self, name: str) -> str | None:
        """Return the value of an option, else the context's. An empty value (an unset variable) stays empty."""
        given: str | None = self._given.get(name)
        return given if given is not None else getattr(self._context, name, None)

    def _display(self) -> Display:
        output = self._setting("output")
        formats = (*self._own_formats, *FORMATS)
        output = formats[0] if output is None else output
        if output not in formats:
            hint = hint_for(output, formats)
            raise UsageError(f"Invalid output format {output!r}.", hint=hint)
        return Display(
            format=output,
            columns=self._list("columns"),
            with_headers="no_headers" not in self._given,
            with_notes="quiet" not in self._given,
            with_color="no_color" not in self._given,
            with_local_times="local" in self._given and output in TABLE_FORMATS,
            conditions=self._conditions(),
            sort_keys=self._list("sort"),
        )

    def _list(self, name: str) -> tuple[str, ...]:
        """Return the words of an option with several values, split at commas."""
        words = tuple(part.strip() for part in self._given.get(name, "").split(",") if part.strip())
        if name in self._given and not words:
            raise UsageError(f"--{name} requires at least one column.")
        return words

    def _conditions(self) -> tuple[Condition, ...]:
        # Without quotes the shell treats < and > as redirections.
        with option_errors("--where", hint="Quote the condition: --where 'lag>0'."):
            return tuple(parse_condition(text) for text in self._given.get("where", ()))

    @property
    def timeout_ms(self) -> int:
        """The deadline of the whole command."""
        text = self._setting("timeout")
        if text is None:
            return _DEFAULT_TIMEOUT_MS
        where = "--timeout" if "timeout" in self._given or self._context is None else f"Context {self._context.name}"
        with option_errors(where):
            timeout_ms = parse_duration_ms(text)
        if timeout_ms == 0:
            raise UsageError(f"{where}: the timeout must be above 0.")
        return timeout_ms

    def timeout_s(self, default_s: float) -> float:
        """Return the deadline in s, for a command with its own default."""
        return default_s if self._setting("timeout") is None else self.timeout_ms / 1000

    def name_servers(self) -> str:
        """Return the name servers to ask, as text. Raises UsageError if none is given."""
        text = self._setting("namesrv")
        if text is None and self._context is not None and self._is_context_named:
            # Falling back on NAMESRV_ADDR would show another cluster, signed with this context's credentials.
            raise UsageError(
                f"Context {self._context.name} has no name server.",
                hint=f"rmqctl context set {self._context.name} namesrv=HOST:9876",
            )
        if text is None:
            text = os.environ.get("NAMESRV_ADDR")
        if not text:
            raise UsageError(
                "No name server is given.",
                hint="Use -n HOST:9876, the variable NAMESRV_ADDR, or a context of the configuration file.",
            )
        return text

    def full_name(self, name: str) -> str:
        """Return a group's or topic's name with the namespace of this run (NamespaceUtil.wrapNamespace)."""
        namespace = self._setting("namespace")
        return name if not namespace else with_namespace(namespace, name)

    @property
    def is_debugging(self) -> bool:
        """Whether --debug was given."""
        return "debug" in self._given

    @property
    def context_name(self) -> str | None:
        """The context that this run uses, None without one."""
        return None if self._context is None else self._context.name

    @property
    def may_ask(self) -> bool:
        """Whether the user may be prompted on a terminal: not with --no-input."""
        return "no_input" not in self._given

    @property
    def is_protected(self) -> bool:
        """Whether the name of what is changed must be typed."""
        return self._context is not None and self._context.protected

    def require_writable(self) -> None:
        """Raise RefusedError in a readonly context."""
        if self._context is not None and self._context.readonly:
            raise RefusedError(
                f"Context {self._context.name} is readonly: changes are refused.",
                hint=f"rmqctl context set {self._context.name} readonly=false",
            )

    def remember(self, kind: str, names: Iterable[str], *, is_whole: bool = True) -> None:
        """Save names that the cluster returned, for completion; see names_cache."""
        from .names_cache import remember_names

        remember_names(self.name_servers(), kind, names, is_whole=is_whole)

    def ask(
        self,
        question: Callable[[Any], Awaitable[_T]],
        *,
        open_ended: bool = False,
        is_service: bool = False,
        has_screen: bool = False,
        waiting: str = "Querying the cluster",
        attempt_access: Access | None = None,
    ) -> _T:
        """Run a question with a new client of the cluster, and return its answer.

        `open_ended`: no deadline for the whole, unless --timeout is given; each request still has one. `is_service`:
        runs until it is stopped; --timeout limits its requests only, as that of `attempt_access` does. `has_screen`:
        warnings wait until it ends. `waiting` is shown on a terminal while nothing else is.
        """
        access = attempt_access or self.access()
        open_ended = is_service or attempt_access is not None or (open_ended and "timeout" not in self._given)
        import asyncio

        async def run() -> _T:
            async with await access.connect(open_ended=open_ended, expect=self._expect) as client:
                keeping = asyncio.create_task(self._keep_memory(client, has_screen)) if is_service else None
                try:
                    return await self._ask(client, question, is_service=is_service)
                except NotFoundError as error:
                    self.display.findings.add(await find_duplicates(client))
                    raise with_duplicates(self.display.findings.failures, error) from None
                except UnreachableError as error:
                    raise error.reworded(error.sentence, hint=client.addresses.hints().get(error.address)) from error
                finally:
                    if keeping is not None:
                        keeping.cancel()
                    self._note_sightings(client)
                    if is_service:
                        self._report_warnings(client)

        from rmqctl.changes.journal import cluster_memory  # noqa: F401 -- later, there may be no file left to import it
        from rmqctl.cli.output.activity_line import ActivityLine
        from rmqctl.client.duplicates import find_duplicates, with_duplicates
        from rmqctl.net.file_limit import require_files

        # Otherwise asyncio would report its half-created event loop in its own words.
        require_files()
        with ActivityLine(waiting, is_wanted=bool(waiting) and self.display.with_notes and not is_service):
            return asyncio.run(run())

    async def _ask(self, client: Client, question: Callable[[Any], Awaitable[_T]], *, is_service: bool) -> _T:
        await self._check_map(client)
        if is_service:
            self._report_warnings(client)
        answer = await question(client)
        if not is_service:
            await self._note_name_servers(client)
        return answer

    async def _keep_memory(self, client: Client, has_screen: bool) -> None:
        """Write what a long-running command sees to the cluster memory, and read what others saw or forgot."""
        from rmqctl.net.clock import pause

        while True:
            await pause(client.clock, _MEMORY_EVERY_S)
            self._note_sightings(client)
            client.expectation = self._expect(client.name_servers)
            if not has_screen:
                self._report_warnings(client)

    def _note_sightings(self, client: Client) -> None:
        from rmqctl.changes.journal.cluster_memory import note_sightings

        if self.memory_ms():
            now_ms = client.clock.now_ms()
            self._note_memory(note_sightings(client.name_servers, client.sightings, now_ms))

    def _report_warnings(self, client: Client) -> None:
        """Print the findings of a command that has no result to print them with, each once."""
        from rmqctl.cli.output.text import note_to_stderr, printable
        from rmqctl.client.partial_answers import silence_words

        self.display.findings.warn(silence_words(client))
        for warning in self.display.findings.as_warnings().warnings:
            if warning not in self._reported:
                self._reported.add(warning)
                note_to_stderr(f"rmqctl: {printable(warning)}")

    def _expect(self, name_servers: Sequence[str]) -> Expectation:
        """Return what the cluster should have, according to the context and the cluster memory."""
        import time

        from rmqctl.changes.journal.cluster_memory import read_expectation

        now_ms, counts_ms = time.time_ns() // 1_000_000, self.memory_ms()
        expectation, problems = read_expectation(name_servers, now_ms, counts_ms, named=self.expected_brokers())
        self._note_memory(problems)
        return expectation

    def _note_memory(self, problems: Sequence[str]) -> None:
        self.memory_problems = tuple(dict.fromkeys((*self.memory_problems, *problems)))
        self.display.findings.warn(problems)

    def expected_brokers(self) -> tuple[str, ...]:
        """Return the brokers that the context lists."""
        text = "" if self._context is None else self._context.brokers or ""
        return tuple(name for part in text.split(",") if (name := part.strip()))

    def proxies(self, given: Sequence[str]) -> list[str]:
        """Return the remoting addresses of the given proxies, else of the context's. Raises UsageError."""
        from rmqctl.net.address import format_address, parse_address

        text = "" if self._context is None else self._context.proxies or ""
        named = given or [part for part in text.split(",") if part.strip()]
        self._proxies = [format_address(*parse_address(address.strip())) for address in named]
        return self._proxies

    def memory_ms(self) -> int:
        """Return how long a broker is expected after it was seen, in ms. Raises UsageError."""
        from rmqctl.changes.journal.cluster_memory import DEFAULT_COUNTS_MS, memory_of_environment_ms

        if self._context is None or self._context.memory is None:
            return memory_of_environment_ms()
        with option_errors(f"memory of context {self._context.name}"):
            return parse_duration_ms(self._context.memory) if self._context.memory else DEFAULT_COUNTS_MS

    async def _check_map(self, client: Client) -> None:
        """Check that a broker is registered for every mapped address.

        Raises UnmatchedMapError for --map-address. An unmatched entry of a context makes the result partial instead:
        otherwise nothing could be asked while that broker is down. So does --map-address while a name server is silent.
        """
        if not client.addresses.mapped:
            return
        from rmqctl.client.partial_answers import find_unmatched
        from rmqctl.client.rules.address_map import unmatched_error

        unmatched, cluster = await find_unmatched(client, self._proxies or self.proxies(()))
        given = self._mapped_by_options()
        for key in unmatched:
            if key in given and not client.name_server_views.silent:
                raise unmatched_error(key, "--map-address", cluster)
            where = "--map-address" if key in given else f"map-address of context {self.context_name}"
            self.display.findings.add([Failure(None, where, unmatched_error(key, "It", cluster))])

    async def _note_name_servers(self, client: Client) -> None:
        """Record what makes every result of this run partial, and what the user must know."""
        from rmqctl.client.partial_answers import find_partial, silence_words

        findings = self.display.findings
        findings.hints = {**findings.hints, **client.addresses.hints()}
        findings.add(await find_partial(client))
        findings.warn(silence_words(client))

    def of(self, context: ContextConfig) -> Invocation:
        """Return the same run for another context's cluster, without the options that belong to one cluster."""
        other = copy(self)
        other._context, other._is_context_named = context, True  # noqa: SLF001 -- the same class
        other._given = {name: value for name, value in self._given.items() if name in _OF_ANY_CLUSTER}  # noqa: SLF001
        return other

    def access(self) -> Access:
        """Return how to reach the cluster. Raises UsageError for settings and files that cannot be used."""
        from rmqctl.client.access import Access
        from rmqctl.client.secrets import private_key_file

        from .exposed_files import warn_of_exposed

        context = self._context
        name_servers, timeout_ms = self.name_servers(), self.timeout_ms
        credentials_path = self._given.get("credentials")
        if credentials_path is None and context is not None:
            credentials_path = context.path(context.credentials)
        tls = self._tls()
        warn_of_exposed((credentials_path, private_key_file(tls)), self._reported)
        return Access(
            name_servers,
            timeout_ms / 1000,
            credentials_path=credentials_path,
            tls=tls,
            address_map=self._address_map(),
            header=self._header(),
        )

    def _tls(self) -> Mapping[str, str] | None:
        """Return the TLS settings by their names in the configuration file, None for plain connections."""
        context = self._context
        settings: dict[str, str] | None = None
        if context is not None and context.tls is not None:
            files = {key: context.path(name) or "" for key, name in context.tls.items() if key != "verify"}
            settings = {**context.tls, **files}
        given = {key: self._given[f"tls_{key}"] for key in TLS_KEYS if f"tls_{key}" in self._given}
        if given or "tls" in self._given:
            settings = {**(settings or {}), **given}
        if settings is not None and settings.get("verify", "full") not in TLS_VERIFICATIONS:
            raise UsageError(
                f"Invalid TLS verification {settings['verify']!r}.",
                hint=one_of(TLS_VERIFICATIONS),
            )
        return settings

    def _address_map(self) -> dict[str, str]:
        mapped = self._context.map_address if self._context is not None else {}
        return {**mapped, **self._mapped_by_options()}

    def _mapped_by_options(self) -> dict[str, str]:
        mapped = {}
        for pair in self._given.get("map_address", ()):
            broker, separator, address = pair.partition("=")
            if not separator or not broker.strip():
                raise UsageError(
                    f"--map-address expects BROKER=HOST:PORT, not {pair!r}.",
                    hint="BROKER is a broker's name, NAME/ID of a slave, or the registered address.",
                )
            mapped[broker.strip()] = address.strip()
        return mapped

    def _header(self) -> str:
        text = getattr(self._context, "header", None) or os.environ.get("ROCKETMQ_SERIALIZE_TYPE") or "JSON"
        if text.upper() not in HEADER_ENCODINGS:
            raise UsageError(f"Invalid header encoding {text!r}.", hint=one_of(HEADER_ENCODINGS))
        return text.upper()
