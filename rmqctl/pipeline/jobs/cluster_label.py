"""Labels of clusters: they separate clusters in one folder of tables, whose groups and brokers can have equal names."""

from __future__ import annotations

from urllib.parse import urlsplit

from rmqctl.errors import UsageError
from rmqctl.net.address import canonical_address, parse_name_servers

_MOST_LENGTH = 200


def check_label(label: str) -> None:
    """Raise UsageError for a label that tables and reports cannot show."""
    if not label.strip() or label != label.strip() or not label.isprintable() or len(label) > _MOST_LENGTH:
        raise UsageError(
            f"Invalid --cluster-label {label!r}.",
            hint=f"Use 1 to {_MOST_LENGTH} printable characters, without blanks at the ends, for example production.",
        )


def label_of(given: str | None, name_servers: str | None) -> str:
    """Return the label of the cluster whose rows are written. Raises UsageError when nothing names it."""
    if given is not None:
        return given
    if name_servers is None:
        raise UsageError(
            "It is unknown which cluster this is.", hint="Add --cluster-label NAME, or -n with its name servers."
        )
    return default_label(name_servers)


def default_label(name_servers: str) -> str:
    """Return the label of a cluster by its name servers as given: in order, or the URL without its password."""
    if "://" in name_servers:
        url = urlsplit(name_servers.strip())
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
    return ";".join(sorted({canonical_address(each) for each in parse_name_servers(name_servers)}))
