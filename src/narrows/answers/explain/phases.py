"""`phases` and `batching`: prefill, decode, and what a batch does for decode."""

from __future__ import annotations

from narrows.answers.explain.picture import picture
from narrows.answers.explain.subjects import BATCH, HIDDEN, LENGTH, attention, l40s, l40s_roof, limit, model, short
from narrows.answers.explain.types import CHAPTER, Row, Step, Topic, exact, fixed, number, row, step, table, words
from narrows.roofline import Roof, turning_batch
from narrows.step.textbook import DecodeAttention, Matmul
from narrows.text import Text
from narrows.units import decimal, seconds

_PROMPTS = (64, 512, 4096)
_BATCHES = (1, 16, 256)


def _product(rows: int) -> Matmul:
    """Rows of activations times one h × h weight matrix."""
    return Matmul(rows, HIDDEN, HIDDEN)


def phases() -> Topic:
    """Prefill of s tokens is a product of s rows, decode one of a single row."""
    device, top = l40s(), l40s_roof()
    decode = _product(1)
    first = _product(_PROMPTS[0])
    rows: list[Row] = []
    for prompt in _PROMPTS:
        one = _product(prompt)
        rows.append(
            row(
                str(prompt),
                words(str(prompt)),
                number(f"{one.intensity:.2f}", one.intensity, "FLOP/B"),
                words(limit(top.bound(one.intensity))),
                number(f"{decode.intensity:.2f}", decode.intensity, "FLOP/B"),
                words(limit(top.bound(decode.intensity))),
            )
        )
    share = top.attainable(decode.intensity) / top.peak
    columns = (Text("s"), Text("prefill"), Text("bound by"), Text("decode"), Text("bound by"))
    return Topic(
        "phases",
        Text("Prefill and decode, one request, h = {h}", h=str(HIDDEN)),
        (
            step(
                "prefill",
                Text(
                    "Prefill sends all s tokens of the prompt through a weight matrix at once, [s,h] × [h,h]. At "
                    "s = {s}:",
                    s=_PROMPTS[0],
                ),
                f"s·h ÷ (2s + h) = {first.m} × {HIDDEN} ÷ ({2 * first.m} + {HIDDEN}) = {first.intensity:.2f} FLOP/B",
                exact(first.intensity, "FLOP/B"),
            ),
            step(
                "decode",
                Text(
                    'Decode sends one token, [1,h] × [h,h]: every weight is read for one multiply-add. "About 1.0" is:'
                ),
                f"{HIDDEN} ÷ (2 + {HIDDEN}) = {decode.intensity:.4f} FLOP/B",
                exact(decode.intensity, "FLOP/B"),
            ),
            step(
                "table",
                Text(
                    "In FLOP/B, against a ridge of {ridge} FLOP/B on the {gpu}:",
                    ridge=fixed(top.ridge, 0),
                    gpu=device.name,
                ),
                table=table(columns, *rows),
            ),
            step(
                "decode_share",
                Text("So decode of one request can use no more of the peak than:"),
                f"{decode.intensity:.2f} ÷ {top.ridge:.0f} = {share * 100:.2f} %",
                exact(share, "1"),
            ),
        ),
        (CHAPTER, device.source),
        roofline=picture(
            device,
            [
                (Text("decode"), decode.intensity),
                *((Text("prefill s = {s}", s=str(s)), _product(s).intensity) for s in _PROMPTS),
            ],
        ),
    )


