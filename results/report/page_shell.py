"""The shell of every page: one HTML file that needs no network, with plotly.js, styles and scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from results.report.html import Markup, joined

NOTHING = Markup("")


def page_shell(
    product: str,
    title: str,
    main: Markup,
    *,
    introduction: Markup = NOTHING,
    scripts: Sequence[str] = ("report.js",),
    connects: bool = False,
) -> str:
    """A whole page: the name of the ``product`` and the ``title``, an ``introduction`` below them, ``main``.

    ``scripts``: files beside this module, run in their order. ``connects``: whether they may ask the server
    that the page came from; else the page loads nothing at all.
    """
    from plotly.offline import get_plotlyjs

    return Template(_asset("page_shell.html")).substitute(
        product=escape(product),
        title=escape(title),
        introduction=introduction,
        main=main,
        connect="connect-src 'self'; " if connects else "",
        style=_asset("report.css"),
        plotly=get_plotlyjs(),
        scripts=joined(Markup(f"<script>\n{_asset(name)}\n</script>") for name in scripts),
    )


def _asset(name: str) -> str:
    return (files("results.report") / name).read_text(encoding="utf-8")
