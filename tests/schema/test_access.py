"""Rules of access: who gets what, and that what is refused was never looked for."""

from pathlib import Path
from typing import Annotated, Any

import pytest

from graphql_api import Catalog, Entity, HasMany, Id, Index, Ref, RefMany, allow, group, owner
from graphql_api.schema.request_context import Caller
from tests.schema.asking import Asked, asked
from tests.schema.guarded import ADMIN, ANN, BOB, CLERK, NOBODY, RECORDS, ROBOT, Doc, guarded
from tests.stores import Counts


async def refused(ask: Asked, query: str, caller: Caller, *, gets: int = 0, **variables: Any) -> str:
    """The message of the one refusal, for which nothing but this many keys of access lookups was read."""
    ask.forget()
    found = await ask.error(query, variables, caller=caller)
    assert found["extensions"] == {"code": "FORBIDDEN"}
    assert ask.counts == Counts(gets=gets)
    return str(found["message"])


async def titles(ask: Asked, field: str, caller: Caller) -> list[str]:
    """The titles of the records that a search gives."""
    data = await ask.data(f"{{ found: {field} {{ items {{ title }} }} }}", caller=caller)
    return [item["title"] for item in data["found"]["items"]]


OF_ANN = [doc.title for doc in RECORDS if isinstance(doc, Doc) and doc.user_id == "ann"]
OF_F = ["t0", "t3", "t1", "t4"]
"""documents of the folder f that have an owner, by owner and then by id"""


# --- rules that need no record -----------------------------------------------------------------------------------


async def test_groups(tmp_path: Path) -> None:
    """Members of a group see all that it may see, whether they have a name or not; others are refused unread."""
    async with guarded(tmp_path) as ask:
        for member in (ADMIN, ROBOT):
            assert await titles(ask, 'docByFolder(folder: "f")', member) == OF_F
            assert (await ask.data('{ doc(id: "d1") { title } }', caller=member))["doc"] == {"title": "t1"}
            assert (await ask.data('{ doc(id: "none") { title } }', caller=member))["doc"] is None
        told = await refused(ask, "{ docByPay { items { title } } }", BOB)
        assert told == "docByPay is allowed only for members of Payroll or Admin. Omit it, or request membership."
        told = await refused(ask, "{ docByPay { items { title } } }", NOBODY)
        assert told == "docByPay is allowed only for members of Payroll or Admin. Sign in."


async def test_signed_in(tmp_path: Path) -> None:
    """Whoever the server knows by a name is signed in; a group alone makes nobody somebody."""
    async with guarded(tmp_path) as ask:
        assert len(await titles(ask, "docByTitle", CLERK)) == 12
        for stranger in (NOBODY, ROBOT, Caller("c", subject="")):
            told = await refused(ask, "{ docByTitle { items { title } } }", stranger)
            assert told == "docByTitle is allowed only for authenticated callers. Sign in."


async def test_rules_of_an_index(tmp_path: Path) -> None:
    """The rules of an index stand in place of the entity's, in its field and in the list that it serves an order of."""
    async with guarded(tmp_path) as ask:
        assert len(await titles(ask, "docByTitle", BOB)) == 12
        assert len(await titles(ask, "allDocs(orderBy: TITLE_ASC)", BOB)) == 12
        told = await refused(ask, "{ allDocs(orderBy: PAY_ASC) { items { title } } }", BOB)
        assert told.startswith("allDocs is allowed only for members of Payroll or Admin. ")
        told = await refused(ask, "{ docByAny { items { title } } }", BOB)
        assert told.startswith("docByAny is allowed only for members of Payroll. ")
        assert len(await titles(ask, "docByAny", CLERK)) == 12


async def test_closed_to_everyone(tmp_path: Path) -> None:
    """An entity with an empty list of rules is read by nobody, and may still tell who owns what."""
    async with guarded(tmp_path) as ask:
        for query in ('{ deed(id: "s1", holder: "ann") { holder } }', '{ deedById(id: "s1") { items { holder } } }'):
            told = await refused(ask, query, ADMIN)
            assert told in (
                "deed is not allowed for any caller. Omit it.",
                "deedById is not allowed for any caller. Omit it.",
            )


