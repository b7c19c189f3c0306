"""Reports of `models`."""

from __future__ import annotations

from collections.abc import Iterator

from narrows.answers.models import ModelDetail, ModelList
from narrows.answers.structure import CacheTerm, Component, LayerKind
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.words import word
from narrows.units import binary, count, decimal, parameters


def _stored(dtype: str, quantization: str) -> str:
    return f"{quantization} / {dtype}" if quantization else dtype


def models_report(answer: ModelList) -> list[Part]:
    """The catalogue as a table."""
    columns = [
        Column(_("model")),
        Column(_("parameters"), "right"),
        Column(_("active"), "right"),
        Column(_("checkpoint"), "right"),
        Column(_("stored as")),
        Column(_("longest"), "right"),
        Column(_("KV per token"), "right"),
        Column(_("state"), "right"),
    ]
    rows = [
        (
            one.name,
            parameters(one.unique_parameters),
            parameters(one.active_parameters) if one.active_parameters != one.unique_parameters else "",
            decimal(one.checkpoint_bytes),
            _stored(one.dtype, one.quantization),
            count(one.max_length) if one.max_length else "–",
            binary(one.kv_bytes_per_token, 1),
            binary(one.state_bytes_per_sequence, 1) if one.state_bytes_per_sequence else "",
        )
        for one in answer.models
    ]
    if not rows:
        return [Paragraph(_("No model of the catalogue has such a name."))]
    hint = _("For any other model give its hub id, its config.json, or the directory that holds it.")
    return [Table(columns, rows), Paragraph(hint, "dim")]


def model_report(answer: ModelDetail) -> list[Part]:
    """One model: what it is made of, and the law of its cache."""
    head = _("{name}: {total} parameters").format(name=answer.name, total=parameters(answer.unique_parameters))
    facts = [
        (_("architecture"), answer.architecture),
        (_("unique parameters"), count(answer.unique_parameters)),
        (_("active per token"), count(answer.active_parameters)),
        (
            _("checkpoint"),
            f"{decimal(answer.checkpoint_bytes)} = {binary(answer.checkpoint_bytes)}"
            f" ({_stored(answer.dtype, answer.quantization)})",
        ),
        *_read_from(answer),
        (_("longest sequence"), count(answer.max_length) if answer.max_length else _("not stated")),
        (_("vocabulary × hidden size"), f"{count(answer.vocab)} × {count(answer.hidden)}"),
        (_("head"), _("tied to the embedding") if answer.head_tied else _("its own")),
    ]
    return [
        Paragraph(head, "heading"),
        Table([Column(""), Column("")], facts),
        Table(
            [Column(_("structure")), Column(_("parameters"), "right"), Column(_("stored"), "right"), Column(_("as"))],
            list(_tree(answer)),
        ),
        Table(
            [
                Column(_("cache")),
                Column(_("law for T tokens")),
                Column(_("size"), "right"),
                Column(_("bytes"), "right"),
            ],
            list(_cache(answer)),
            title=_("Cache of a sequence of {length} tokens, kept as {kv}").format(
                length=count(answer.length), kv=answer.kv_cache_dtype
            ),
        ),
        *(Paragraph("· " + say(text), "dim") for text in answer.assumptions),
        *(Paragraph(_("source: {source}").format(source=source), "dim") for source in answer.sources),
    ]


