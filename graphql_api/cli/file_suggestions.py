"""Suggests the file that a mistyped file name may mean."""

from difflib import get_close_matches
from pathlib import Path


def suggest_file(path: Path) -> str:
    """Return ` Did you mean 'x.db'?` for the closest name with the same suffix in the directory, or an empty text."""
    stems = [sibling.stem for sibling in path.parent.glob(f"*{path.suffix}")] if path.suffix else []
    close = get_close_matches(path.stem, stems, n=1)
    return f" Did you mean {str(path.with_stem(close[0]))!r}?" if close else ""
