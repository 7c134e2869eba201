"""Commits that records name and the project's history does not have, with others whose sources give the same numbers.

Records are kept even if the session that made them comes to nothing; its commits then are not. What stands in for them
is written down by hand in `commits.json`, beside the archives, after some of their records came out equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ..records.text import from_json

FILE = "commits.json"


def stand_ins(results: str | Path) -> Mapping[str, str]:
    """What stands in for which commit; nothing if there is no such file.

    Args:
        results: the folder of archives, or one of them.

    Raises:
        ValueError: The file is no object of full names of commits.
    """
    place = Path(results)
    path = (place.parent if place.is_file() else place) / FILE
    if not path.exists():
        return {}
    try:
        found = from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{str(path)!r} must be JSON, but {error}.") from error
    words = [*found, *found.values()] if isinstance(found, dict) else [found]
    for word in words:
        if not isinstance(word, str) or not re.fullmatch("[0-9a-f]{40}", word):
            raise ValueError(
                f"{str(path)!r} must be an object of full names of commits, such as git rev-parse prints them, but has "
                f"{word!r}."
            )
    return dict(found)
