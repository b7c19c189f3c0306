"""The report of `fit`: verdict, comparison, ledger, idle → peak, mends, and what was assumed."""

from __future__ import annotations

from narrows.answers.fit import Candidate, Fit
from narrows.answers.mend import Mend
from narrows.report.console import Bars, Column, Paragraph, Part, Segment, Table
from narrows.report.i18n import _, say
from narrows.report.words import word
from narrows.units import GIB, binary, count, decimal, gib, parameters, usd

TERMS = ("weights", "kv_cache", "state", "activations", "graphs", "runtime", "others")


def fit_report(answer: Fit) -> list[Part]:
    """All parts, in the order a person asks: does it fit, what fits, where do the bytes go, what would help."""
    parts: list[Part] = [Paragraph(_headline(answer), "heading")]
    parts += [Paragraph(say(text), "bad") for text in answer.warnings]
    for one in answer.candidates:
        parts.append(
            Paragraph(f"{_label(one)}: {word(one.verdict)} — {say(one.reason)}", "good" if one.fits else "bad")
        )
        parts += _mends(one)
    parts.append(_comparison(answer))
    parts.append(_ledger(answer))
    for one in answer.candidates:
        parts += _engine(one)
    parts.append(_growth(answer))
    parts.append(_rule(answer))
    notes = [say(text) for text in answer.assumptions]
    notes += [say(text) for text in dict.fromkeys(text for one in answer.candidates for text in one.reserve_basis)]
    parts.append(Paragraph(_("How this is known"), "heading"))
    parts += [Paragraph("· " + note, "dim") for note in notes]
    priced = [one for one in answer.candidates if one.instance]
    if priced:
        shown = "; ".join(f"{one.instance} {usd(one.usd_per_hour or 0)} ({one.price_as_of})" for one in priced)
        parts.append(Paragraph("· " + _("price per hour, on demand: {instances}").format(instances=shown), "dim"))
    return parts


def _label(one: Candidate) -> str:
    short = one.gpu_name.split(" ", 1)[-1]  # without the vendor
    name = short if one.count == 1 else f"{one.count} × {short}"
    ways = {
        "TP": one.tensor_parallel,
        "PP": one.pipeline_parallel,
        "DP": one.attention_data_parallel,
        "EP": one.expert_parallel,
    }
    split = "".join(f" {flag}{n}" for flag, n in ways.items() if n > 1)
    return name + split


def _headline(answer: Fit) -> str:
    model = answer.model
    return _("{name}: {total} parameters, {size} stored; {kv} of KV cache per sequence of {length} tokens").format(
        name=model.name,
        total=parameters(model.unique_parameters),
        size=decimal(model.checkpoint_bytes),
        kv=binary(model.kv_bytes_per_sequence),
        length=count(model.length),
    )


def _mends(one: Candidate) -> list[Part]:
    def line(mend: Mend) -> str:
        fits = _("{batch} × {length} tokens fit then").format(batch=count(mend.max_batch), length=count(mend.length))
        return f"{mend.change} — {say(mend.text)} ({fits})"

    if one.mend is None:
        return []
    lines = [_("nearest that fits: {mend}").format(mend=line(one.mend))]
    lines += [_("or: {mend}").format(mend=line(mend)) for mend in one.other_mends]
    return [Paragraph(text, indent=2) for text in lines]


def _comparison(answer: Fit) -> Table:
    length = count(answer.model.length)
    columns = [
        Column(_("accelerator")),
        Column(_("usable"), "right"),
        Column(_("max batch at {length}").format(length=length), "right"),
        Column(_("longest sequence (batch)"), "right"),
        Column(_("KV tokens"), "right"),
        Column(_("$/h"), "right"),
        Column(_("$/h per sequence"), "right"),
    ]
    rows = [
        (
            _label(one),
            gib(one.terms.usable),
            count(one.max_batch),
            f"{count(one.max_length)} ({count(one.max_length_batch)})",
            count(one.kv_tokens),
            usd(one.usd_per_hour) if one.usd_per_hour is not None else "–",
            usd(one.usd_per_hour_per_sequence) if one.usd_per_hour_per_sequence is not None else "–",
        )
        for one in answer.candidates
    ]
    return Table(columns, rows)


