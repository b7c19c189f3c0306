"""The gettext catalogues: `update` merges new sentences into the .po files, `compile` writes .mo, `check` is for CI.

Sentences are the first arguments of `_`, `Text` and `BadInput`, the bases of calibration coefficients, and the few
sentences of click that a user meets.
"""

from __future__ import annotations

import io
import json
import string
import sys
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "narrows"
LANGUAGES = ("ko",)
KEYWORDS = {"_": None, "Text": None, "BadInput": None}

CLICK = (
    "Usage:",
    "Options",
    "Commands",
    "Show this message and exit.",
    "default: {default}",
    "required",
    "Missing argument",
    "Missing option",
    "Missing parameter",
    "Missing {param_type}",
    "No such command {name!r}.",
    "No such option: {name}",
    "Invalid value: {message}",
    "Invalid value for {param_hint}: {message}",
    "{value!r} is not a valid {number_type}.",
    "Option {name!r} requires an argument.",
    "Option {name!r} does not take a value.",
)


FACTS = {"hardware/data/storage.jsonl": ("name", "unless"), "loading/data/loaders.jsonl": ("name",)}
"""Files of facts, and which of their fields people read."""


def template() -> Catalog:
    """Every sentence of the program."""
    catalog = Catalog(project="narrows", charset="utf-8")
    for name, line, message, _comments, _context in extract_from_dir(
        str(PACKAGE), method_map=[("**.py", "python")], keywords=KEYWORDS
    ):
        catalog.add(message, locations=[(f"src/narrows/{name}", line)])
    for path in sorted((PACKAGE / "calibration" / "data").glob("*.jsonl")):
        for row in path.read_text("utf-8").splitlines():
            catalog.add(json.loads(row)["basis"], locations=[(str(path.relative_to(ROOT)), 0)])
    for name, fields in FACTS.items():
        for row in (PACKAGE / name).read_text("utf-8").splitlines():
            for field in fields:
                if json.loads(row).get(field):
                    catalog.add(json.loads(row)[field], locations=[(f"src/narrows/{name}", 0)])
    for message in CLICK:
        catalog.add(message, locations=[("click", 0)])
    return catalog


def po_path(language: str) -> Path:
    """Where the catalogue of a language lies."""
    return PACKAGE / "locale" / language / "LC_MESSAGES" / "narrows.po"


def read(language: str) -> Catalog:
    """The catalogue of a language; empty if there is none yet."""
    path = po_path(language)
    catalog = Catalog(locale=language, project="narrows", charset="utf-8")
    if path.exists():
        with path.open("rb") as file:
            catalog = read_po(file, locale=language)
    # the files carry no date, and without one the time of reading would end up in the compiled file
    catalog.creation_date = catalog.revision_date = datetime(2026, 1, 1, tzinfo=UTC)
    return catalog


def update() -> int:
    """Merge new sentences and drop those that are gone; prints what waits for a translation."""
    for language in LANGUAGES:
        catalog = read(language)
        catalog.update(template(), no_fuzzy_matching=True)
        catalog.obsolete.clear()
        path = po_path(language)
        path.parent.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        write_po(buffer, catalog, width=110, include_lineno=False, sort_output=True, omit_header=False)
        # dates in the header would change at every run
        lines = [line for line in buffer.getvalue().splitlines(True) if b"-Date:" not in line]
        path.write_bytes(b"".join(lines))
        waiting = [message.id for message in catalog if message.id and not message.string]
        print(f"{language}: {len(catalog)} sentences, {len(waiting)} without translation")
    return 0


def mo_bytes(language: str) -> bytes:
    """The compiled catalogue."""
    buffer = io.BytesIO()
    write_mo(buffer, read(language))
    return buffer.getvalue()


def compile_all() -> int:
    """Write the .mo files beside the .po files."""
    for language in LANGUAGES:
        po_path(language).with_suffix(".mo").write_bytes(mo_bytes(language))
    return 0


def fields(sentence: str) -> set[str]:
    """Names of the parameters of a sentence."""
    return {
        name.split("!")[0].split(":")[0] for _, name, _, _ in string.Formatter().parse(sentence) if name is not None
    }


def problems() -> list[str]:
    """What is wrong with the catalogues: missing, fuzzy or gone sentences, lost parameters, a stale .mo file."""
    found = []
    wanted = {message.id for message in template() if message.id}
    for language in LANGUAGES:
        catalog = read(language)
        have = {message.id: message for message in catalog if message.id}
        found += [f"{language}: not in the .po file: {m!r}" for m in sorted(wanted - set(have))]
        found += [f"{language}: gone from the code: {m!r}" for m in sorted(set(have) - wanted)]
        for sentence, message in have.items():
            if not message.string or message.fuzzy:
                found.append(f"{language}: not translated: {sentence!r}")
            elif fields(str(sentence)) != fields(str(message.string)):
                found.append(f"{language}: parameters differ: {sentence!r} / {message.string!r}")
        compiled = po_path(language).with_suffix(".mo")
        if not compiled.exists() or compiled.read_bytes() != mo_bytes(language):
            found.append(f"{language}: the .mo file is not compiled from the .po file")
    return found


def check() -> int:
    """Print the problems; 1 if there are any."""
    found = problems()
    print("\n".join(found) if found else "catalogues are complete")
    return 1 if found else 0


if __name__ == "__main__":
    commands = {"update": update, "compile": compile_all, "check": check}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(commands)}")
    sys.exit(commands[sys.argv[1]]())
