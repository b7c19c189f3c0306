"""Reports of `models`."""

from __future__ import annotations

from narrows.answers.models import Component, LayerKind, ModelDetail, ModelList
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
            count(one.max_length) if one.max_length else "?",
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
        (_("longest sequence"), count(answer.max_length) if answer.max_length else "?"),
        (_("vocabulary × hidden size"), f"{count(answer.vocab)} × {count(answer.hidden)}"),
        (_("head"), _("tied to the embedding") if answer.head_tied else _("its own")),
    ]
    cache = [
        (_("next token"), binary(answer.kv_bytes_per_token), count(answer.kv_bytes_per_token)),
        (_("one sequence"), binary(answer.kv_bytes_per_sequence), count(answer.kv_bytes_per_sequence)),
    ]
    if answer.state_bytes_per_sequence:
        state = answer.state_bytes_per_sequence
        cache.append((_("constant state"), binary(state), count(state)))
    return [
        Paragraph(head, "heading"),
        Table([Column(""), Column("")], facts),
        Table(
            [
                Column(_("layers"), "right"),
                Column(_("at")),
                Column(_("mixer")),
                Column(_("feed-forward")),
                Column(_("parameters each"), "right"),
            ],
            [
                (str(kind.count), _where(kind), say(kind.mixer), say(kind.feed_forward), parameters(kind.parameters))
                for kind in answer.layer_kinds
            ],
        ),
        Table(
            [Column(_("component")), Column(_("parameters"), "right"), Column(_("stored"), "right"), Column(_("as"))],
            [
                (word(one.name), count(one.parameters), decimal(one.stored_bytes), _formats(answer, one))
                for one in answer.components
            ],
        ),
        Table(
            [Column(_("cache")), Column(_("size"), "right"), Column(_("bytes"), "right")],
            cache,
            title=_("Cache of a sequence of {length} tokens, kept as {kv}").format(
                length=count(answer.length), kv=answer.kv_cache_dtype
            ),
        ),
        *(Paragraph("· " + say(text), "dim") for text in answer.assumptions),
        *(Paragraph(_("source: {source}").format(source=source), "dim") for source in answer.sources),
    ]


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
