"""Languages: gettext catalogues, loaded only when the language is not English.

English sentences are the message ids. `_("sentence")` translates what is written here; `say(Text)` translates what
came from the layers below, its parameters included.
"""

from __future__ import annotations

import os
from typing import Any

from narrows.text import BadInput, Text

LANGUAGES = ("en", "ko")

_language = "en"
_translations: Any = None


def use_language(code: str | None) -> str:
    """Choose the language: `en`, `ko`, `ko_KR.UTF-8`; None reads NARROWS_LANG, then the locale. Returns the choice.

    A language given by name that is not there is refused; a locale that is not there means English.
    """
    global _language, _translations
    wanted = code
    if wanted is None:
        wanted = next((v for n in ("NARROWS_LANG", "LC_ALL", "LC_MESSAGES", "LANG") if (v := os.environ.get(n))), "en")
    short = wanted.replace("-", "_").split("_")[0].split(".")[0].lower()
    if short not in LANGUAGES:
        if code is not None:
            raise BadInput(
                "language '{code}' is not there; choose one of: {known}", code=code[:20], known=", ".join(LANGUAGES)
            )
        short = "en"
    before, _language, _translations = _language, short, None
    if before != "en":
        import gettext

        gettext.textdomain("messages")
    if short != "en":
        import gettext

        folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "locale")
        _translations = gettext.translation("narrows", folder, languages=[short])
        # click translates its own words ("Usage:") through the default domain
        os.environ["LANGUAGE"] = short
        gettext.bindtextdomain("narrows", folder)
        gettext.textdomain("narrows")
    return short


def language() -> str:
    """The language in use."""
    return _language


def _(msgid: str) -> str:
    """The sentence in the language in use."""
    return msgid if _translations is None else str(_translations.gettext(msgid))


def say(text: Text | str) -> str:
    """A `Text` in the language in use, with its parameters put in."""
    return text.render(_) if isinstance(text, Text) else text
