"""Values that programs pass to the library, checked when they are passed and not where they are used."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rmqctl.errors import UsageError

YEAR_S = 366 * 86_400.0
Seconds = Annotated[float, Meta(ge=0, le=YEAR_S)]
Count = Annotated[int, Meta(ge=1)]
# To the end of the year 9999.
EpochMs = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
# Offsets and ids that brokers read as a long or an int.
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


def checked(name: str, value: object, kind: Any) -> Any:
    """Return a value as `kind`, an annotation that msgspec knows. Raises UsageError for another type or range.

    The error also names the field or the element that is wrong.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$")
        what = " ".join(filter(None, (name, where.strip(".`"))))
        raise UsageError(f"Invalid {what}: {reason[:1].lower()}{reason[1:]}.") from None
