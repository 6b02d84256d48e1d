"""Count private words in docstrings, comments, strings of the code, the documents and the SDL.

Prints one line per package. Exits with 1 if any part has more than LIMIT private words in 1,000 words.
`scripts/plain-language PATH …` lists each occurrence below these paths. `--long` also lists sentences of over 25 words.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 3.0
SUFFIXES = frozenset({".py", ".md", ".html", ".ts", ".tsx"})
LONGEST_SENTENCE = 25
PRIVATE = re.compile(
    r"\b(told|tells|stands|standing|whoever|whomever|somebody|nobody|everybody|anew|beside|mend|thrice|so many|as it is"
    r"|behind|what becomes of|the other way round)\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
EXCEPTIONS: dict[str, str] = {
    # "text that contains the word": "why it is a technical use",
    "standing queue": "a term of CoDel: a queue that never drains",
    "queue is a standing one": "the same",
}


class Text(NamedTuple):
    """A piece of prose and its position."""

    path: Path
    line: int
    text: str


def code_texts(path: Path) -> Iterator[Text]:
    """Yield docstrings, comments, and string literals of more than one word."""
    source = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(
                path, token.start[0], re.sub(r"#\s*(noqa\S*|type: \S*)[\w\s,:-]* - |^#+|noqa.*$", "", token.string)
            )
    inside: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            inside.update(parts)
            yield Text(path, node.lineno, " … ".join(str(part.value) for part in parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield Text(path, node.lineno, node.value)


def page_texts(path: Path) -> Iterator[Text]:
    """Yield the lines of a page, including its examples."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        yield Text(path, number, line)


def texts_of(path: Path) -> list[Text]:
    """Return all texts of a file that have at least two words."""
    texts = code_texts(path) if path.suffix == ".py" else page_texts(path)
    return [text for text in texts if len(WORD.findall(text.text)) > 1]


def private_words(text: str) -> list[str]:
    """Return the private words of a text, except those that an exception explains."""
    for phrase in EXCEPTIONS:
        text = text.replace(phrase, "")
    return PRIVATE.findall(text)


def long_sentences(text: str) -> list[str]:
    """Return the sentences with more than `LONGEST_SENTENCE` words."""
    sentences = re.split(r"(?<=[.!?])\s+|\n\n|: |;", text)
    return [one for one in sentences if len(WORD.findall(one)) > LONGEST_SENTENCE]


def files_below(path: Path) -> list[Path]:
    """Return the files with prose below a path."""
    if path.is_file():
        return [path]
    return sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES and "vendor" not in one.parts)


def parts() -> dict[str, list[Path]]:
    """Return the files of each part with its own limit, by name: each package, the documents, the SDL."""
    package = ROOT / "graphql_api"
    found = {"graphql_api (modules)": sorted(package.glob("*.py"))}
    for folder in sorted(one for one in package.iterdir() if (one / "__init__.py").is_file()):
        found[f"graphql_api.{folder.name}"] = files_below(folder)
    found["documents"] = [*files_below(ROOT / "docs"), *sorted(ROOT.glob("*.md"))]
    found["schema.graphql"] = [ROOT / "schema.graphql"]
    return found


def list_occurrences(paths: list[Path], *, long: bool) -> None:
    """Print each private word, and each long sentence if requested."""
    for path in (file for one in paths for file in files_below(one)):
        for text in texts_of(path):
            for word in private_words(text.text):
                print(f"{path}:{text.line}: {word}: {' '.join(text.text.split())[:140]}")
            for sentence in long_sentences(text.text) if long else ():
                print(f"{path}:{text.line}: over {LONGEST_SENTENCE} words: {' '.join(sentence.split())[:200]}")


def main() -> int:
    """Print the count of every part."""
    names = [name for name in sys.argv[1:] if name != "--long"]
    if names:
        list_occurrences([Path(name).resolve() for name in names], long="--long" in sys.argv)
        return 0
    failed = False
    for name, files in parts().items():
        texts = [text for file in files for text in texts_of(file)]
        words = sum(len(WORD.findall(text.text)) for text in texts)
        private = sum(len(private_words(text.text)) for text in texts)
        share = 1_000 * private / max(words, 1)
        failed |= share > LIMIT
        verdict = "  TOO MANY" if share > LIMIT else ""
        print(f"{name:24} {private:5} private words in {words:7,}: {share:5.1f} in 1,000{verdict}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