def _tree(answer: ModelDetail) -> Iterator[tuple[str, str, str, str]]:
    """The model as a tree: what stands outside the layers, the layers by kind with their parts, towers."""
    inside = {one.name for kind in answer.layer_kinds for one in kind.components}
    outside = list(_outside(answer))
    first = [one for one in outside if one.name in ("embedding", "per-layer input")]
    rest = [one for one in outside if one not in first]
    kinds = answer.layer_kinds
    for one in first:
        yield _node("├─ " + word(one.name), one, answer)
    parts = [one for kind in kinds for one in kind.components]
    layers = Component("", sum(one.parameters for one in parts), sum(one.stored_bytes for one in parts), {})
    trunk = "├─ " if rest else "└─ "
    bar = "│  " if rest else "   "
    yield _node(trunk + _("{count} layers").format(count=count(answer.layers)), layers, answer)
    for number, kind in enumerate(kinds, 1):
        last = number == len(kinds)
        whole = Component(
            "", sum(one.parameters for one in kind.components), sum(one.stored_bytes for one in kind.components), {}
        )
        label = f"{kind.count} × {say(kind.mixer)}; {say(kind.feed_forward)} ({_where(kind)})"
        yield _node(bar + ("└─ " if last else "├─ ") + label, whole, answer)
        for at, one in enumerate(kind.components, 1):
            edge = "└─ " if at == len(kind.components) else "├─ "
            yield _node(bar + ("   " if last else "│  ") + edge + word(one.name), one, answer)
    for number, one in enumerate(rest, 1):
        name = _("final norm") if one.name == "norms" and "norms" in inside else word(one.name)
        yield _node(("└─ " if number == len(rest) else "├─ ") + name, one, answer)


def _outside(answer: ModelDetail) -> Iterator[Component]:
    """Of every component what does not stand in a layer."""
    within: dict[str, list[Component]] = {}
    for kind in answer.layer_kinds:
        for one in kind.components:
            within.setdefault(one.name, []).append(one)
    for one in answer.components:
        inner = within.get(one.name, [])
        formats = {
            name: left
            for name, size in one.formats.items()
            if (left := size - sum(part.formats.get(name, 0) for part in inner)) > 0
        }
        parameters = one.parameters - sum(part.parameters for part in inner)
        if parameters or formats:
            yield Component(one.name, parameters, sum(formats.values()), formats)


def _node(label: str, one: Component, answer: ModelDetail) -> tuple[str, str, str, str]:
    return label, count(one.parameters), decimal(one.stored_bytes), _formats(answer, one)


def _cache(answer: ModelDetail) -> Iterator[tuple[str, str, str, str]]:
    """State + slope × tokens, term by term, and what it comes to."""
    for term in answer.cache_law:
        size = term.bytes * term.tokens(answer.length)
        label = _("{count} layers, of the encoder's tokens") if term.encoder else _("{count} layers")
        yield label.format(count=count(term.layers)), _law(term), binary(size), count(size)
    if answer.state_bytes_per_sequence:
        state = answer.state_bytes_per_sequence
        yield _("constant state"), _("the same for any T"), binary(state), count(state)
    total = answer.kv_bytes_per_sequence + answer.state_bytes_per_sequence
    yield _("one sequence"), _("all of these"), binary(total), count(total)
    next_one = answer.kv_bytes_per_token
    yield (
        _("next token"),
        _("where T is {length}").format(length=count(answer.length)),
        binary(next_one),
        count(next_one),
    )


def _law(term: CacheTerm) -> str:
    """`40 KiB × T`, `208 KiB × min(T, 1,024)`."""
    if term.fixed is not None:
        return f"{binary(term.bytes)} × {count(term.fixed)}"
    tokens = "T" if term.every == 1 else f"(T mod {term.every})" if term.waiting else f"⌊T / {term.every}⌋"
    if term.window is not None:
        tokens = f"min({tokens}, {count(term.window)})"
    return f"{binary(term.bytes)} × {tokens}"


def _formats(answer: ModelDetail, one: Component) -> str:
    """Formats of a component; with their bytes where the files were read and there are several."""
    if answer.stored is None or len(one.formats) < 2:
        return ", ".join(one.formats)
    return ", ".join(f"{name} {decimal(size)}" for name, size in sorted(one.formats.items(), key=lambda of: -of[1]))


def _read_from(answer: ModelDetail) -> list[tuple[str, str]]:
    """What was read beside the config: files of weights, of which only the headers."""
    stored = answer.stored
    if stored is None:
        return []
    read = _("config.json, {files} {kind} headers ({size})").format(
        files=count(stored.files), kind=stored.kind, size=decimal(stored.header_bytes)
    )
    return [(_("read from"), read)]


def _where(kind: LayerKind) -> str:
    if len(kind.first) == 1:
        first = kind.first[0]
        return f"{first}–{first + kind.count - 1}" if kind.count > 1 else str(first)
    return ", ".join(map(str, kind.first[:4])) + " …"