# --- owners ------------------------------------------------------------------------------------------------------


async def test_an_owner_that_is_asked_for(tmp_path: Path) -> None:
    """A search that asks for one owner is answered to that owner, and refused unread to any other."""
    async with guarded(tmp_path) as ask:
        assert await titles(ask, 'docByUser(userId: "ann")', ANN) == OF_ANN
        assert await titles(ask, 'docByFolder(folder: "f", filter: { userId: { eq: "ann" } })', ANN) == ["t0", "t3"]
        assert await titles(ask, 'docByFolder(folder: "f", userId: { eq: "ann" })', ANN) == ["t0", "t3"]
        for field in (
            'docByUser(userId: "ann")',
            'docByFolder(folder: "f", eq: "ann")',
            'docByFolder(folder: "f", filter: { and: [{ userId: { eq: "ann" } }] })',
        ):
            told = await refused(ask, f"{{ {field} {{ items {{ title }} }} }}", BOB)
            words = "members of Admin or the owner (userId). Request your own records."
            assert told == f"{field.split('(')[0]} is allowed only for {words}"
            assert (await refused(ask, f"{{ {field} {{ items {{ title }} }} }}", NOBODY)).endswith(". Sign in.")


async def test_an_owner_that_is_not_asked_for(tmp_path: Path) -> None:
    """A search that asks for no owner gives the caller's own records alone, and counts no other ones."""
    query = """query ($more: DocFilter, $token: String) {
        docByFolder(folder: "f", limit: 1, filter: $more, nextToken: $token) {
            items { title } nextToken totalCount { value exact } } }"""
    async with guarded(tmp_path) as ask:
        first = (await ask.data(query, caller=ANN))["docByFolder"]
        assert first["items"] == [{"title": "t0"}]
        assert first["totalCount"] == {"value": 2, "exact": True}
        second = (await ask.data(query, {"token": first["nextToken"]}, caller=ANN))["docByFolder"]
        assert (second["items"], second["nextToken"]) == ([{"title": "t3"}], None)
        assert (await ask.error(query, {"token": first["nextToken"]}, caller=BOB))["extensions"]["code"] == (
            "INVALID_TOKEN"
        )
        others = {"or": [{"userId": {"eq": "bob"}}, {"userId": {"exists": False}}, {"title": {"eq": "t3"}}]}
        found = (await ask.data(query, {"more": others}, caller=ANN))["docByFolder"]
        assert (found["items"], found["totalCount"]["value"]) == ([{"title": "t3"}], 1)


async def test_own_records_under_the_largest_filter(tmp_path: Path) -> None:
    """What is tested for the caller's sake does not count towards the size of the caller's filter."""
    deep: Any = {"or": [{"title": {"exists": True}}] * 100}
    for _ in range(9):
        deep = {"and": [deep]}
    query = 'query ($filter: DocFilter) { docByFolder(folder: "f", filter: $filter) { items { title } } }'
    async with guarded(tmp_path) as ask:
        found = await ask.data(query, {"filter": deep}, caller=ANN)
        assert found["docByFolder"]["items"] == [{"title": "t0"}, {"title": "t3"}]


async def test_own_records_by_range(tmp_path: Path) -> None:
    """Where the index is sorted by the owner, the records of others are not even looked at."""
    async with guarded(tmp_path) as ask:
        assert await titles(ask, 'docByFolder(folder: "g")', BOB) == ["t10", "t7"]
        assert ask.counts.records_read == 2
        ask.forget()
        assert await titles(ask, 'docByFolder(folder: "g", from: "c")', BOB) == []


async def test_a_record_of_somebody_else(tmp_path: Path) -> None:
    """A record of somebody else, one of nobody, and one that is not there are refused in the same words."""
    async with guarded(tmp_path) as ask:
        assert (await ask.data('{ doc(id: "d3") { title } }', caller=ANN))["doc"] == {"title": "t3"}
        told = {
            (await ask.error(f'{{ doc(id: "{id}") {{ title }} }}', caller=ANN))["message"]
            for id in ("d1", "d2", "none", "x" * 300)
        }
        assert told == {"doc is allowed only for members of Admin or the owner (userId). Request your own records."}
        assert (await refused(ask, '{ doc(id: "d3") { title } }', NOBODY)).endswith(". Sign in.")
        listed = await ask.data('{ docById(id: "d3") { items { title } } }', caller=ANN)
        assert listed["docById"]["items"] == [{"title": "t3"}]
        listed = await ask.data('{ docById(id: "d1") { items { title } totalCount { value } } }', caller=ANN)
        assert listed["docById"] == {"items": [], "totalCount": {"value": 0}}


