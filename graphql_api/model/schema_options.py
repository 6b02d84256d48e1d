"""Options of a catalog that decide which types and fields its GraphQL schema has."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from graphql_api.errors import Violation, nearest

PageStyle = Literal["both", "relay", "appsync"]
"""the fields and arguments of pages: `items` and `nextToken` (appsync), `edges` and `pageInfo` (relay), or both"""

Verb = Literal["create", "update", "put", "delete"]

VERBS: tuple[Verb, ...] = get_args(Verb)


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """Options of a catalog that decide which types and fields its GraphQL schema has."""

    pages: PageStyle = "both"
    mutations: Sequence[Verb] = VERBS
    batches: bool = True
    """whether each mutation also exists for a list of records"""

    def violations(self) -> Iterator[Violation]:
        """Yield what is wrong with the options."""
        styles = get_args(PageStyle)
        if self.pages not in styles:
            remedy = f"Choose one of {', '.join(map(repr, styles))}.{nearest(str(self.pages), styles)}"
            yield Violation("Catalog", "pages", f"is {self.pages!r}.", remedy)
        if self.batches not in (True, False):
            yield Violation("Catalog", "batches", f"is {self.batches!r}.", "Set it to True or False.")
        verbs: object = self.mutations
        if isinstance(verbs, str):  # A text is a sequence of letters.
            yield Violation("Catalog", "mutations", f"is the text {verbs!r}.", f"Pass a list: mutations=[{verbs!r}].")
            return
        for verb in self.mutations:
            if verb not in VERBS:
                remedy = f"Choose from {', '.join(map(repr, VERBS))}.{nearest(str(verb), VERBS)}"
                yield Violation("Catalog", "mutations", f"contains {verb!r}.", remedy)
