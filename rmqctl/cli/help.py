"""How help lists options, a command's own under headings, the global ones in one line; and how its examples fit."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
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
    "Limits": (
        "--max-lag --warn-lag --max-time-lag --warn-time-lag --min-members --warn-members --max-dlq-growth "
        "--warn-dlq-growth --dlq-window --fail-on --warn-severity"
    ),
    "Waiting": "--wait --stable-for",
    "Recording and metrics": "--record --record-size --record-keep --metrics --dashboard",
    "Notifications": "--notify --notify-at --quiet-for --repeat-every",
    "Group settings": "--set --retry-queues --retries --consume --broadcast --orderly --notify",
    "Group to simulate": "--spec --brokers --queues --consumers",
    "Changes to simulate": (
        "--add-clients --remove-clients --add-brokers --remove-brokers --flap --rolling --scale --broker-flap "
        "--partition --trace --down --leave --same-ids"
    ),
    "Queue allocation": (
        "--strategy --compare --virtual-nodes --room --site-of --inner --pop-share --sample --strategy-option "
        "--protect --sweep --instance"
    ),
    "Simulation": (
        "--runs --seed --sample --consume-time --commit-every --client-version --orderly --version-rule --skew"
    ),
    "Listener": (
        "--handler --exec --print --batch --workers --consume-timeout --max-reconsume-times --delay-level --ack-index"
    ),
    "Skipping": "--skip-older-than --skip-if-behind --dedup",
    "End of the run": "--until-caught-up --count --for --drain",
    "Plan and confirmation": (
        "--dry-run --plan --yes --confirm --reason --partial --expect-queues --strict --wait-stable --assume-offline "
        "--assume-same-cluster"
    ),
    "Message display": "--body --codec --max-body --limit --last",
    "Tables and results": "--tables --to --to-table --overwrite --run-id --recording --compact --html",
    "Spark": "--master --remote --conf",
}
# An option can have several meanings: the heading that suits most options of the command is used.
_HEADINGS_OF: dict[str, list[str]] = {}
for _heading, _names in _HEADINGS.items():
    for _name in _names.split():
        _HEADINGS_OF.setdefault(_name, []).append(_heading)
_GLOBALS = (
    "Global options are listed by rmqctl --help: -n, --context, -o, --columns, --where, --sort, --timeout, -q ..."
)


def option_sections(command: Any, ctx: Any, *, with_globals: bool = False) -> dict[str, list[tuple[str, str]]]:
    """Return arguments and options with their help, by heading; `with_globals` adds the global options."""
    shared = {id(param) for param in global_params()}
    params = [param for param in command.get_params(ctx) if id(param) not in shared]
    options = [param for param in params if param.param_type_name == "option"]
    possible = [_HEADINGS_OF.get(param.opts[0], [_OTHER]) for param in options]
    counts = Counter(heading for each in possible for heading in each)
    headings = [max(each, key=counts.__getitem__) for each in possible]
    sections = {"Arguments": [param for param in params if param.param_type_name == "argument"]}
    for param, heading in zip(options, headings, strict=True):
        # A heading with one option is not used: the name has another meaning in this command.
        name = "Options" if len(options) <= _FEW else heading if headings.count(heading) > 1 else _OTHER
        sections.setdefault(name, []).append(param)
    sections[_OTHER] = sections.pop(_OTHER, [])  # last
    if with_globals:
        sections["Global options"] = list(global_params())
    records = {
        name: [record for param in members if (record := param.get_help_record(ctx)) is not None]
        for name, members in sections.items()
    }
    return {name: found for name, found in records.items() if found}


def write_options(command: Any, ctx: Any, formatter: Any, *, with_globals: bool = False) -> None:
    """Write the sections; the global options are one line, or a section if `with_globals`."""
    for name, records in option_sections(command, ctx, with_globals=with_globals).items():
        with formatter.section(name):
            formatter.write_dl(records)
    if not with_globals:
        formatter.write_paragraph()
        formatter.write_text(_GLOBALS)


def fit_examples(text: str, width: int) -> str:
    """Return a help text whose examples are at most `width` letters wide and can still be pasted.

    The comment of a longer line is moved above it, and its command is continued on further lines.
    """
    start, heading, rest = text.partition("Examples:\n")
    examples, blank, end = rest.partition("\n\n")
    fitted = [line for example in examples.split("\n") for line in _fit_example(example, width)]
    return "".join((start, heading, "\n".join(fitted), blank, end))


def _fit_example(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    command, *comment = re.split(r"\s{2,}# ", line, maxsplit=1)
    above = f"{indent}# "
    lines = textwrap.wrap("".join(comment), width, initial_indent=above, subsequent_indent=above)
    while len(command) > width:
        # The last blank outside of quotes that leaves room for a backslash.
        blanks = [
            found.start() for found in re.finditer(r"'[^']*'|\"[^\"]*\"|(?<=\S) ", command) if found.group() == " "
        ]
        at = max((blank for blank in blanks if blank <= width - 2), default=None)
        if at is None:
            break
        lines.append(f"{command[:at]} \\")
        command = f"{indent}    {command[at + 1 :].lstrip()}"
    return [*lines, command]
