"""Writes docs/licences.md: the licence of every package in constraints.txt, as the package itself states it.

    pip install -c constraints.txt -e '.[test,lint,docs,peers]'
    python tools/licences.py

A package that is not installed for this Python or system keeps the line that it has.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
CONSTRAINTS = ROOT / "constraints.txt"

# What packages write, and what SPDX calls it.
SPDX = {
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache 2.0 license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd license": "BSD",
    "new bsd license": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "gnu lesser general public license v3 (lgplv3)": "LGPL-3.0-only",
}
# What a package states nowhere in its metadata, from the licence file in its sources.
STATED_ELSEWHERE: dict[str, str] = {}
HEAD = """# Licences

camhd is under the MIT licence and contains no code of others. These are the licences of the packages that its extras
may install (everything that `constraints.txt` pins), as each package states its own. `pip install camhd` alone needs
torch and `typing_extensions`, and what those bring. `tools/licences.py` writes this page, and
`tests/test_supply_chain.py` compares it with `constraints.txt`.

| package | licence |
|---|---|
"""


def pinned() -> dict[str, str]:
    """The packages of constraints.txt and their versions."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def canonical(name: str) -> str:
    """A name as indices compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def listed() -> dict[str, str]:
    """What the page says now."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    return {canonical(name): licence for name, licence in re.findall(r"^\| (\S+) \| (.+?) \|$", text, re.MULTILINE)}


def stated(name: str) -> str | None:
    """What an installed package says of its licence; None if it is not installed."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    classifiers = [
        line.split(" :: ")[-1] for line in about.get_all("Classifier") or [] if line.startswith("License ::")
    ]
    short = [line for line in [about.get("License") or ""] if 0 < len(line) < 60 and "\n" not in line]
    for word in (about.get("License-Expression"), *short, *classifiers, STATED_ELSEWHERE.get(name)):
        if word and word not in ("OSI Approved", "UNKNOWN"):
            return SPDX.get(word.lower(), word)
    raise SystemExit(f"{name} states no licence; look it up, and add it to STATED_ELSEWHERE.")


def main() -> None:
    """Write the page."""
    before, lines, missing = listed(), [], []
    for name in sorted(pinned(), key=str.lower):
        licence = stated(name) or before.get(canonical(name))
        if licence is None:
            missing.append(name)
        lines.append(f"| {name} | {licence} |")
    if missing:
        sys.exit(f"Not installed, and not on the page yet: {', '.join(missing)}.")
    PAGE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
