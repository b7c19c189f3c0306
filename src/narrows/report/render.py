"""An answer as text, HTML or picture, whichever answer it is: what `print()`, notebooks and `--plot` show."""

from __future__ import annotations

from importlib import import_module

from narrows.answers.base import Printed
from narrows.report.console import Bars, Paragraph, Part, Table, to_text

_REPORTS = {
    "Fit": ("narrows.report.fit", "fit_report"),
    "Roofline": ("narrows.report.roofline", "roofline_report"),
    "Check": ("narrows.report.check", "check_report"),
    "ModelList": ("narrows.report.models", "models_report"),
    "ModelDetail": ("narrows.report.models", "model_report"),
    "Calibration": ("narrows.report.calibration", "calibration_report"),
    "GpuList": ("narrows.report.gpus", "gpus_report"),
    "Accuracy": ("narrows.report.accuracy", "accuracy_report"),
    "MachineMeasured": ("narrows.report.measure", "machine_report"),
    "ModelMeasured": ("narrows.report.measure_model", "decoder_report"),
    "LoadMeasured": ("narrows.report.measure_load", "loading_report"),
    "Load": ("narrows.report.load", "load_report"),
    "LoadingAccuracy": ("narrows.report.accuracy_loading", "loading_accuracy_report"),
    "RooflineAccuracy": ("narrows.report.accuracy_roofline", "accuracy_roofline_report"),
    "Explanation": ("narrows.report.explain", "explain_report"),
}
_CHARTS = {
    "Fit": ("narrows.report.fit_chart", "fit_chart"),
    "Roofline": ("narrows.report.bounds_chart", "bounds_chart"),
    "Load": ("narrows.report.load_chart", "load_chart"),
    "MachineMeasured": ("narrows.report.measure_chart", "machine_chart"),
    "ModelMeasured": ("narrows.report.measure_model_chart", "decoder_chart"),
    "LoadMeasured": ("narrows.report.measure_load_chart", "loading_chart"),
    "Explanation": ("narrows.report.roofline_chart", "roofline_chart"),
}


def parts_of(answer: Printed, **how: bool) -> list[Part]:
    """The report of an answer, in parts. how: what this report can be told, such as `full=True`."""
    module, function = _REPORTS[type(answer).__name__]
    parts: list[Part] = getattr(import_module(module), function)(answer, **how)
    return parts


def draw(answer: Printed, path: str) -> None:
    """Draw an answer to a file, as `charts.save` does. Raises BadInput as that does."""
    from narrows.report.charts import save

    module, function = _CHARTS[type(answer).__name__]
    save(getattr(import_module(module), function)(answer), path)


def answer_text(answer: Printed) -> str:
    """The report as plain text."""
    return to_text(parts_of(answer))


def answer_html(answer: Printed) -> str:
    """The report as HTML for a notebook: paragraphs and tables, escaped, without style of its own."""
    from html import escape

    found = []
    for part in parts_of(answer):
        if isinstance(part, Table):
            head = "".join(f"<th>{escape(column.heading)}</th>" for column in part.columns)
            rows = "".join(
                "<tr>"
                + "".join(
                    f'<td style="text-align:{column.align}">{escape(cell)}</td>'
                    for column, cell in zip(part.columns, row, strict=True)
                )
                + "</tr>"
                for row in part.rows
            )
            caption = f"<caption>{escape(part.title)}</caption>" if part.title else ""
            found.append(f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
        elif isinstance(part, Bars):
            found.append(f"<pre>{escape(to_text([part]))}</pre>")
        elif isinstance(part, Paragraph):
            found.append(f"<h4>{escape(part.text)}</h4>" if part.tone == "heading" else f"<p>{escape(part.text)}</p>")
    return "".join(found)
