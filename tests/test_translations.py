"""Every sentence of the program is in every catalogue, with the same parameters; the compiled files are current."""

from __future__ import annotations

import re

from narrows.report.i18n import _, say, use_language
from narrows.text import Text
from scripts.translations import CLICK, problems, template


def test_the_catalogues_are_complete() -> None:
    assert problems() == []


def test_sentences_of_every_layer_are_found() -> None:
    found = {message.id for message in template() if message.id}
    assert "usable memory of {gpu} is assumed: {basis}" in found
    assert "Does it fit, and how much work fits beside it?" in found
    assert set(CLICK) <= found


def test_korean_is_korean() -> None:
    use_language("ko")
    assert re.search("[가-힣]", _("weights"))
    shown = say(Text("at most {n} tokens per sequence", n=3968))
    assert "3,968" in shown
    assert re.search("[가-힣]", shown)


def test_a_locale_without_a_catalogue_means_english(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("NARROWS_LANG", "de_DE.UTF-8")
    assert use_language(None) == "en"
