"""Requests that are expensive to refuse or to process, all within the size limits of a server.

`scripts/bench --hostile` measures their CPU time. Tests count what the server visits for them.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

MAX_BODY = 1 << 20
NAMES = "{items{userId}}"
BOTH_MARKS = "\u0316\u0300"
"""Two combining marks in the wrong order."""


@dataclass(frozen=True, slots=True)
class HostileRequest:
    """One request. Its documents differ by `salt`, so that no cache knows them."""

    name: str
    make_body: Callable[[str], bytes]
    validates: bool = False
    """Whether the server works on the document only."""
    headers: dict[str, str] = field(default_factory=dict)

    def body(self, salt: int) -> bytes:
        return self.make_body(" " * salt)


def hostile_requests() -> Iterator[HostileRequest]:
    """Yield all requests. Their documents fit `hostile_catalog`."""
    yield from _filters()
    yield from _texts()
    yield from _numbers()
    yield from _lists()
    yield from _documents()
    yield from _raw_bodies()


def _operation(name: str, query: str, **options: Any) -> HostileRequest:
    body = {key: options.pop(key) for key in ("variables", "operationName") if key in options}

    def make_body(salt: str) -> bytes:
        text = json.dumps({"query": query + salt, **body}, ensure_ascii=False, separators=(",", ":"))
        return text.encode()

    return HostileRequest(name, make_body, **options)


# --- inputs ----------------------------------------------------------------------------------------------------

SEARCH, ALIASES = "userByFirstName", 20
CREATE = "mutation($i:[UserInput!]!){createUsers(inputs:$i){results{error{code}}}}"


def _repeated(argument: str, declaration: str) -> str:
    fields = " ".join(f"a{number}:{SEARCH}({argument}){NAMES}" for number in range(ALIASES))
    return f"query({declaration}){{{fields}}}"


def _nested_filter(levels: int, width: int) -> dict[str, Any]:
    return {"and": [_nested_filter(levels - 1, width)] * width} if levels else {}


def _filters() -> Iterator[HostileRequest]:
    filters: dict[str, dict[str, Any]] = {
        "empty filters": {"and": [{}] * 250_000},
        "admitted empty filters": {"and": [{}] * 90},
        "nested empty filters": {"or": [_nested_filter(2, 90)] * 20},
        "deeply nested filters": _nested_filter(10, 2),
        "values of in": {"userId": {"in": ["a"] * 200_000}},
        "lists of values": {"or": [{"userId": {"in": ["a"] * 100}}] * 100},
        "unknown fields": {f"userId{number}": {} for number in range(9_000)},
        "comparisons of one property": {"and": [{"userId": dict.fromkeys(("eq", "ne", "lt", "gt"), "a")}] * 24},
        "a long text": {"firstName": {"contains": "a" * 900_000}},
    }
    for name, value in filters.items():
        query = f"query($f:UserFilter){{{SEARCH}(filter:$f){NAMES}}}"
        yield _operation(f"{name} in a filter", query, variables={"f": value})
        query = _repeated("filter:$f", "$f:UserFilter")
        yield _operation(f"{name} in a filter that is used twenty times", query, variables={"f": value})
    yield _operation(
        "one filter for each parent",
        "query($f:EmailFilter){userByFirstName(limit:500){items{emails(filter:$f,limit:1){items{email}}}}}",
        variables={"f": {"or": [{"email": {"in": ["a"] * 20}}] * 20}},
    )


def _texts() -> Iterator[HostileRequest]:
    texts = {
        "a long text": "ab" * 500_000,
        "a long text to decompose": "\ufdfa" * 340_000,
        "an admitted text to decompose": "\ufdfa" * 13_000,
        "a long text of squared words": "\u33a8" * 340_000,
        "an admitted text of squared words": "\u33a8" * 240_000,
        "a long text of accents": "\u00c5" * 500_000,
        "an admitted text of accents": "\u00c5" * 240_000,
        "a long run of combining marks": BOTH_MARKS * 200_000,
    }
    for name, text in texts.items():
        query = f"query($p:String){{{SEARCH}(prefix:$p){NAMES}}}"
        yield _operation(f"{name} in a condition", query, variables={"p": text})
        query = _repeated("prefix:$p", "$p:String")
        yield _operation(f"{name} in a condition that is used twenty times", query, variables={"p": text})
        row = {"userId": "a", "firstName": text}
        yield _operation(f"{name} in a record", CREATE, variables={"i": [row]})
    for name, text in texts.items():
        rows = [{"userId": f"a{at}", "firstName": text[at::20]} for at in range(20)]
        yield _operation(f"{name} in twenty records", CREATE, variables={"i": rows})
    query = f"query($t:String){{{SEARCH}(nextToken:$t){NAMES}}}"
    yield _operation("a long token", query, variables={"t": "a" * 900_000})
    yield _operation("long ids", "query($i:[ID!]!){nodes(ids:$i){id}}", variables={"i": ["a" * 10_000] * 90})
    picture = [{"userId": f"a{at}", "firstName": "a", "picture": "QUJD" * 60_000} for at in range(4)]
    yield _operation("bytes", CREATE, variables={"i": picture})


def _numbers() -> Iterator[HostileRequest]:
    fields = {
        "Timestamp": "Created",
        "BigInt": "Visits",
        "Float": "Height",
        "Decimal": "Balance",
        "Date": "Birthday",
        "DateTime": "Seen",
        "Duration": "Stay",
    }
    numbers = ["9" * 400, "1e999999999", "-1e-999999999", "0." + "0" * 390 + "1", "1e308"]
    texts = [f'"{number}"' for number in [*numbers, "9" * 900_000, "1e" + "9" * 900_000]]
    texts += [f'"{"P" + "1D" * 450_000}"', f'"PT{"9" * 900_000}S"', f'"2026-01-01T00:00:00.{"9" * 900_000}Z"']
    for scalar, field_name in fields.items():
        query = f"query($n:{scalar}){{userBy{field_name}(from:$n){NAMES}}}"
        for value in [*numbers, *texts]:
            yield _raw(f"{value[:14]} as a {scalar}", f'"variables":{{"n":{value}}}'.encode(), query)
        literal = f"{{userBy{field_name}(from:{'9' * 99_000}){NAMES}}}"
        yield _operation(f"a long literal of a {scalar}", literal, validates=True)
        exponent = f"{{userBy{field_name}(from:1e{'9' * 90_000}){NAMES}}}"
        yield _operation(f"a long exponent of a {scalar}", exponent, validates=True)


def _lists() -> Iterator[HostileRequest]:
    settings: dict[str, Any] = {str(number): number for number in range(9_000)}
    rows: dict[str, list[dict[str, Any]]] = {
        "empty rows": [{}] * 250_000,
        "many rows": [{"userId": "a", "firstName": "b"}] * 20_000,
        "rows of many unknown fields": [{f"a{number}": 1 for number in range(9_000)}],
        "rows of many tags": [{"userId": "a", "firstName": "b", "tags": ["a"] * 9_000}],
        "rows of many invalid codes": [{"userId": "a", "firstName": "b", "codes": ["a"] * 9_000}],
        "rows of many refused codes": [{"userId": "a", "firstName": "b", "codes": ["9" * 20] * 9_000}],
        "rows of large settings": [{"userId": "a", "firstName": "b", "settings": settings}] * 2,
    }
    for name, value in rows.items():
        yield _operation(name, CREATE, variables={"i": value})
    yield _operation("ids", "query($i:[ID!]!){nodes(ids:$i){id}}", variables={"i": ["a"] * 200_000})


# --- documents -------------------------------------------------------------------------------------------------


def _documents() -> Iterator[HostileRequest]:
    quotes = '"""'

    def records(selection: str) -> str:
        return f"{{userByFirstName{{items{{{selection}}}}}}}"

    def fragments(count: int, body: Callable[[int], str], on: str = "Query") -> str:
        return " ".join(f"fragment f{number} on {on}{{{body(number)}}}" for number in range(count))

    def many(count: int, text: Callable[[int], str]) -> str:
        return " ".join(map(text, range(count)))

    documents = {
        "a long name": "{" + "a" * 99_000 + "}",
        "unknown root fields": "{" + many(1_900, lambda number: f"userByFirstNam{number}") + "}",
        "unknown fields": records(many(1_900, lambda number: f"firstNameCanonica{number}")),
        "unknown long fields": records(many(1_900, lambda number: f"firstName{'x' * 35}{number}")),
        "unknown arguments": f"{{userByFirstName({many(650, lambda number: f'prefi{number}:1')}){NAMES}}}",
        "repeated arguments": f"{{users({many(600, lambda number: f'orderBy:CREATED_{number}')}){NAMES}}}",
        "unknown types": f"query({many(390, lambda number: f'$v{number}:Use{number}')}){{__typename}}",
        "unused variables": f"query({many(480, lambda number: f'$v{number}:Int')}){{__typename}}",
        "unused fragments": "{__typename} " + fragments(280, lambda _: "__typename"),
        "unknown directives": "{__typename " + "@skp " * 900 + "}",
        "conditions": "{__typename " + "@skip(if:true) " * 45 + "}",
        "many aliases": records(many(600, lambda number: f"a{number}:userId")),
        "equal fields": records("userId " * 1_900),
        "equal composite fields": "{userByFirstName{" + "items{userId firstName} " * 300 + "}}",
        "equal inline fragments": records("...{userId} " * 480),
        "equal fragments": records("...f0 " * 900) + fragments(1, lambda _: "userId", "User"),
        "conflicting fields": records(many(130, lambda number: f"emails(limit:{number}){{items{{email}}}}")),
        "a chain of doubling fragments": "{...f0} "
        + fragments(180, lambda at: f"...f{at + 1} ...f{at + 1}")
        + " fragment f180 on Query{__typename}",
        "a mesh of fragments": "{...f0} " + fragments(180, lambda at: f"...f{(at + 1) % 180} ...f{(at + 7) % 180}"),
        "a ring of fragments": "{...f0} " + fragments(250, lambda at: f"...f{(at + 1) % 250}"),
        "deep fields": "{a" * 900 + "}" * 900,
        "a deep list": "{user(id:" + "[" * 900 + "]" * 900 + "){userId}}",
        "a deep type": f"query($v:{'[' * 900}Int{']' * 900}){{__typename}}",
        "a long string": '{user(id:"' + "a" * 99_000 + '"){userId}}',
        "escapes": '{user(id:"' + "\\u0041" * 16_500 + '"){userId}}',
        "a block string of lines": f"{{user(id:{quotes}{chr(10) * 98_000}{quotes}){{userId}}}}",
        "a block string of quotes": f"{{user(id:{quotes}{(chr(92) + quotes) * 24_000}{quotes}){{userId}}}}",
        "an indented block string": f"{{user(id:{quotes}{(chr(10) + ' ' * 200 + 'a') * 480}{quotes}){{userId}}}}",
        "commas": "{" + "," * 99_000 + "__typename}",
        "lines": "{" + "\n" * 99_000 + "__typename}",
        "comments": "{" + "#\n" * 1_990 + "__typename}",
        "a long number": f"{{users(limit:{'1' * 99_000}){NAMES}}}",
        "ids as literals": "{nodes(ids:[" + '"a" ' * 1_900 + "]){id}}",
        "invalid values": "{userByFirstName(filter:{userId:{in:[" + "1 " * 1_900 + f"]}}}}){NAMES}}}",
        "invalid long values": "{userByFirstName(filter:{userId:{in:["
        + "abcdefghijklmnop " * 1_900
        + f"]}}}}){NAMES}}}",
        "empty filters as literals": "{userByFirstName(filter:{and:[" + "{}" * 950 + f"]}}){NAMES}}}",
        "invalid filters as literals": "{userByFirstName(filter:{and:[" + "{userI:1}" * 390 + f"]}}){NAMES}}}",
        "rows as literals": "mutation{createUsers(inputs:[" + "{}" * 900 + "]){results{error{code}}}}",
        "literals for each parent": "{userByFirstName(limit:500){items{emails(filter:{or:["
        + "{}" * 90
        + "]}){items{email}}}}}",
        "default values": f"query({many(200, lambda number: f'$v{number}:UserFilter={{}}')}){{__typename}}",
        "introspection": "{" + many(20, lambda at: f"a{at}:__schema{{types{{fields{{args{{type{{name}}}}}}}}}}") + "}",
        "wide introspection": "{__schema{types{fields{" + "name " * 1_900 + "}}}}",
        "aliased introspection": "{__schema{types{" + many(45, lambda at: f"a{at}:fields{{args{{name}}}}") + "}}}",
        "control characters": "\u0001" * 90_000,
        "a large document": "{" + "a" * 900_000 + "}",
    }
    for name, text in documents.items():
        yield _operation(name, text, validates=True)
    operations = {
        "many operations": many(390, lambda at: f"query q{at}{{__typename}}"),
        "operations with one chain of fragments": many(130, lambda at: f"query q{at}{{...f0}}")
        + fragments(130, lambda at: f"...f{at + 1}")
        + "fragment f130 on Query{__typename}",
        "operations with variables in fragments": many(80, lambda at: f"query q{at}($a:Int){{...f0}}")
        + fragments(80, lambda at: f"...f{at + 1}")
        + "fragment f80 on Query{userByFirstName(limit:$a){nextToken}}",
    }
    for name, text in operations.items():
        yield _operation(name, text, validates=True, operationName="q0")


