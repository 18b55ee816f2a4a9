"""Renders a template into a page that loads no external resources."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time
from rmqctl.text.words import counted


def render_template(name: str, values: object, clean: Callable[[str], str] = str) -> str:
    """Render the template at this path in the package; it extends page/base.html and sees `values` as `view`.

    Text is escaped unless it is Markup; `clean` is applied to each text before that.
    """
    # Imported here, so that only commands that render a page pay for it.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    root = files("rmqctl")  # can be inside an archive
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
        loader=FunctionLoader(lambda path: root.joinpath(path).read_text(encoding="utf-8")),
    )
    environment.filters |= {"counted": counted, "duration": short_duration, "iso_time": iso_time}
    return environment.get_template(name).render(view=values)
