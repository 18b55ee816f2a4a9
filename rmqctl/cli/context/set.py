"""rmqctl context set: create or change a context."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.text import printable, to_stderr

HELP = """\b
Examples:
  rmqctl context set prod namesrv='10.0.0.1:9876;10.0.0.2:9876' timeout=20s protected=true
  rmqctl context set prod credentials=prod.credentials tls.ca=ca.pem
  rmqctl context set dev namesrv=127.0.0.1:9876 map-address.broker-a=127.0.0.1:10911
  rmqctl context set prod timeout= tls=false

\b
Settings:
  namesrv=HOST:PORT[;HOST:PORT] or a URL   namespace=NS       description=TEXT
  credentials=FILE                         timeout=10s        output=FORMAT
  header=JSON|ROCKETMQ                     readonly=true      protected=true
  brokers=NAME,NAME                        memory=24h
  proxies=HOST:PORT,HOST:PORT              map-address.BROKER=HOST:PORT
  tls=true|false                           tls.verify=full|ca|none
  tls.ca=FILE                              tls.cert=FILE      tls.key=FILE

brokers lists the brokers that the cluster must have; commands report one that is not registered. Without it, rmqctl
expects the brokers that it saw within memory (24h; 0 expects none). proxies lists the remoting addresses of 5.x
proxies, which diagnose asks for members that no broker sees.

The first context becomes the current one. An empty value removes a setting. File names are relative to the folder of
the configuration file. Secrets cannot be set: accessKey and secretKey belong in the credentials file. Comments in the
configuration file are kept."""


def command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Context to create or change.", show_default=False)],
    settings: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="Settings to write.", show_default=False)
    ],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.config.edit import change_config
    from rmqctl.errors import UsageError

    from .settings import parse_setting

    invocation = Invocation(ctx, needs_cluster=False)
    if not name.strip() or not name.isprintable():
        raise UsageError(f"Invalid context name {name!r}.")
    parsed = [parse_setting(text) for text in settings]
    is_new = is_first = False

    def change(document: Any) -> None:
        nonlocal is_new, is_first
        import tomlkit

        contexts = document.setdefault("contexts", tomlkit.table(is_super_table=True))
        is_new, is_first = name not in contexts, not contexts and "current-context" not in document
        if is_first:
            document["current-context"] = name
        if is_new:
            contexts[name] = tomlkit.table()
        for setting in parsed:
            setting.apply(contexts[name])

    path = change_config(change)
    if invocation.display.with_notes:
        made = f"Created context {name} in {path}." if is_new else f"Changed context {name} in {path}."
        to_stderr(printable(f"{made} It is the current context." if is_first else made))
    return 0
