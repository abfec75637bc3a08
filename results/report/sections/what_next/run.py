"""The run at a glance, and where its numbers come from."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from results.report.data import RunData
from results.report.html import Markup, ReportSection, element, joined, paragraph
from results.units import NOTHING, percent, seconds


def headline(run: RunData) -> Markup:
    """Counts of designs and solves, the fraction answered from the store, CPU time; then warnings."""
    solves, cached, spent = run.ended.solves, run.ended.cached, run.ended.spent_seconds
    failed = run.ended.statuses.get("failed", 0)
    needed = int(np.nansum(run.numbers("solves")))
    judged = "that meet the constraints" if run.left_out else "complete"
    cards = [
        ("Designs", f"{len(run.designs):,}", _design_counts(run)),
        ("On the front", f"{len(run.front):,}", f"of {len(run.judged):,} {judged}"),
        (
            "Solves",
            f"{solves:,}",
            f"used {needed:,} times by designs" if needed > solves else "each for one design",
        ),
        ("From the store", f"{cached:,}", f"{percent(cached / solves)} of the solves" if solves else ""),
        ("Failed solves", f"{failed:,}", f"{percent(failed / solves)} of the solves" if failed else ""),
        *([("Left out", f"{len(run.left_out):,}", "designs, by constraints")] if run.left_out else []),
        *([("Discarded", f"{len(run.discarded):,}", "designs, by their bounds")] if run.discarded else []),
        ("CPU time", seconds(spent) if spent else "0 s", "spent on solves by this run"),
    ]
    shown = [_card(*card, bad=card[0] == "Failed solves" and failed > 0) for card in cards]
    return joined([element("dl", *shown, class_="cards"), *_warnings(run)])


def _card(name: str, value: str, remark: str, bad: bool) -> Markup:
    parts = [element("dt", name), element("dd", value, class_="bad" if bad else None)]
    return element("div", *parts, element("dd", remark, class_="remark") if remark else Markup(""))


def _design_counts(run: RunData) -> str:
    counts = {str(status): int(n) for status, n in run.designs["status"].value_counts().items()}
    return ", ".join(f"{counts[status]:,} {status}" for status in sorted(counts))


def _warnings(run: RunData) -> list[Markup]:
    found = []
    partial = int(run.designs["status"].eq("partial").sum())
    if partial:
        found.append(f"{partial} designs are unfinished: the run was interrupted. Resume it to finish them.")
    stated = run.lock.get("warnings")
    found += [str(warning) for warning in stated] if isinstance(stated, list) else []
    if run.damaged:
        names = ", ".join(run.damaged)
        found.append(f"Damaged files were set aside; resume the run to solve their rows anew: {names}")
    return [paragraph(text, class_="warning") for text in found]


def provenance_section(run: RunData) -> ReportSection:
    """The lock file: versions, commit, seeds, dates, the whole study; its warnings are in the headline."""
    if not run.lock:
        text = "This run has no study.lock.yaml, so versions and seeds are not known."
        return ReportSection("provenance", "Provenance", paragraph(text, class_="empty"))
    facts = [(key, value) for key, value in run.lock.items() if key not in ("study", "warnings")]
    entries = [joined([element("dt", key), element("dd", _fact(value))]) for key, value in facts]
    parts = [element("dl", *entries, class_="facts")]
    parts.append(_source("The resolved study", run.lock.get("study", {})))
    return ReportSection("provenance", "Provenance", joined(parts))


def _fact(value: Any) -> Markup:
    if isinstance(value, Mapping):
        inner = [joined([element("dt", key), element("dd", _fact(v))]) for key, v in value.items()]
        return element("dl", *inner, class_="facts")
    if isinstance(value, list):
        return joined([", ".join(str(part) for part in value)])
    return joined([NOTHING if value is None else str(value)])


def _source(title: str, content: Any) -> Markup:
    import yaml

    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    # as Markup, because a study of any length is shown whole
    return element("details", element("summary", title), element("pre", Markup(escape(text))))