# --- bodies ----------------------------------------------------------------------------------------------------


def _raw_bodies() -> Iterator[HostileRequest]:
    items = {
        "numbers": b"0," * 500_000,
        "floats": b"0.1," * 250_000,
        "long numbers": b"1" * 399 + b",",
        "objects": b"{}," * 340_000,
        "lists": b"[]," * 340_000,
        "empty texts": b'"",' * 340_000,
        "texts of commas": b'",,,,,,,,,,,,,,,,,,",' * 45_000,
    }
    for name, text in items.items():
        repeated = text * ((MAX_BODY - 100) // len(text)) if len(text) < 1_000 else text
        for member in (b"variables", b"extensions"):
            where = f"{name} in {member.decode()}"
            yield _raw(where, b'"%s":{"a":[%s0]}' % (member, repeated))
    yield _raw("keys", b'"variables":{%s"a":0}' % b"".join(b'"%d":0,' % number for number in range(80_000)))
    yield _raw("nested lists", b'"variables":{"a":%s%s}' % (b"[" * 500_000, b"]" * 500_000))
    yield _raw("open lists", b'"variables":{"a":%s' % (b"[" * 1_000_000))
    yield _raw("open strings", b'"variables":{"a":%s' % (b'"' * 1_000_000))
    yield _raw("an open string", b'"variables":{"a":"%s' % (b"," * 1_000_000))
    yield _raw("backslashes", b'"variables":{"a":"%s' % (b"\\" * 1_000_000))
    yield _raw("escaped characters", b'"variables":{"a":"%s"}' % (b"\\u0041" * 170_000))
    yield _raw("surrogate pairs", b'"variables":{"a":"%s"}' % (b"\\ud83d\\ude00" * 80_000))
    yield _raw("spaces", b'"variables":%s{}' % (b" " * 1_000_000))
    text = b'{"query":"{__typename}"}'
    headers = {
        "accept": ",".join(f"a/{number}" for number in range(8_000)),
        "content-type": "application/json" + "; charset" * 7_000,
        "authorization": "Bearer " + "e30." * 15_000,
        "x-api-key": "a" * 60_000,
        "x-request-id": "a" * 60_000,
        "if-none-match": "a," * 30_000,
    }
    for name, value in headers.items():
        yield HostileRequest(f"the header {name}", lambda _: text, headers={name: value})


def _raw(name: str, rest: bytes, query: str = "{__typename}") -> HostileRequest:
    def make_body(salt: str) -> bytes:
        return (b'{"query":"%s",%s}' % ((query + salt).encode(), rest))[:MAX_BODY]

    return HostileRequest(name, make_body)
