"""Renders a template into a page that loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files


def render_template(name: str, values: object, clean: Callable[[str], str] = str) -> str:
    """Return the page of a template, by its path in rmqctl; it extends page/base.html and sees `values` as `view`.

    Text is escaped unless it is Markup; `clean` is applied to each text before that.
    """
    # Imported here, so that commands that make no page do not pay for it.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    root = files("rmqctl")  # which may be in an archive
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
        loader=FunctionLoader(lambda path: root.joinpath(path).read_text(encoding="utf-8")),
    )
    return environment.get_template(name).render(view=values)
