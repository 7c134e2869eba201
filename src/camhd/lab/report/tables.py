"""Tables as Markdown and LaTeX."""

from __future__ import annotations

import re

from .summary import Cell, Table

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
    "²": r"$^2$",
    "γ": r"$\gamma$",
    "\n": " ",
}


def markdown(table: Table) -> str:
    r"""A table of Markdown; the best of each column in bold.

    >>> from .summary import Column
    >>> columns = [Column("m", "Method", numeric=False), Column("n", "n")]
    >>> print(markdown(Table("Digits", columns, [[Cell("a|b"), Cell("3")]])))
    | Method | n |
    |:--|--:|
    | a\|b | 3 |
    """
    lines = [
        [escaped(column.title) for column in table.columns],
        *(
            [f"**{escaped(cell.text)}**" if cell.mark == "best" else escaped(cell.text) for cell in row]
            for row in table.rows
        ),
    ]
    rule = "".join("|--:" if column.numeric else "|:--" for column in table.columns) + "|"
    texts = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([texts[0], rule, *texts[1:]])


def latex(table: Table) -> str:
    """A table for LaTeX with the package booktabs; the best of each column in bold."""
    head = " & ".join(_latex(column.title) for column in table.columns)
    rows = [" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}[htbp]",
            r"  \centering",
            rf"  \caption{{{_latex(table.title)}. {_latex(table.note)}}}",
            rf"  \begin{{tabular}}{{{''.join('r' if column.numeric else 'l' for column in table.columns)}}}",
            r"    \toprule",
            rf"    {head} \\",
            r"    \midrule",
            *(f"    {row}" for row in rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def escaped(text: str) -> str:
    r"""Text for Markdown in which nothing is markup.

    >>> print(escaped("θ* < θ_t"))
    θ\* \< θ\_t
    """
    return re.sub(r"([\\`*_{}\[\]<>|])", r"\\\1", text.replace("\n", " "))


def _latex_cell(cell: Cell) -> str:
    text = _latex(cell.text)
    return rf"\textbf{{{text}}}" if cell.mark == "best" else text


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
