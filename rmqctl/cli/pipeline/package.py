"""rmqctl pipeline package: rmqctl as files for a Spark cluster."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.errors import RmqctlError

HELP = """\b
Examples:
  rmqctl pipeline package /tmp/job
  cd /tmp/job && spark-submit --master yarn --py-files rmqctl.zip rmqctl_submit.py \\
    -n 10.0.0.5:9876 pipeline run snapshot lag --tables hdfs:///rocketmq

rmqctl.zip contains rmqctl for the executors; rmqctl_submit.py starts the command line in the driver. The Python of the
driver and of each executor needs the libraries of rmqctl[spark]: parts of them are in C, which a zip cannot provide."""

_COLUMNS = (Column("FILE", "path"), Column("BYTES", "sizeBytes", is_number=True))


def command(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder to write the files to.", show_default=False)],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from pathlib import Path

    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.pipeline.package import write_package

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(_COLUMNS, invocation.display)
    try:
        paths = write_package(Path(folder))
    except OSError as error:
        raise RmqctlError(f"Cannot write {folder}: {error.strerror}.") from None
    listing = Listing(
        kind="PipelinePackage",
        columns=_COLUMNS,
        items=[{"path": str(path), "sizeBytes": path.stat().st_size} for path in paths],
        name=lambda item: str(item["path"]),
    )
    return render(listing, invocation.display)
