"""MkDocs hooks: doctests look like code, and the built site needs no network.

A doctest in a docstring is put into a fence of its own, or Markdown would read its `>>>` as a quotation.

Formulas are turned into MathML when the site is built, so that no script has to be loaded to show them. After
the build, every page is searched for things it would load from another host, and any such thing is an error.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from mkdocs.exceptions import PluginError

# What pymdownx.arithmatex leaves in a page: \(...\) in the line, \[...\] on its own.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(?P<latex>.*?)\\[)\]]</\1>', flags=re.DOTALL)

# Tags that make a browser fetch something; a plain link (<a href>) does not.
LOADED = re.compile(
    r'<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc="(?:https?:)?//[^"]*"'
    r'|<link\b(?![^>]*\brel="(?:canonical|next|prev)")[^>]*\bhref="(?:https?:)?//[^"]*"'
)


class FencedDoctests(Extension):
    """Puts every doctest that stands outside a fence into one."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Run before the fences are read (priority 25) and after line ends are made equal (priority 30)."""
        md.preprocessors.register(_FenceDoctests(md), "fenced_doctests", 27)


class _FenceDoctests(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        result: list[str] = []
        fenced = doctest = False
        for line in [*lines, ""]:
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced and not doctest and line.lstrip().startswith(">>> "):
                doctest = True
                result.append(line[: line.index(">>>")] + "```pycon")
            elif doctest and not line.strip():
                doctest = False
                result.append("```")
            result.append(line)
        return result


def on_config(config: Any) -> Any:
    """Add the doctest fences to the Markdown extensions, for pages and docstrings alike."""
    config["markdown_extensions"].append(FencedDoctests())
    return config


def on_page_content(content: str, **_: Any) -> str:
    """Replace every formula of a page by MathML."""
    return FORMULA.sub(_mathml, content)


def on_post_build(config: Any, **_: Any) -> None:
    """Fail if a page would load something from another host."""
    site = Path(config["site_dir"])
    found = [
        f"{page.relative_to(site)}: {tag}"
        for page in sorted(site.rglob("*.html"))
        for tag in LOADED.findall(page.read_text(encoding="utf-8"))
    ]
    if found:
        raise PluginError("the site must not load anything from the network, but does:\n" + "\n".join(found))


def _mathml(match: re.Match[str]) -> str:
    display = "block" if match[2] == "[" else "inline"
    return str(convert(html.unescape(match["latex"]).strip(), display=display))
