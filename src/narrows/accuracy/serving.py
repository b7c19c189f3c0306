"""The roofline end to end: what measured servers and engines took against what narrows says, protocol by protocol.

`test split`: rows of servers kept apart, by the laws as shipped. `leave one device out`, `leave one model out`,
`leave one source out`: laws of steps fitted anew without all rows of the device, model or source that is predicted (the
laws of its operators stay: they saw no server). Beside narrows stand a plain roofline with constant shares and a model
of three constants per layer, byte and FLOP; on the test split also the latter brought to the median of each model and
device on the `fit` rows. Raises BadInput where numpy is not installed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from narrows.accuracy.board import MIN_CLAIM, Interval, Score
from narrows.accuracy.gemm import OURS, PLAIN, OperatorScores, Split
from narrows.accuracy.serving_cases import Cases, device, interval_of, parts_of, serving_cases, shape, source
from narrows.accuracy.serving_fit import left_out
from narrows.accuracy.serving_work import Work
from narrows.calibration.laws import Law, laws
from narrows.roofline.devices import device_keys
from narrows.roofline.engine_overhead import NAMES, Asked, chosen
from narrows.accuracy.serving_records import device_of

THREE = "three constants: per layer, byte and FLOP"
THREE_SCALED = "three constants, scaled by model and device"
TPOT, PROMPT, ONE_USER = "time per output token", "time to first token, one prompt", "decode for one user"


class Predicted(NamedTuple):
    """Rows with what narrows says of them: seconds, and the 80 % interval."""

    rows: Sequence[Work]
    times: Any
    low: Any
    high: Any


def law_for(one: Work, among: Sequence[Law]) -> Law:
    """The shipped law of steps that holds for a row."""
    record = one.record
    keys = device_keys(device_of(record.device))
    return chosen(among, Asked(one.kind, keys, record.engine, record.version, one.shape, one.stored))


def as_shipped(rows: Sequence[Work]) -> Predicted:
    """By the laws that narrows ships."""
    import numpy as np

    among = laws("steps")
    found = [law_for(one, among) for one in rows]
    values = np.array([[law.values[name] for name in NAMES] for law in found]).reshape(len(rows), len(NAMES))
    times = (values * np.array([one.terms for one in rows])).sum(axis=1)
    low, high = (np.array([getattr(law, end) for law in found]) * times for end in ("low", "high"))
    return Predicted(rows, times, low, high)


def without(rows: Sequence[Work], cases: Cases, key_of: Callable[[Work], Hashable]) -> Predicted:
    """By laws fitted anew on every other row; intervals as of a law of the level that is left."""
    import numpy as np

    times, levels = left_out(rows, parts_of(cases, fit_only=False), key_of)
    ends = [interval_of(one, level) for one, level in zip(rows, levels, strict=True)]
    return Predicted(rows, times, times * np.array([e.low for e in ends]), times * np.array([e.high for e in ends]))


# --- lines of the scoreboard ------------------------------------------------------------------------------------------


def _score(quantity: str, group: str, method: str, rows: Sequence[Work], times: Any) -> Score:
    import numpy as np

    errors = times / np.array([one.measured for one in rows]) - 1
    size = np.abs(errors)
    return Score(
        quantity,
        group,
        method,
        n=len(rows),
        sources=len({(one.record.structure, one.record.device) for one in rows}),
        median=float(np.median(size)),
        p90=float(np.quantile(size, 0.9)),
        worst=float(size.max()),
        bias=float(np.median(errors)),
        claims=len(rows) >= MIN_CLAIM,
    )


def _interval(group: str, found: Predicted, members: Sequence[int]) -> Interval:
    import numpy as np

    measured = np.array([found.rows[i].measured for i in members])
    low, high = found.low[members], found.high[members]
    widths = (high - low) / measured
    inside = float(np.mean((low <= measured) & (measured <= high)))
    return Interval(group, len(members), inside, float(widths.mean()), float(np.median(widths)))


def _groups(rows: Sequence[Work], group_of: Callable[[Work], Sequence[str]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for i, one in enumerate(rows):
        for name in group_of(one):
            found[name].append(i)
    return dict(sorted(found.items()))


def _board(
    protocol: Split,
    quantity: str,
    found: Predicted,
    group_of: Callable[[Work], Sequence[str]],
    scaled: Any = None,
) -> OperatorScores:
    import numpy as np

    scores, intervals = [], []
    plain = np.array([one.plain for one in found.rows])
    three = np.array([one.three for one in found.rows])
    methods = [(OURS, found.times), (PLAIN, plain), (THREE, three)]
    if scaled is not None:
        methods.append((THREE_SCALED, scaled))
    for group, members in _groups(found.rows, group_of).items():
        rows = [found.rows[i] for i in members]
        scores += [_score(quantity, group, method, rows, times[members]) for method, times in methods]
        intervals.append(_interval(group, found, members))
    return OperatorScores(protocol, tuple(scores), tuple(intervals), 0)


KIND = {"dense": "dense models", "experts": "mixtures of experts"}


def _kind(one: Work) -> Sequence[str]:
    return (KIND[one.kind],)


def _seen(fit: Sequence[Work]) -> Callable[[Work], Sequence[str]]:
    """Groups of the test split: all, and those whose checkpoint was seen on the device."""
    known = {(one.shape, one.stored, one.record.device) for one in fit}

    def groups(one: Work) -> Sequence[str]:
        kind = KIND[one.kind]
        own = (one.shape, one.stored, one.record.device) in known
        return (kind, f"{kind}, seen on the device in this precision") if own else (kind,)

    return groups


def _scaled(rows: Sequence[Work], fit: Sequence[Work]) -> Any:
    """Three constants × the median of measured ÷ predicted of the model on the device, where `fit` rows have it."""
    import numpy as np

    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in fit:
        ratios[one.shape, one.record.device].append(one.measured / one.three)
    return np.array([one.three * float(np.median(ratios.get((one.shape, one.record.device), [1.0]))) for one in rows])


def _engine(one: Work) -> Sequence[str]:
    return "all engines", one.record.engine


def _device(one: Work) -> Sequence[str]:
    return "all devices", one.record.device


def serving_scores() -> tuple[OperatorScores, ...]:
    """Every protocol: steps of servers, prompts alone, engines for one user."""
    cases = serving_cases()
    test = [one for one in cases.servers if one.record.split == "test"]
    fit = [one for one in cases.servers if one.record.split == "fit"]
    boards = [_board("test split", TPOT, as_shipped(test), _seen(fit), _scaled(test, fit))]
    leave: tuple[tuple[Split, Callable[[Work], Hashable]], ...] = (
        ("leave one device out", device),
        ("leave one model out", shape),
    )
    for protocol, key_of in leave:
        boards.append(_board(protocol, TPOT, without(cases.servers, cases, key_of), _kind))
    for protocol, key_of in (*leave, ("leave one source out", source)):
        boards.append(_board(protocol, PROMPT, without(cases.prompts, cases, key_of), _device))
        boards.append(_board(protocol, ONE_USER, without(cases.one_user, cases, key_of), _engine))
    return tuple(boards)
