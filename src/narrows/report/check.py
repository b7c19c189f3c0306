"""The report of `check`: cause, corrected command, terms, time ledger, notes, the lines that said so."""

from __future__ import annotations

import re

from narrows.answers.check import Check
from narrows.diagnosis import Comparison, Mend
from narrows.observe import Evidence
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.words import word
from narrows.text import printable
from narrows.units import binary, count, gib, seconds

_COLUMNS = 76
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+""")
"""A word of a command with its quotes."""
_LINES = 8
"""Lines of the log that are quoted; JSON has more."""


def _word(code: str) -> str:
    """The word for a code of this report; else that of all reports."""
    known = {
        "kv_tokens": _("KV tokens"),
        "max_concurrency": _("max concurrency"),
        "non_torch": _("runtime (non-torch)"),
        "blocks": _("KV blocks"),
        "longest_request": _("longest request"),
        "started": _("started"),
        "serving": _("serving"),
        "failed": _("failed"),
        "unknown": _("outcome unknown"),
        "arguments": _("arguments"),
        "profiling": _("profiling"),
        "kv allocation": _("KV allocation"),
        "graph capture": _("graph capture"),
        "warm-up": _("warm-up"),
        "under load": _("under load"),
        "load": _("loading weights"),
        "load model": _("load model"),
        "download weights": _("download weights"),
        "build model": _("build model"),
        "read shards": _("read shards"),
        "read weights": _("read weights"),
        "init engine": _("initialise engine"),
        "trace model": _("trace model"),
        "compile graph": _("compile graph"),
        "load compiled graph": _("load compiled graph"),
        "torch.compile": "torch.compile",
        "first run": _("first run"),
        "profile memory": _("profile memory"),
        "capture graphs": _("capture graphs"),
    }
    return known.get(code) or word(code)


def check_report(answer: Check) -> list[Part]:
    """All parts, in the order a person on call asks: why, what now, and does reality agree."""
    parts: list[Part] = [_verdict(answer)]
    if answer.mend is not None:
        parts += _mend(answer.mend)
        parts += [Paragraph(_("or: {mend}").format(mend=_other(one)), indent=2) for one in answer.other_mends]
    parts.append(Paragraph(_what(answer), "dim"))
    parts += _terms(answer)
    parts += _timeline(answer)
    notes = [say(note.text) for note in answer.notes] + [say(text) for text in answer.assumptions]
    parts += [Paragraph("· " + note, "dim") for note in notes]
    parts += [Paragraph(f"{one.line}: {printable(one.text)}", "dim", indent=2) for one in _deciding(answer)]
    return parts


def _verdict(answer: Check) -> Paragraph:
    if answer.cause is not None:
        text = say(answer.cause.text)
        return Paragraph(text[:1].upper() + text[1:] + ".", "bad" if answer.outcome == "failed" else "heading")
    if answer.outcome not in ("started", "serving"):
        return Paragraph(_("The log does not tell how the start ended."), "bad")
    took = answer.timeline.total
    tokens = next((one.reported for one in answer.terms if one.name == "kv_tokens" and one.reported), None)
    if tokens is not None and took:
        text = _("Started in {time}, with {tokens} tokens of KV cache.").format(time=_time(took), tokens=count(tokens))
    elif tokens is not None:
        text = _("Started, with {tokens} tokens of KV cache.").format(tokens=count(tokens))
    else:
        text = _("Started.")
    return Paragraph(text, "good")


def _mend(mend: Mend) -> list[Part]:
    if not mend.change:
        return [Paragraph(say(mend.text), "good")]
    return [Paragraph(_lines_of(mend.command), "good"), Paragraph(_promise(mend), indent=2)]


def _lines_of(command: str) -> str:
    """The command in lines that a terminal does not break, so that it can be copied: a flag and its value together."""
    words = _WORD.findall(printable(command))
    lines = [""]
    for index, one in enumerate(words):
        piece = f" {one}" if lines[-1].strip() else one
        behind = words[index + 1] if index + 1 < len(words) and not words[index + 1].startswith("-") else ""
        if one.startswith("-") and len(lines[-1]) + len(piece) + len(behind) + 3 > _COLUMNS and lines[-1].strip():
            lines[-1] += " \\"
            lines.append("    " + one)
        else:
            lines[-1] += piece
    return "\n".join(lines)


def _promise(mend: Mend) -> str:
    text = say(mend.text)
    if mend.kv_tokens is None:
        return _("{text} (KV tokens cannot be predicted from this log alone)").format(text=text)
    if mend.basis == "prediction":
        return _("{text} (predicted KV: {tokens} tokens)").format(text=text, tokens=count(mend.kv_tokens))
    return _("{text} (KV by the log's figures: {tokens} tokens)").format(text=text, tokens=count(mend.kv_tokens))


def _other(mend: Mend) -> str:
    if not mend.change:
        return say(mend.text)
    if mend.kv_tokens is None:
        return f"{printable(mend.change)} — {say(mend.text)}"
    return f"{printable(mend.change)} — {_promise(mend)}"


def _what(answer: Check) -> str:
    """Engine, model, device and outcome in one line."""
    engine = " ".join(part for part in (answer.engine or _("engine unknown"), answer.version) if part)
    words = [engine, answer.model or _("model not named"), answer.gpu or _("device not named"), _word(answer.outcome)]
    if answer.outcome == "failed" and answer.stage is not None:
        words[-1] = _("failed at: {stage}").format(stage=_word(answer.stage))
    return printable(" · ".join(words))


def _terms(answer: Check) -> list[Part]:
    if not answer.terms:
        return []
    predicted = any(one.predicted is not None for one in answer.terms)
    columns = [Column(_("per device"))]
    if predicted:
        columns += [Column(_("predicted"), "right"), Column(_("80 % interval"), "right")]
    columns.append(Column(_("reported"), "right"))
    if predicted:
        columns.append(Column(_("residual"), "right"))
    rows = []
    for one in answer.terms:
        row = [_word(one.name)]
        if predicted:
            row += [_value(one, one.predicted.value if one.predicted else None), _interval(one)]
        row.append(_value(one, one.reported))
        if predicted:
            row.append(_residual(one))
        rows.append(row)
    return [Table(columns, rows)]


def _value(one: Comparison, value: float | None) -> str:
    if value is None:
        return "–"
    if one.unit == "B":
        return gib(value) if abs(value) >= 2**27 else binary(value)
    return f"{value:,.2f}" if one.unit == "sequences" else count(value)


def _interval(one: Comparison) -> str:
    known = one.predicted
    if known is None or known.low is None or known.high is None or known.low == known.high:
        return ""
    low, high = _value(one, known.low), _value(one, known.high)
    unit = high.rpartition(" ")[2] if one.unit == "B" else ""
    return f"{low.removesuffix(' ' + unit) if unit else low} – {high}"


def _residual(one: Comparison) -> str:
    """As a share of the prediction; as it is where there is nothing to be a share of."""
    if one.residual is None or one.predicted is None:
        return ""
    if not one.residual:
        return "0"
    if one.predicted.value > 0:
        percent = f"{100 * one.residual / one.predicted.value:+.1f} %"
        return "0.0 %" if percent in ("+0.0 %", "-0.0 %") else percent
    return ("+" if one.residual > 0 else "−") + _value(one, abs(one.residual))


def _timeline(answer: Check) -> list[Part]:
    ledger = answer.timeline
    steps = [step for step in ledger.stages if step.seconds >= 0.01]
    if not steps:
        return []
    rows = [(("  " if step.nested else "") + _word(step.name), _time(step.seconds)) for step in steps]
    if ledger.elsewhere:
        rows.append((_("elsewhere"), _time(ledger.elsewhere)))
    strong = set()
    if ledger.total:
        rows.append((_("total"), _time(ledger.total)))
        strong = {len(rows) - 1}
    parts: list[Part] = [Table([Column(_("time")), Column("", "right")], rows, strong=frozenset(strong))]
    if ledger.narrow_stage is not None:
        parts.append(Paragraph(_("the narrow stage is: {stage}").format(stage=_word(ledger.narrow_stage))))
    return parts


def _time(value: float) -> str:
    if value < 60:
        return seconds(value)
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def _deciding(answer: Check) -> list[Evidence]:
    """The lines that decide: the error first, then what states memory."""
    told = {"error", "kv_cache", "kv_tokens", "weights", "free_at_start", "max_concurrency", "estimated_max_len"}
    lines = {one.line: one for one in answer.evidence if told & set(one.fields)}
    errors = [number for number, one in lines.items() if "error" in one.fields]
    kept = sorted([*errors[-3:], *[number for number in lines if number not in errors][-(_LINES - 3) :]])
    return [lines[number] for number in kept]
