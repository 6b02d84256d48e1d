"""Random operations on the catalog of `hidden_catalog`, of a caller who may not see all records."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.laws.hidden_catalog import IDS, TITLES

DOCUMENT = "id documentId author title place code version related"
NOTE = "id noteId documentId writer text number"
CARD = "id cardId holder title version"


@dataclass
class Operations:
    """Random operations of one caller."""

    random: Random
    tokens: list[str] = field(default_factory=list)
    global_ids: list[str] = field(default_factory=list)

    def next(self) -> str:
        """Return a document."""
        kinds: Sequence[Callable[[], str]] = (
            *(self.search,) * 6,
            *(self.record,) * 3,
            self.nodes,
            *(self.create, self.put, self.update, self.delete) * 2,
            self.batch,
        )
        return self.random.choice(kinds)()

    def note_answer(self, body: Any) -> None:
        """Collect tokens and ids from an answer."""
        text = json.dumps(body)
        self.tokens += re.findall(r'"(?:nextToken|cursor|endCursor|startCursor)": "([^"]+)"', text)
        self.global_ids += re.findall(r'"id": "([^"]+)"', text)
        del self.tokens[:-20], self.global_ids[:-20]

    # --- parts -------------------------------------------------------------------------------------------------

    def choose(self, *options: str) -> str:
        return self.random.choice(options)

    @property
    def id(self) -> str:
        ids = (*IDS, *self.global_ids) if self.random.random() < 0.2 else IDS
        return f'"{self.random.choice(ids)}"'

    @property
    def title(self) -> str:
        return f'"{self.random.choice(TITLES)}"'

    @property
    def name(self) -> str:
        return self.choose('"ann"', '"ann"', '"bob"', "null")

    @property
    def page(self) -> str:
        size = self.random.choice((1, 1, 2, 3, 50))
        style = self.random.choice((f"limit: {size}", f"first: {size}", f"last: {size}"))
        if self.tokens and self.random.random() < 0.5:
            token = self.random.choice(self.tokens)
            start = {"limit": "nextToken", "first": "after", "last": "before"}[style.partition(":")[0]]
            style += f', {start}: "{token}"'
        return style

    def filter(self, *properties: str) -> str:
        if self.random.random() < 0.5:
            return ""
        part = self.random.choice(properties)
        operator = self.choose(f"eq: {self.title}", f"prefix: {self.title}", f"ne: {self.title}", "exists: true")
        one, missing = f"{{{part}: {{{operator}}}}}", f"{{{properties[0]}: {{exists: false}}}}"
        return f", filter: {self.choose(one, f'{{not: {one}}}', f'{{or: [{one}, {missing}]}}')}"

    def connection(self, selection: str) -> str:
        count = self.choose("", "totalCount(atMost: 100) { value exact }")
        return (
            f"{{ items {{ {selection} }} nextToken edges {{ cursor }} complete stoppedBy {count} "
            "shards { expected answered } pageInfo { startCursor endCursor hasNextPage hasPreviousPage } }"
        )

    def document(self) -> str:
        more = (
            "previous { documentId title }",
            "others { documentId }",
            f"notes({self.page}) {self.connection(NOTE)}",
            "grade",
            "",
            "",
            "",
        )
        return f"{DOCUMENT} {self.random.choice(more)}"

    # --- reads -------------------------------------------------------------------------------------------------

    def search(self) -> str:
        page, reverse = self.page, self.choose("", ", reverse: true")
        author = self.name.replace("null", '"nobody"')
        documents = self.filter("title", "place", "author", "code", "documentId", "grade")
        fields = (
            f"allDocuments({page}{documents}, orderBy: {self.choose('TITLE_DESC_PLACE_DESC', 'PLACE_ASC')}) "
            + self.connection(self.document()),
            f"documents(author: {author}, {page}{documents}, orderBy: TITLE_DESC) {self.connection(self.document())}",
            f"documentByTitle({page}{documents}{reverse}) {self.connection(self.document())}",
            f"documentByTitle({page}, prefix: {self.title}{documents}) {self.connection(DOCUMENT)}",
            f"documentByPlace({page}{documents}{reverse}) {self.connection(self.document())}",
            f"documentByAny({page}{documents}) {self.connection(DOCUMENT)}",
            f"documentByAny(orderBy: TITLE_DESC{self.filter('title', 'place')}) {{ items {{ documentId }} }}",
            f"documentByAuthor(author: {author}, {page}{documents}) {self.connection(self.document())}",
            f"documentById({page}{documents}) {self.connection(DOCUMENT)}",
            f"noteByDocument(documentId: {self.id}, {page}) {self.connection(NOTE)}",
            f"noteByText({page}{self.filter('text', 'writer', 'noteId')}{reverse}) "
            + self.connection(f"{NOTE} document {{ title }}"),
            f"cardByTitle({page}{self.filter('title', 'holder', 'memo', 'salary')}) "
            + self.connection(f"{CARD} {self.choose('', 'memo', 'salary')}"),
            f"cardByHolder(holder: {author}, {page}{self.filter('title', 'memo')}) {self.connection(CARD + ' memo')}",
            f"cardByMemo({page}) {self.connection(CARD)}",
            f"folderByTitle({page}) {self.connection('folderId title')}",
            f"folders({page}, filter: {{folderId: {{eq: {self.id}}}}}) {self.connection('folderId title')}",
            f"pageById(id: {self.id}, {page}) {self.connection('folderId number text')}",
            f"caseById(id: {self.id}, {page}) {self.connection('caseId step holder text')}",
            f"caseByText({page}, history: {self.choose('ALL', 'PAST', 'CURRENT')}) "
            + self.connection("caseId step holder text"),
            f"sessionByUntil({page}) {self.connection('sessionId userId until')}",
        )
        return f"{{ {self.random.choice(fields)} }}"

    def record(self) -> str:
        id = self.id
        field_text = self.choose(
            f"document(id: {id}) {{ {self.document()} }}",
            f'document(code: "c{self.random.choice(IDS)}") {{ {self.document()} }}',
            f"note(id: {id}) {{ {NOTE} document {{ title }} }}",
            f"card(id: {id}) {{ {CARD} memo {self.choose('', 'salary')} }}",
            f"folder(id: {id}) {{ folderId title pages({self.page}) {self.connection('number text')} }}",
            f"page(id: {id}, number: {self.random.randint(1, 4)}) {{ text }}",
            f"case(id: {id}) {{ step holder text }}",
            f"case(id: {id}, step: {self.title}) {{ step holder text }}",
            f"session(id: {id}) {{ userId until }}",
            f"share(id: {id}, holder: {self.name}) {{ holder }}",
        )
        return f"{{ {field_text} }}"

    def nodes(self) -> str:
        ids = ", ".join(self.id for _ in range(3))
        return f"{{ nodes(ids: [{ids}]) {{ id __typename ... on Document {{ title }} ... on Note {{ text }} }} }}"

    # --- writes ------------------------------------------------------------------------------------------------

    def _input(self, verb: str) -> tuple[str, str, str]:
        """Return the entity, the input and the selection of a mutation."""
        id, is_update = self.id, verb == "update"
        key = (lambda name: "id") if is_update else (lambda name: name)
        options = (
            (
                "Document",
                f"{key('documentId')}: {id}, "
                + self._some(
                    f"author: {self.name}",
                    f"title: {self.title}",
                    f'code: "c{self.random.choice(IDS)}"',
                    f"previousId: {self.id}",
                    f"place: {self.title}",
                    'grade: "x"',
                    required=[] if is_update else ['author: "ann"', f"title: {self.title}"],
                ),
                f"document {{ {DOCUMENT} }}",
            ),
            (
                "Note",
                f"{key('noteId')}: {id}, "
                + self._some(
                    f"documentId: {self.id}",
                    f"text: {self.title}",
                    required=[] if is_update else ['writer: "ann"', f"text: {self.title}"],
                ),
                f"note {{ {NOTE} }}",
            ),
            (
                "Card",
                f"{key('cardId')}: {id}, "
                + self._some(
                    f"title: {self.title}",
                    f"memo: {self.title}",
                    'salary: "3"',
                    required=[] if is_update else ['holder: "ann"', f"title: {self.title}"],
                ),
                f"card {{ {CARD} }}",
            ),
            (
                "Page",
                f"{key('folderId')}: {id}, text: {self.title}" + (", number: 1" if is_update else ""),
                "page { number text }",
            ),
            (
                "Case",
                f"{key('caseId')}: {id}, step: {self.title}, "
                + self._some(
                    f"text: {self.title}", required=[] if is_update else ['holder: "ann"', f"text: {self.title}"]
                ),
                "case { step text }",
            ),
        )
        return self.random.choice(options)

    def _some(self, *optional: str, required: Sequence[str]) -> str:
        known = {text.partition(":")[0] for text in required}
        chosen = [text for text in optional if text.partition(":")[0] not in known and self.random.random() < 0.4]
        return ", ".join([*required, *chosen])

    def _write(self, verb: str) -> str:
        entity, fields, selection = self._input(verb)
        version = (
            ", expectedVersion: 1"
            if verb != "create" and entity in ("Document", "Card") and self.random.random() < 0.2
            else ""
        )
        return f"mutation {{ {verb}{entity}(input: {{{fields}}}{version}) {{ {selection} }} }}"

    def create(self) -> str:
        return self._write("create")

    def put(self) -> str:
        return self._write("put")

    def update(self) -> str:
        return self._write("update")

    def delete(self) -> str:
        id = self.id
        field_text = self.choose(
            *(f"deleteDocument(id: {id})",) * 3,
            f"deleteNote(id: {id})",
            f"deleteCard(id: {id})",
            f"deleteFolder(id: {id})",
            f"deletePage(id: {id}, number: 1)",
            f"deleteCase(id: {id}, step: {self.title})",
        )
        return f"mutation {{ {field_text} {{ deletedId }} }}"

    def batch(self) -> str:
        entity, fields, selection = self._input("create")
        _, others, _ = next(one for one in iter(lambda: self._input("create"), None) if one[0] == entity)
        # The number of a counter may differ, so it is always selected: later reads would show it.
        selects_record = entity == "Note" or self.random.random() < 0.5
        results = f"results {{ {selection if selects_record else ''} error {{ code message }} }}"
        return f"mutation {{ create{entity}s(inputs: [{{{fields}}}, {{{others}}}]) {{ {results} }} }}"
