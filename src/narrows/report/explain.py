"""The report of `explain`: sentences, derivations with the numbers put in, and tables."""

from __future__ import annotations

from narrows.answers.explain import ExampleTable, Explanation, Step, Topic
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.words import word


def explain_report(answer: Explanation) -> list[Part]:
    """All topics, one after the other; then what the marks mean, and the sources."""
    parts: list[Part] = []
    for index, topic in enumerate(answer.topics):
        parts += _topic(topic, f"{index + 1}. " if len(answer.topics) > 1 else "")
        parts.append(Paragraph(""))
    parts += [Paragraph("· " + mark, "dim") for mark in _marks(answer)]
    parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    parts += [Paragraph("· " + _("source: {source}").format(source=source), "dim") for source in answer.sources]
    return parts


def _marks(answer: Explanation) -> list[str]:
    """What the marks that occur mean."""
    steps = [step for topic in answer.topics for step in topic.steps]
    kinds: set[str] = {step.result.kind for step in steps if step.result}
    kinds |= {row.known for step in steps if step.table for row in step.table.rows}
    meanings = {
        "cited": _("cited: quoted from the sources below"),
        "measured": _("measured: read off a machine"),
        "predicted": _("predicted: by the memory model of the engine, which 'narrows fit' uses"),
        "assumed": _("assumed: chosen for lack of a fact"),
    }
    return [_("computed, or without a mark: by the code that answers the other commands")] + [
        meanings[kind] for kind in meanings if kind in kinds
    ]


def _topic(topic: Topic, numbered: str) -> list[Part]:
    parts: list[Part] = [Paragraph(f"{numbered}{say(topic.title)}  [{topic.id}]", "heading"), Paragraph("")]
    for step in topic.steps:
        parts += _step(step)
    if topic.more:
        parts.append(Paragraph(_("try: {command}").format(command=topic.more), "dim", 2))
    return parts


def _step(step: Step) -> list[Part]:
    parts: list[Part] = [Paragraph(say(step.text), indent=2)]
    parts += [Paragraph("· " + say(point), indent=4) for point in step.points]
    if step.derivation is not None:
        kind = step.result.kind if step.result else "exact"
        mark = "" if kind == "exact" else f"  [{word(kind)}]"
        parts.append(Paragraph(say(step.derivation) + mark, "good", 6))
    if step.table is not None:
        parts.append(_table(step.table))
    return parts


def _table(table: ExampleTable) -> Table:
    numbers = [any(row.cells[i].quantity for row in table.rows) for i in range(len(table.columns))]
    columns = [
        Column(say(text), "right" if right else "left") for text, right in zip(table.columns, numbers, strict=True)
    ]
    rows = [
        (*(say(cell.text) for cell in row.cells), _("computed") if row.known == "computed" else word(row.known))
        for row in table.rows
    ]
    return Table([*columns, Column(_("known"))], rows)