# --- owners through another entity -------------------------------------------------------------------------------


async def test_through_a_pair(tmp_path: Path) -> None:
    """A search that says what is owned takes one lookup, of the pair of that and the caller."""
    query = "query ($id: ID!) { lineById(id: $id) { items { number } } }"
    async with guarded(tmp_path) as ask:
        found = await ask.data(query, {"id": "s1"}, caller=ANN)
        assert [item["number"] for item in found["lineById"]["items"]] == ["0", "2", "4"]
        assert ask.counts.gets == 1
        words = "members of Admin or the owner of shelfId through Deed. Request your own records."
        for id in ("s2", "none"):
            assert await refused(ask, query, ANN, gets=1, id=id) == f"lineById is allowed only for {words}"
        assert await refused(ask, query, ANN, id="x" * 1005) == f"lineById is allowed only for {words}"
        assert (await refused(ask, query, NOBODY, id="s1")).endswith(". Sign in.")
        ask.forget()
        assert len((await ask.data(query, {"id": "s2"}, caller=ADMIN))["lineById"]["items"]) == 3
        assert ask.counts.gets == 0


async def test_through_a_pair_that_is_not_said(tmp_path: Path) -> None:
    """A search that does not say what is owned is refused, and says what to ask for; a filter may say it."""
    async with guarded(tmp_path) as ask:
        told = await refused(ask, '{ lineByColour(colour: "red") { items { number } } }', ANN)
        words = "members of Admin or the owner of shelfId through Deed. Request one shelfId that you own."
        assert told == f"lineByColour is allowed only for {words}"
        query = """query ($id: String!) {
            lineByColour(colour: "red", filter: { shelfId: { eq: $id } }) { items { number } } }"""
        found = await ask.data(query, {"id": "s1"}, caller=ANN)
        assert [item["number"] for item in found["lineByColour"]["items"]] == ["0", "2", "4"]
        await refused(ask, query, ANN, gets=1, id="s2")


async def test_through_a_record(tmp_path: Path) -> None:
    """A record is seen by whom the one names that it belongs to; one that belongs to nothing by nobody."""
    query = "query ($id: ID!) { room(id: $id) { roomId } }"
    async with guarded(tmp_path) as ask:
        assert (await ask.data(query, {"id": "attic"}, caller=ANN))["room"] == {"roomId": "attic"}
        assert (await ask.data(query, {"id": "cellar"}, caller=BOB))["room"] == {"roomId": "cellar"}
        for id in ("cellar", "void", "none"):
            told = await ask.error(query, {"id": id}, caller=ANN)
            assert (
                told["message"]
                == "room is allowed only for the owner of within through Safe. Request your own records."
            )


async def test_one_lookup_a_request(tmp_path: Path) -> None:
    """However often a request asks, the same thing is looked up once."""
    query = """{ a: line(id: "s1", number: "0") { colour } b: line(id: "s1", number: "2") { colour }
        c: lineById(id: "s1") { items { colour } } }"""
    async with guarded(tmp_path) as ask:
        await ask.data(query, caller=ANN)
        assert ask.counts.gets == 3


async def test_explain_tells_of_lookups(tmp_path: Path) -> None:
    """An access lookup is told of as such, and an enforced test as part of the search."""
    async with guarded(tmp_path) as ask:
        asked = Caller("c", explain=True, subject="ann")
        answer = await ask.answer('{ lineById(id: "s1") { items { number } } }', caller=asked)
        told = answer.body["extensions"]["explain"]
        assert sorted(one["why"] for one in told) == [
            "An access lookup: Deed records name the owners.",
            "lineById names the index id.",
        ]
        refusal = await ask.answer('{ lineById(id: "s2") { items { number } } }', caller=asked)
        assert [one["why"] for one in refusal.body["extensions"]["explain"]] == [
            "An access lookup: Deed records name the owners."
        ]


