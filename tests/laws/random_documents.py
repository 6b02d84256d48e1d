"""Random queries on any schema: aliases, fragments, conditions, variables, and arguments that find records."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import graphql

from tests.schema.graphql_text import needed_arguments

MAX_DEPTH = 5
TOKENS = {"nextToken", "after", "before"}
SIZES = {"limit", "first", "last", "atMost"}
STYLES = (("limit", "nextToken"), ("first", "after"), ("last", "before"), ())
LEAVES = ("String", "Int", "Float", "Boolean", "ID")


@dataclass
class RandomDocuments:
    """A source of random queries. `values`: texts of literals by the name of their scalar or property."""

    schema: graphql.GraphQLSchema
    random: Random
    values: Mapping[str, Sequence[str]]
    tokens: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    """sealed record keys"""
    _fragments: list[str] = field(default_factory=list)
    _variables: dict[str, tuple[str, Any]] = field(default_factory=dict)
    _aliases: int = 0

    def draw(self) -> tuple[str, dict[str, Any]]:
        """Return a document and its variables."""
        self._fragments, self._variables, self._aliases = [], {}, 0
        root = self.schema.query_type
        assert root is not None
        names = self.random.choices([*root.fields], k=self.random.choice((1, 1, 1, 2, 3)))
        fields = " ".join(self._field(root, name, 0, alias=True) for name in names)
        if self._chance(0.1):
            fields += " __typename"
        head = ", ".join(f"${name}: {kind}" for name, (kind, _) in self._variables.items())
        query = f"query Q{f'({head})' if head else ''} {{ {fields} }}"
        variables = {name: value for name, (_, value) in self._variables.items()}
        return " ".join([query, *self._fragments]), variables

    def note(self, body: Any) -> None:
        """Collect tokens and keys from a response, as arguments of later documents."""
        text = json.dumps(body)
        self.tokens += re.findall(r'"(?:nextToken|endCursor|startCursor|cursor)": "([^"]{40,})"', text)
        self.keys += re.findall(r'"id": "([^"]{20,})"', text)
        del self.tokens[:-20], self.keys[:-20]

    # --- selections --------------------------------------------------------------------------------------------

    def _field(self, parent: Any, name: str, depth: int, *, alias: bool = False) -> str:
        definition = parent.fields[name]
        arguments = self._arguments(definition.args)
        named = graphql.get_named_type(definition.type)
        prefix = ""
        if alias or arguments or definition.args or self._chance(0.15):
            self._aliases += 1
            prefix = f"a{self._aliases}: "
        below = self._selection(named, depth + 1) if graphql.is_composite_type(named) else ""
        return f"{prefix}{name}{arguments}{self._condition()} {below}"

    def _selection(self, kind: Any, depth: int) -> str:
        if graphql.is_abstract_type(kind):
            possible = self.random.sample(self.schema.get_possible_types(kind), k=1)
            parts = [f"... on {one.name} {self._selection(one, depth)}" for one in possible]
            return f"{{ __typename {' '.join(f'{name} ' for name in self._names(kind, MAX_DEPTH))} {' '.join(parts)} }}"
        parts = [self._field(kind, name, depth) for name in self._names(kind, depth)]
        if self._chance(0.15) or not parts:
            parts.append("__typename")
        if self._chance(0.15):
            parts.append(f"... on {kind.name}{self._condition()} {{ {parts.pop()} }}")
        if self._chance(0.15):
            name = f"F{len(self._fragments)}"
            self._fragments.append(f"fragment {name} on {kind.name} {{ {parts.pop()} }}")
            parts.append(f"...{name}{self._condition()}")
        return f"{{ {' '.join(parts)} }}"

    def _names(self, kind: Any, depth: int) -> Sequence[str]:
        """Choose fields. Fields with records are chosen often at first, and never at the greatest depth."""
        leaves = [name for name, one in kind.fields.items() if not graphql.is_composite_type(_named(one))]
        others = [name for name in kind.fields if name not in leaves]
        chosen = self.random.sample(leaves, k=self.random.randint(0, min(6, len(leaves))))
        if depth < MAX_DEPTH and others:
            chosen += self.random.sample(others, k=self.random.randint(0, min(2, len(others))))
            if "items" in others and "items" not in chosen and self._chance(0.7):
                chosen.append("items")
        return self.random.sample(chosen, k=len(chosen))

    def _condition(self) -> str:
        if not self._chance(0.12):
            return ""
        directive, value = self.random.choice(("skip", "include")), self._chance(0.5)
        if self._chance(0.3):
            return f" @{directive}(if: {json.dumps(value)})"
        return f" @{directive}(if: ${self._variable('Boolean!', value)})"

    # --- arguments ---------------------------------------------------------------------------------------------

    def _arguments(self, declared: Mapping[str, Any]) -> str:
        types = {name: one.type for name, one in declared.items()}
        style, chosen = self.random.choice(STYLES), {*needed_arguments(types)}
        optional = [name for name in types if name not in TOKENS | SIZES and not name.endswith("In")]
        chosen |= {*self.random.sample(optional, k=min(len(optional), self.random.choice((0, 0, 0, 1, 1, 2))))}
        chosen |= {name for name in (*style, "atMost") if name in types and (self.tokens or name not in TOKENS)}
        texts = [f"{name}: {self._argument(name, types[name])}" for name in types if name in chosen]
        return f"({', '.join(texts)})" if texts else ""

    def _argument(self, name: str, kind: Any) -> str:
        if name in SIZES:
            size = self.random.choice((1, 2, 3, 5, 50, 501 if self._chance(0.1) else 4))
            return f"${self._variable('Int', size)}" if self._chance(0.3) else str(size)
        if name in TOKENS:
            return f'"{self.random.choice(self.tokens)}"'
        text = self._literal(kind)
        if graphql.is_scalar_type(graphql.get_nullable_type(kind)) and name in self.values and self._chance(0.9):
            text = self.random.choice(self.values[name])
        bare = graphql.get_nullable_type(kind)
        if self._chance(0.25) and graphql.is_leaf_type(bare) and not graphql.is_enum_type(bare):
            return f"${self._variable(str(kind), json.loads(text))}"
        return text

    def _literal(self, kind: Any, depth: int = 0) -> str:
        bare = graphql.get_nullable_type(kind)
        if graphql.is_list_type(bare):
            return f"[{', '.join(self._literal(bare.of_type, depth + 1) for _ in range(self.random.randint(1, 3)))}]"
        if graphql.is_enum_type(bare):
            return str(self.random.choice([*bare.values]))
        if not graphql.is_input_object_type(bare):
            return self._scalar(bare.name)
        required = [name for name, one in bare.fields.items() if graphql.is_non_null_type(one.type)]
        names = required or [self.random.choice([*bare.fields])]
        if depth > MAX_DEPTH:
            names = required
        return f"{{{', '.join(f'{name}: {self._literal(bare.fields[name].type, depth + 1)}' for name in names)}}}"

    def _scalar(self, name: str) -> str:
        if name == "Boolean":
            return self.random.choice(("true", "false"))
        if name == "ID" and self.keys and self._chance(0.4):
            return json.dumps(self.random.choice(self.keys))
        return self.random.choice(self.values.get(name) or ['"x"'])

    def _variable(self, kind: str, value: Any) -> str:
        name = f"v{len(self._variables)}"
        self._variables[name] = kind, value
        return name

    def _chance(self, share: float) -> bool:
        return self.random.random() < share


def _named(definition: graphql.GraphQLField) -> graphql.GraphQLNamedType:
    return graphql.get_named_type(definition.type)


def literal_pools(literals: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the texts of literals by name, without duplicates."""
    pools: dict[str, dict[str, None]] = {}
    for name, text in literals:
        pools.setdefault(name, {})[text] = None
    return {name: [*texts] for name, texts in pools.items()}
