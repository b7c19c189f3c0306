"""`explain`: where does this number come from? The worked examples of the chapter on serving bottlenecks, computed.

Every number comes from the same code that answers the other questions, or is marked as cited.
"""

from __future__ import annotations

from importlib import import_module

from narrows.answers.explain.types import (
    Cell,
    ExampleTable,
    Explanation,
    RooflinePicture,
    RooflinePoint,
    Row,
    Step,
    Topic,
)
from narrows.text import BadInput

TOPICS = {
    "tiers": "loading",
    "precision": "weights",
    "weights": "weights",
    "kv": "cache",
    "plan": "planning",
    "serving": "serving",
    "intensity": "intensity",
    "matmul": "intensity",
    "phases": "phases",
    "batching": "phases",
    "hierarchy": "device",
    "prescription": "verdicts",
    "summary": "verdicts",
}
"""Topic → the module with the function of that name, imported only when the topic is asked for."""


def explain(topic: str | None = None) -> Explanation:
    """The worked example `topic`, or all of them (None). Raises BadInput for a topic that is not there.

    >>> explain("kv").result("kv", "per_token").value
    524288
    """
    names = list(TOPICS) if topic is None else [_known(topic)]
    topics = tuple(_computed(name) for name in names)
    return Explanation(
        command=" ".join(["narrows explain", *([] if topic is None else names)]),
        topics=topics,
        assumptions=tuple(dict.fromkeys(text for one in topics for text in one.assumptions)),
        sources=tuple(dict.fromkeys(source for one in topics for source in one.sources)),
    )


def _computed(name: str) -> Topic:
    found: Topic = getattr(import_module(f"narrows.answers.explain.{TOPICS[name]}"), name)()
    return found


def _known(topic: str) -> str:
    name = topic.strip().lower()
    if name in TOPICS:
        return name
    from difflib import get_close_matches

    given = "".join(c if c.isprintable() else "?" for c in topic[:40])
    near = get_close_matches(name[:40], TOPICS, n=1, cutoff=0.5)
    if near:
        raise BadInput(
            "there is no topic '{topic}'; the nearest is '{near}'. The topics are: {topics}",
            topic=given,
            near=near[0],
            topics=", ".join(TOPICS),
        )
    raise BadInput("there is no topic '{topic}'; the topics are: {topics}", topic=given, topics=", ".join(TOPICS))


__all__ = [
    "TOPICS",
    "Cell",
    "ExampleTable",
    "Explanation",
    "RooflinePicture",
    "RooflinePoint",
    "Row",
    "Step",
    "Topic",
    "explain",
]