# --- properties --------------------------------------------------------------------------------------------------


PAY = "Doc.pay is allowed only for members of Payroll. Omit it, or request membership."


@pytest.mark.parametrize(
    "query",
    [
        "{ docByTitle { items { title pay } } }",
        "{ docByTitle { edges { node { p: pay } } } }",
        "{ docByTitle { ...Page } } fragment Page on DocConnection { items { ... on Doc { ... { pay } } } }",
        "query ($no: Boolean! = false) { docByTitle { items { title pay @skip(if: $no) } } }",
        "query ($yes: Boolean! = true) { docByTitle { items { ... @include(if: $yes) { pay } title } } }",
        '{ doc(id: "d1") { title pay } }',
        '{ docByTitle(filter: { pay: { eq: "p1" } }) { items { title } } }',
        '{ docByTitle(filter: { or: [{ title: { exists: true } }, { not: { pay: { lt: "p" } } }] }) { complete } }',
        "{ docByPay { items { title } } }",
        "{ allDocs(orderBy: PAY_DESC) { items { title } } }",
        '{ docByTitle(filter: { pay: { eq: "p1" } }) { totalCount { value } } }',
    ],
)
async def test_a_property_for_a_group(tmp_path: Path, query: str) -> None:
    """What only a group may see is neither selected, tested, sorted by nor counted by for others; nothing is read."""
    async with guarded(tmp_path) as ask:
        assert await refused(ask, query, ADMIN) == PAY


async def test_a_property_that_is_left_out(tmp_path: Path) -> None:
    """What `@skip` and `@include` take out of a request is no reason to refuse it."""
    query = """query ($no: Boolean = false) { docByTitle { items {
        title a: pay @include(if: $no) ... @skip(if: true) { pay } ...Pay @include(if: false) } } }
        fragment Pay on Doc { pay }"""
    async with guarded(tmp_path) as ask:
        found = await ask.data(query, caller=ADMIN)
        assert len(found["docByTitle"]["items"]) == 12


async def test_members_see_the_property(tmp_path: Path) -> None:
    """Those of the group select, test, sort and count by it."""
    both = Caller("c", subject="root", groups=frozenset({"Admin", "Payroll"}))
    async with guarded(tmp_path) as ask:
        found = await ask.data(
            '{ docByPay(filter: { pay: { ge: "p8" } }) { items { pay } totalCount { value } } doc(id: "d1") { pay } }',
            caller=both,
        )
        assert [item["pay"] for item in found["docByPay"]["items"]] == ["p8", "p9"]
        assert found["docByPay"]["totalCount"]["value"] == 2
        assert found["doc"] == {"pay": "p1"}


async def test_a_property_for_owners(tmp_path: Path) -> None:
    """What only owners may see is null with an error in the records of others, and there in their own."""
    async with guarded(tmp_path) as ask:
        answer = await ask.answer("{ docByTitle(limit: 3) { items { note } } }", caller=ANN)
        assert answer.body["data"]["docByTitle"]["items"] == [{"note": "n0"}, {"note": None}, {"note": None}]
        told = "Doc.note is allowed only for members of Admin or the owner (userId). Request your own records."
        assert [(error["path"], error["message"]) for error in answer.body["errors"]] == [
            (["docByTitle", "items", at, "note"], told) for at in (1, 2)
        ]
        found = await ask.data("{ docByTitle { items { note } } }", caller=ADMIN)
        assert len({item["note"] for item in found["docByTitle"]["items"]}) == 12
        assert await refused(ask, "{ docByAny { items { note } } }", Caller("c", groups=frozenset({"Payroll"}))) == (
            "Doc.note is allowed only for members of Admin or the owner (userId). Sign in."
        )


async def test_owners_are_read_with_what_is_theirs(tmp_path: Path) -> None:
    """What tells the owner comes with the record, also where the index does not carry it and nobody selected it."""
    async with guarded(tmp_path) as ask:
        found = await ask.data('{ docByUser(userId: "ann") { items { note } } }', caller=ANN)
        assert [item["note"] for item in found["docByUser"]["items"]] == ["n0", "n3", "n6", "n9"]