def batching() -> Topic:
    """A batch multiplies decode's rows, up to the ridge at B = 527; the KV cache is read for each request anew."""
    device, top = l40s(), l40s_roof()
    one = _product(BATCH)
    turn = turning_batch(HIDDEN, top.ridge)
    assert turn is not None
    before, after = _product(turn - 1), _product(turn)
    return Topic(
        "batching",
        Text("Batching: what it does for decode, and what it cannot"),
        (
            step(
                "b16",
                Text(
                    "B requests decode together, [B,h] × [h,h]. The weights are read once for all. At B = {batch}:",
                    batch=BATCH,
                ),
                f"B·h ÷ (2B + h) = {BATCH} × {HIDDEN} ÷ ({2 * BATCH} + {HIDDEN}) = {one.intensity:.2f} FLOP/B",
                exact(one.intensity, "FLOP/B"),
            ),
            step(
                "closed_form",
                Text("It is compute-bound where that reaches the ridge R; solved for B:"),
                "B·h ÷ (2B + h) ≥ R  →  B·h ≥ 2B·R + R·h  →  B ≥ R·h ÷ (h − 2R)",
            ),
            step(
                "turn",
                Text(
                    "So on the {gpu}, with R = {ridge} FLOP/B, decode is compute-bound from:",
                    gpu=device.name,
                    ridge=fixed(top.ridge, 1),
                ),
                f"B ≥ {top.ridge:.1f} × {HIDDEN} ÷ ({HIDDEN} − {2 * top.ridge:.1f}) = "
                f"{top.ridge * HIDDEN / (HIDDEN - 2 * top.ridge):.1f}  →  {turn}",
                exact(turn, "requests"),
            ),
            step(
                "around_turn",
                Text("Just below and at that batch:"),
                f"B = {turn - 1}: {before.intensity:.2f} < {top.ridge:.2f};  B = {turn}: {after.intensity:.2f} FLOP/B",
                exact(after.intensity, "FLOP/B"),
            ),
            step(
                "limit",
                Text("No batch brings this product beyond:"),
                f"h ÷ 2 = {HIDDEN // 2} FLOP/B",
                exact(HIDDEN / 2, "FLOP/B"),
            ),
            step(
                "continuous",
                Text(
                    "That is why continuous batching matters: each request that joins a step uses weights that "
                    "are read anyway."
                ),
            ),
            *_attention(top),
        ),
        (CHAPTER, device.source),
        roofline=picture(
            device,
            [(Text("decode B = {batch}", batch=str(b)), _product(b).intensity) for b in (1, BATCH, turn)],
        ),
    )


def _attention(top: Roof) -> list[Step]:
    """Decode attention: each request has its own keys and values, so batching leaves its intensity as it is."""
    spec = model()
    heads = attention(spec)
    grouped = heads.kv_heads // 4

    def attending(batch: int, kv_heads: int) -> DecodeAttention:
        return DecodeAttention(batch, LENGTH, heads.heads, kv_heads, heads.head_dim)

    def line(name: str, kv_heads: int) -> Row:
        values = [attending(batch, kv_heads).intensity for batch in _BATCHES]
        return row(
            name,
            words(name.upper()),
            words(f"{heads.heads} / {kv_heads}"),
            *(number(f"{v:.2f}", v, "FLOP/B") for v in values),
        )

    weights, cache = spec.checkpoint_bytes(), spec.kv_bytes_per_sequence(LENGTH)
    step_time = (weights + BATCH * cache) / top.bandwidth
    columns = (Text("attention"), Text("heads / KV heads"), *(Text("B = {batch}", batch=batch) for batch in _BATCHES))
    return [
        step(
            "kv_intensity",
            Text(
                "What batching cannot do: each request reads its own keys and values. Decode attention over {length} "
                "tokens, in FLOP/B:",
                length=str(LENGTH),
            ),
            table=table(columns, line("mha", heads.kv_heads), line("gqa", grouped)),
        ),
        step(
            "gqa",
            Text("Only sharing KV heads raises it, by the number of query heads that share one:"),
            f"{heads.heads} ÷ {grouped} = {heads.heads // grouped} ×",
            exact(heads.heads / grouped, "1"),
        ),
        step(
            "weights_per_token",
            Text("Per token of {model} at B = {batch}, the weights shrink to:", model=short(spec), batch=BATCH),
            f"{decimal(weights)} ÷ {BATCH} = {decimal(weights / BATCH)}",
            exact(weights / BATCH, "B"),
        ),
        step(
            "kv_per_token",
            Text(
                "The KV cache of {length} tokens, though, is read in full for each token, {times} times as much:",
                length=str(LENGTH),
                times=fixed(cache * BATCH / weights, 1),
            ),
            f"{LENGTH} × {decimal(cache / LENGTH)} = {decimal(cache)}",
            exact(cache, "B"),
        ),
        step(
            "step_time",
            Text("One step of that batch reads both, and takes on the {gpu} at least:", gpu=l40s().name),
            f"({decimal(weights)} + {decimal(BATCH * cache)}) ÷ {top.bandwidth / 1e9:g} GB/s = {seconds(step_time)}",
            exact(step_time, "s"),
        ),
    ]