def _ledger(answer: Fit) -> Table:
    columns = [Column(_("GiB per device")), *(Column(_label(one), "right") for one in answer.candidates)]
    rare = ("state", "others")
    names = [name for name in TERMS if name not in rare or any(getattr(one.terms, name) for one in answer.candidates)]
    rows = []
    for name in (*names, "free", "unclaimed", "usable"):
        label = word(name)
        if name == "kv_cache":
            label = _("KV cache ({batch} × {length} tokens)").format(
                batch="/".join(count(one.batch) for one in answer.candidates), length=count(answer.model.length)
            )
        if name == "unclaimed":
            shares = "/".join(dict.fromkeys(f"{one.gpu_memory_utilization:g}" for one in answer.candidates))
            label = _("unclaimed (utilization {share})").format(share=shares)
        rows.append((label, *(_size(one, name) for one in answer.candidates)))
        if name in ("weights", "kv_cache") and any(one.draft for one in answer.candidates):
            rows.append((_("  of it what drafts"), *(_drafts(one, name) for one in answer.candidates)))
    return Table(columns, rows, strong=frozenset({len(rows) - 1}))


def _drafts(one: Candidate, name: str) -> str:
    """GiB of a term that are of what drafts."""
    if one.draft is None:
        return "–"
    size = one.draft.weights if name == "weights" else one.batch * one.draft.kv_bytes_per_sequence
    return f"{size / GIB:.2f}"


def _size(one: Candidate, name: str) -> str:
    """GiB of a term; of graphs with the interval that drivers make."""
    size, graphs = f"{getattr(one.terms, name) / GIB:.2f}", one.cuda_graphs
    if name != "graphs" or graphs.low is None or graphs.high is None:
        return size
    return f"{size} ({graphs.low / GIB:.2f}–{graphs.high / GIB:.2f})"


def _engine(one: Candidate) -> list[Part]:
    """What the engine will say of its KV cache, and the command that starts it."""
    available = one.kv_cache_available
    size = gib(available.value)
    if available.low is not None and available.high is not None:
        size = _("{value} (80 % between {low} and {high})").format(
            value=size, low=gib(available.low), high=gib(available.high)
        )
    said = _("{gpu}, {engine}: {verdict}. KV cache {size}, {blocks} blocks of {block} tokens, {concurrency}x").format(
        gpu=_label(one),
        engine=one.engine,
        verdict=word(one.starts),
        size=size,
        blocks=count(one.kv_blocks),
        block=one.kv_block_size,
        concurrency=f"{one.max_concurrency:.2f}",
    )
    lines = [Paragraph(line, "dim", indent=2) for line in one.log]
    return [Paragraph(said), *lines, Paragraph("$ " + one.serve_command, indent=2)]


def _growth(answer: Fit) -> Bars:
    rows: list[tuple[str, list[Segment], str]] = []
    for one in answer.candidates:
        rows.append((_label(one), [], ""))
        for moment in one.growth:
            segments = [Segment(word(name), getattr(moment.terms, name) / GIB) for name in TERMS]
            rows.append((f"  {word(moment.name)}", [s for s in segments if s.value], f"{moment.used / GIB:.1f} GiB"))
    return Bars(rows, max(one.terms.usable for one in answer.candidates) / GIB)


def _rule(answer: Fit) -> Paragraph:
    enough, short = _("enough"), _("not enough")
    verdicts = ", ".join(f"{_label(one)}: {enough if one.rule_of_thumb.holds else short}" for one in answer.candidates)
    return Paragraph(
        _("Rule of thumb (2 × the weights = {size} per device): {verdicts}.").format(
            size=gib(answer.candidates[0].rule_of_thumb.bytes), verdicts=verdicts
        )
    )