async def test_a_property_for_owners_through_another_entity(tmp_path: Path) -> None:
    """What only those may see whom another record names takes one lookup for each of those records."""
    async with guarded(tmp_path) as ask:
        answer = await ask.answer("{ docByTitle { items { folder room } } }", caller=BOB)
        seen = {(item["folder"], item["room"] is not None) for item in answer.body["data"]["docByTitle"]["items"]}
        assert seen == {("f", True), ("g", False)}
        assert set(answer.codes) == {"FORBIDDEN"}
        assert ask.counts.gets == 2


async def test_searching_by_a_property_for_owners(tmp_path: Path) -> None:
    """Only within what is theirs may owners search by what only owners may see."""
    async with guarded(tmp_path) as ask:
        assert await titles(ask, "docByNote", ANN) == OF_ANN
        assert await titles(ask, 'docByUser(userId: "ann", filter: { note: { ge: "n6" } })', ANN) == ["t6", "t9"]
        told = await refused(ask, '{ docByTitle(filter: { note: { eq: "n1" } }) { items { title } } }', ANN)
        assert told == "Doc.note is allowed only for members of Admin or the owner (userId). Request your own records."
        query = '{ docByTitle(filter: { userId: { eq: "ann" }, note: { ge: "n6" } }) { items { title } } }'
        assert len((await ask.data(query, caller=ANN))["docByTitle"]["items"]) == 2
        await refused(ask, query, BOB)


# --- joins and nodes ---------------------------------------------------------------------------------------------


async def test_joined_records(tmp_path: Path) -> None:
    """A joined record that the caller may not see is null with an error at its place; the others are there."""
    async with guarded(tmp_path) as ask:
        answer = await ask.answer("{ shelfs { items { shelfId doc { title } } } }", caller=ANN)
        shelves = answer.body["data"]["shelfs"]["items"]
        assert {shelf["shelfId"]: shelf["doc"] for shelf in shelves} == {"s1": {"title": "t0"}, "s2": None}
        at = [shelf["shelfId"] for shelf in shelves].index("s2")
        assert [(error["path"], error["message"]) for error in answer.body["errors"]] == [
            (
                ["shelfs", "items", at, "doc"],
                "Shelf.doc is allowed only for members of Admin or the owner (userId). Request your own records.",
            )
        ]


async def test_several_joined_records(tmp_path: Path) -> None:
    """Of several joined records each is refused by itself, one that is not there like one of somebody else."""
    async with guarded(tmp_path) as ask:
        answer = await ask.answer('{ doc(id: "d9") { following { title } } }', caller=BOB)
        assert answer.codes == ("FORBIDDEN",)
        answer = await ask.answer('{ docById(id: "d9") { items { following { title } } } }', caller=ADMIN)
        assert answer.body["data"]["docById"]["items"] == [{"following": [{"title": "t10"}, None]}]
        answer = await ask.answer('{ doc(id: "d0") { following { title } } }', caller=ANN)
        assert answer.body["data"]["doc"] == {"following": [None, {"title": "t3"}]}
        assert [error["path"] for error in answer.body["errors"]] == [["doc", "following", 0]]
        answer = await ask.answer('{ doc(id: "d9") { following { title } } }', caller=ANN)
        assert answer.body["data"]["doc"] == {"following": [None, None]}
        assert answer.codes == ("FORBIDDEN", "FORBIDDEN")


async def test_joined_pages(tmp_path: Path) -> None:
    """A joined page is a search like any other: lookups for each parent in one call, and own records alone."""
    async with guarded(tmp_path) as ask:
        answer = await ask.answer("{ shelfs { items { shelfId lines { items { number } } } } }", caller=ANN)
        shelves = {shelf["shelfId"]: shelf["lines"] for shelf in answer.body["data"]["shelfs"]["items"]}
        assert shelves == {"s1": {"items": [{"number": "0"}, {"number": "2"}, {"number": "4"}]}, "s2": None}
        assert answer.codes == ("FORBIDDEN",)
        assert ask.counts.gets == 2
        found = await ask.data(
            """{ shelfs(limit: 9) { items { title
                papers(limit: 9) { items { title } totalCount(atMost: 9) { value } } } } }""",
            caller=ANN,
        )
        papers = {shelf["title"]: shelf["papers"] for shelf in found["shelfs"]["items"]}
        assert papers == {
            folder: {"items": [{"title": one} for one in own], "totalCount": {"value": 2}}
            for folder, own in (("f", ["t0", "t3"]), ("g", ["t6", "t9"]))
        }


