"""The paper's two numberings: its source's labels keep the numbers of a thesis chapter, its print counts anew.

The source calls the section on feed-forward networks `Sec:5.4.3` and its table `tab:3`; LaTeX prints "Section 4.3" and
"Table 2", because a label is only a name.
"""

from __future__ import annotations

# In the order of the source; a number is what LaTeX counts up to there.
PRINTED = {
    "Sec:5.3.3": "Section 3.3",
    "Sec:5.3.4": "Section 3.4",
    "Sec:5.3.5": "Section 3.5",
    "Sec:5.4.1": "Section 4.1",
    "Sec:5.4.2": "Section 4.2",
    "Sec:5.4.3": "Section 4.3",
    "Sec:5.4.4": "Section 4.4",
    "Sec:5.4.5": "Section 4.5",
    "Sec:5.5": "Section 5",
    "Sec:5.5.1": "Section 5.1",
    "Sec:5.5.2": "Section 5.2",
    "Sec:5.5.3": "Section 5.3",
    "tab:2": "Table 1",
    "tab:3": "Table 2",
    "tab:4": "Table 3",
    "tab:5": "Table 4",
    "Fig:4.CAM-HD": "Figure 1",
    "Fig:1": "Figure 2",
    "Fig:2": "Figure 3",
    "Fig:3": "Figure 4",
    "Fig:4": "Figure 5",
    "Fig:5": "Figure 6",
    "Fig:6": "Figure 7",
    "Fig:7": "Figure 8",
    "Fig:7b": "Figure 9",
    "Fig:8": "Figure 10",
    "thm:1": "Theorem 1",
    "thm:2": "Theorem 3",
    "Alg:3.1": "Algorithm 1",
}
# The source has no label for these; the numbers are those of the print.
UNLABELLED = {"Theorem 2", "Theorem 4"}


def said(place: str) -> str:
    """A place of the paper for people; what is none of its labels stays as it is.

    >>> said("tab:3"), said("poster of Baydin et al.")
    ('Table 2 in print, tab:3 in the source', 'poster of Baydin et al.')
    """
    return f"{PRINTED[place]} in print, {place} in the source" if place in PRINTED else place
