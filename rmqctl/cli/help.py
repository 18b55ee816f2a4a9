"""How help shows options: a command's own under headings, those of every command in one line."""

from __future__ import annotations

from typing import Any

from .globals import global_params

# A command with at most this many options, --help among them, shows them in one list.
_FEW = 9
_OTHER = "Other options"

_HEADINGS = {
    "Target": (
        "--to-time --by-duration --to-earliest --to-latest --to-offset --shift-by --to-current --to-group --from-file "
        "--to-origin --to-topic"
    ),
    "Scope and filters": (
        "--topic --all-topics --queue --broker --group --client --since --until --key --id --tag --sql "
        "--property --contains --body-match --older-than --severity --only --all --with-retry"
    ),
    "Group settings": "--set --retry-queues --retries --consume --broadcast --orderly --notify",
    "The group": "--spec --brokers --queues --consumers",
    "Changes to simulate": (
        "--add-clients --remove-clients --add-brokers --remove-brokers --every --down --times --same-ids"
    ),
    "Sharing of queues": (
        "--strategy --compare --virtual-nodes --room --site-of --inner --pop-share --sample --strategy-option "
        "--protect --protection --instance"
    ),
    "Listener": "--handler --exec --print --batch --workers --consume-timeout --max-reconsume-times",
    "Plan and confirmation": (
        "--dry-run --plan --yes --confirm --reason --partial --expect-queues --strict --wait-stable --assume-offline "
        "--assume-same-cluster"
    ),
    "Messages shown": "--body --codec --max-body --limit --last",
    "Tables and results": "--tables --to --to-table --overwrite --run-id --recording --compact --html",
    "Where Spark runs": "--master --remote --conf",
}
_HEADING_OF = {name: heading for heading, names in _HEADINGS.items() for name in names.split()}
_EVERY = (
    "rmqctl --help lists the options of every command: -n, --context, -o, --columns, --where, --sort, --timeout, -q ..."
)


def option_sections(command: Any, ctx: Any, *, with_globals: bool = False) -> dict[str, list[tuple[str, str]]]:
    """Return arguments and options, each with its help, by heading; the options of every command `with_globals`."""
    shared = {id(param) for param in global_params()}
    params = [param for param in command.get_params(ctx) if id(param) not in shared]
    options = [param for param in params if param.param_type_name == "option"]
    headings = [_HEADING_OF.get(param.opts[0], _OTHER) for param in options]
    sections = {"Arguments": [param for param in params if param.param_type_name == "argument"]}
    for param, heading in zip(options, headings, strict=True):
        # A single option needs no heading: its name means something else in this command.
        name = "Options" if len(options) <= _FEW else heading if headings.count(heading) > 1 else _OTHER
        sections.setdefault(name, []).append(param)
    sections[_OTHER] = sections.pop(_OTHER, [])  # last
    if with_globals:
        sections["Options of every command"] = list(global_params())
    records = {
        name: [record for param in members if (record := param.get_help_record(ctx)) is not None]
        for name, members in sections.items()
    }
    return {name: found for name, found in records.items() if found}


def write_options(command: Any, ctx: Any, formatter: Any, *, with_globals: bool = False) -> None:
    """Write the sections; those of every command are one line, or all of them `with_globals`."""
    for name, records in option_sections(command, ctx, with_globals=with_globals).items():
        with formatter.section(name):
            formatter.write_dl(records)
    if not with_globals:
        formatter.write_paragraph()
        formatter.write_text(_EVERY)