async def test_properties_of_joined_records(tmp_path: Path) -> None:
    """A property that only a group may see refuses the join that would show it, and nothing is read for that join."""
    async with guarded(tmp_path) as ask:
        await ask.data("{ shelfs { items { shelfId } } }", caller=ADMIN)
        before = ask.counts
        ask.forget()
        answer = await ask.answer(
            "{ shelfs { items { shelfId doc { pay } first { pay } papers { items { pay } } } } }", caller=ADMIN
        )
        assert set(answer.codes) == {"FORBIDDEN"}
        assert {error["message"] for error in answer.body["errors"]} == {PAY}
        assert ask.counts == before


async def test_nodes(tmp_path: Path) -> None:
    """A record by its `id` is seen by those who may see it; of several each is refused by itself."""
    query = "query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Doc { title } ... on Line { colour } } }"
    async with guarded(tmp_path) as ask:
        found = await ask.data('{ docById(id: "d0") { items { id } } }', caller=ADMIN)
        (of_ann,) = (item["id"] for item in found["docById"]["items"])
        of_bob = (await ask.data('{ doc(id: "d1") { id } }', caller=ADMIN))["doc"]["id"]
        line = (await ask.data('{ line(id: "s2", number: "1") { id } }', caller=BOB))["line"]["id"]
        answer = await ask.answer(query, {"ids": [of_ann, of_bob, line]}, caller=ANN)
        assert answer.body["data"]["nodes"] == [{"title": "t0"}, None, None]
        assert [error["path"] for error in answer.body["errors"]] == [["nodes", 1], ["nodes", 2]]
        one = "query ($id: ID!) { node(id: $id) { __typename ... on Doc { title } ... on Shelf { title } } }"
        assert (await ask.data(one, {"id": of_ann}, caller=ANN))["node"] == {"__typename": "Doc", "title": "t0"}
        assert (await refused(ask, one, NOBODY, id=of_ann)) == (
            "Doc is allowed only for members of Admin or the owner (userId). Sign in."
        )
        with_pay = "query ($id: ID!) { node(id: $id) { ... on Doc { pay } } }"
        assert await refused(ask, with_pay, ADMIN, id=of_ann) == PAY


async def test_by_what_a_record_is_joined(tmp_path: Path) -> None:
    """Where only some may see the property by which records are joined, the join is for those too."""

    class Letter(Entity):
        """Says in private whose document it is about."""

        letter_id: Id[str]
        user_id: str
        about: Annotated[str, allow(owner("user_id"))]
        paid: Annotated[list[str], allow(group("Payroll"))]

        shelf = Ref("Shelf", by="about", description="What it is about.")
        shelves = HasMany("Shelf", via="by_title", by="about", description="Those with that title.")
        several = RefMany("Shelf", by="paid", description="What was paid.")

    class Shelf(Entity):
        """A shelf."""

        shelf_id: Id[str]
        title: str

        by_title = Index(hash="title")

    records = (
        Letter(letter_id="l1", user_id="ann", about="s1", paid=["s1"]),
        Letter(letter_id="l2", user_id="bob", about="s1", paid=["s1"]),
        Shelf(shelf_id="s1", title="s1"),
    )
    query = "{ letters { items { shelf { title } shelves { items { title } } } } }"
    async with asked(Catalog(Letter, Shelf), tmp_path, *records) as ask:
        answer = await ask.answer(query, caller=ANN)
        assert sorted(answer.body["data"]["letters"]["items"], key=str) == [
            {"shelf": None, "shelves": None},
            {"shelf": {"title": "s1"}, "shelves": {"items": [{"title": "s1"}]}},
        ]
        assert {error["message"] for error in answer.body["errors"]} == {
            "Letter.about is allowed only for the owner (userId). Request your own records."
        }
        told = await refused(ask, "{ letters { items { several { title } } } }", ANN)
        assert told == "Letter.paid is allowed only for members of Payroll. Omit it, or request membership."
