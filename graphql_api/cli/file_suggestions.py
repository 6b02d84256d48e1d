"""Which file somebody may have meant who named one that there is not."""

from difflib import get_close_matches
from pathlib import Path


def nearest_file(path: Path) -> str:
    """` Did you mean 'x.db'?` for the file beside it with the closest name and the same ending, or nothing."""
    stems = [beside.stem for beside in path.parent.glob(f"*{path.suffix}")] if path.suffix else []
    close = get_close_matches(path.stem, stems, n=1)
    return f" Did you mean {str(path.with_stem(close[0]))!r}?" if close else ""
