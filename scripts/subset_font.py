"""Make the Korean font that charts are drawn with: a small subset of a free font, under another name.

    python scripts/subset_font.py NanumBarunGothic.ttf src/narrows/report/fonts/narrows-hangul.ttf

The input is NanumBarunGothic (SIL Open Font License 1.1; Debian package `fonts-nanum`). Its licence reserves the name
"Nanum", so a subset, which is a modified version, carries another; copyright and licence stay in the name table. Needs
`fonttools`.
"""

from __future__ import annotations

import sys
from pathlib import Path

NAME = "Narrows Hangul"
SYMBOLS = "×·→←↑↓≤≥≈≠±°√∞−–—‘’“”…•«»²³µ÷①②③④⑤※▶■□●○₩€£©、。「」『』～"
ALIASES = {"−": "–", "µ": "μ"}
"""What the source lacks, and the character whose shape serves: minus as en dash, micro sign as mu."""
LICENCE = "SIL Open Font License, Version 1.1; see OFL.txt beside this file"


def characters() -> list[str]:
    """Printable ASCII, symbols of technical prose, jamo, and the 2,350 syllables of KS X 1001."""
    syllables = [bytes((high, low)).decode("euc_kr") for high in range(0xB0, 0xC9) for low in range(0xA1, 0xFF)]
    jamo = [chr(code) for code in range(0x3131, 0x3164)]
    return [chr(code) for code in range(0x20, 0x7F)] + ["\u00a0", *SYMBOLS] + jamo + syllables


def main(source: str, target: str) -> None:
    """Subset `source`, rename it, write `target`; says what the source lacks."""
    from fontTools import subset
    from fontTools.ttLib import TTFont

    font = TTFont(source)
    for table in font["cmap"].tables:
        if table.isUnicode():
            for wanted, like in ALIASES.items():
                table.cmap.setdefault(ord(wanted), table.cmap[ord(like)])
    # Charts are drawn large and unhinted, and no text in them needs ligatures: both cost space.
    options = subset.Options(hinting=False, layout_features=[], notdef_outline=True, name_IDs=[0])
    options.drop_tables += ["GSUB", "GPOS", "GDEF", "BASE", "vhea", "vmtx", "VORG", "DSIG"]
    subsetter = subset.Subsetter(options)
    subsetter.populate(text="".join(characters()))
    subsetter.subset(font)
    font["name"].names = [record for record in font["name"].names if record.nameID == 0 and record.platformID == 3]
    version = "Version 1.000; subset of NanumBarunGothic"
    names = {1: NAME, 2: "Regular", 3: NAME, 4: NAME, 5: version, 6: NAME.replace(" ", ""), 13: LICENCE}
    names[14] = "https://openfontlicense.org"
    for number, text in names.items():
        font["name"].setName(text, number, 3, 1, 0x409)
    # The input's own build time, so that the same input always makes the same file.
    font.recalcTimestamp = False
    font.save(target)
    missing = [char for char in characters() if ord(char) not in font.getBestCmap()]
    print(f"{target}: {Path(target).stat().st_size:,} bytes; not in the source: {''.join(missing) or 'nothing'}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: subset_font.py INPUT.ttf OUTPUT.ttf")
    main(sys.argv[1], sys.argv[2])
