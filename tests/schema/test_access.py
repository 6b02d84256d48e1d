"""Access rules of reads: who sees what. Refused searches read nothing."""

from pathlib import Path
from typing import Annotated, Any

import pytest

from graphql_api import Catalog, Entity, HasMany, Id, Index, Ref, RefMany, allow, group, owner
from graphql_api.schema.request_context import Caller
from tests.schema.graphql_client import GraphQLClient, open_client
from tests.schema.guarded_catalog import ADMIN, ANN, ANONYMOUS, BOB, CLERK, RECORDS, ROBOT, Doc, guarded_client
from tests.support.store_doubles import Counts


async def refused(client: GraphQLClient, query: str, caller: Caller, *, gets: int = 0, **variables: Any) -> str:
    """Return the message of the only error. The refusal read nothing except this number of access lookup keys."""
    client.reset_counts()
    error = await client.error(query, variables, caller=caller)
    assert error["extensions"] == {"code": "FORBIDDEN"}
    assert client.counts == Counts(gets=gets)
    return str(error["message"])


async def titles(client: GraphQLClient, field: str, caller: Caller) -> list[str]:
    """Return the titles of the records that a search returns."""
    data = await client.data(f"{{ found: {field} {{ items {{ title }} }} }}", caller=caller)
    return [item["title"] for item in data["found"]["items"]]


OF_ANN = [doc.title for doc in RECORDS if isinstance(doc, Doc) and doc.user_id == "ann"]
OF_F = ["t0", "t3", "t1", "t4"]
"""documents of folder f that have an owner, ordered by owner and id"""


# --- rules without records ---------------------------------------------------------------------------------------


async def test_groups(tmp_path: Path) -> None:
    """Group members see all records of the group, with or without a subject. Others are refused without a read."""
    async with guarded_client(tmp_path) as client:
        for member in (ADMIN, ROBOT):
            assert await titles(client, 'docByFolder(folder: "f")', member) == OF_F
            assert (await client.data('{ doc(id: "d1") { title } }', caller=member))["doc"] == {"title": "t1"}
            assert (await client.data('{ doc(id: "none") { title } }', caller=member))["doc"] is None
        message = await refused(client, "{ docByPay { items { title } } }", BOB)
        assert message == "docByPay is allowed only for members of Payroll or Admin. Omit it, or request membership."
        message = await refused(client, "{ docByPay { items { title } } }", ANONYMOUS)
        assert message == "docByPay is allowed only for members of Payroll or Admin. Sign in."


async def test_signed_in(tmp_path: Path) -> None:
    """`signed_in` admits callers with a subject. A group alone does not suffice."""
    async with guarded_client(tmp_path) as client:
        assert len(await titles(client, "docByTitle", CLERK)) == 12
        for stranger in (ANONYMOUS, ROBOT, Caller("c", subject="")):
            message = await refused(client, "{ docByTitle { items { title } } }", stranger)
            assert message == "docByTitle is allowed only for authenticated callers. Sign in."


async def test_index_rules_override_entity_rules(tmp_path: Path) -> None:
    """Rules of an index replace the rules of its entity, in its own field and in lists with its order."""
    async with guarded_client(tmp_path) as client:
        assert len(await titles(client, "docByTitle", BOB)) == 12
        assert len(await titles(client, "allDocs(orderBy: TITLE_ASC)", BOB)) == 12
        message = await refused(client, "{ allDocs(orderBy: PAY_ASC) { items { title } } }", BOB)
        assert message.startswith("allDocs is allowed only for members of Payroll or Admin. ")
        message = await refused(client, "{ docByAny { items { title } } }", BOB)
        assert message.startswith("docByAny is allowed only for members of Payroll. ")
        assert len(await titles(client, "docByAny", CLERK)) == 12


async def test_an_empty_rule_list_refuses_every_caller(tmp_path: Path) -> None:
    """No caller may read an entity with an empty list of rules. Access lookups still read it."""
    async with guarded_client(tmp_path) as client:
        for query in ('{ deed(id: "s1", holder: "ann") { holder } }', '{ deedById(id: "s1") { items { holder } } }'):
            message = await refused(client, query, ADMIN)
            assert message in (
                "deed is not allowed for any caller. Omit it.",
                "deedById is not allowed for any caller. Omit it.",
            )


# --- owners ------------------------------------------------------------------------------------------------------


async def test_searches_for_one_owner(tmp_path: Path) -> None:
    """A search for the records of one owner succeeds for that owner only. Others are refused without a read."""
    async with guarded_client(tmp_path) as client:
        assert await titles(client, 'docByUser(userId: "ann")', ANN) == OF_ANN
        assert await titles(client, 'docByFolder(folder: "f", filter: { userId: { eq: "ann" } })', ANN) == ["t0", "t3"]
        assert await titles(client, 'docByFolder(folder: "f", userId: { eq: "ann" })', ANN) == ["t0", "t3"]
        for field in (
            'docByUser(userId: "ann")',
            'docByFolder(folder: "f", eq: "ann")',
            'docByFolder(folder: "f", filter: { and: [{ userId: { eq: "ann" } }] })',
        ):
            message = await refused(client, f"{{ {field} {{ items {{ title }} }} }}", BOB)
            rule = "members of Admin or the owner (userId). Request your own records."
            assert message == f"{field.split('(')[0]} is allowed only for {rule}"
            assert (await refused(client, f"{{ {field} {{ items {{ title }} }} }}", ANONYMOUS)).endswith(". Sign in.")


async def test_searches_without_an_owner_return_own_records(tmp_path: Path) -> None:
    """A search without an owner condition returns and counts only records of the caller."""
    query = """query ($more: DocFilter, $token: String) {
        docByFolder(folder: "f", limit: 1, filter: $more, nextToken: $token) {
            items { title } nextToken totalCount { value exact } } }"""
    async with guarded_client(tmp_path) as client:
        first = (await client.data(query, caller=ANN))["docByFolder"]
        assert first["items"] == [{"title": "t0"}]
        assert first["totalCount"] == {"value": 2, "exact": True}
        second = (await client.data(query, {"token": first["nextToken"]}, caller=ANN))["docByFolder"]
        assert (second["items"], second["nextToken"]) == ([{"title": "t3"}], None)
        assert (await client.error(query, {"token": first["nextToken"]}, caller=BOB))["extensions"]["code"] == (
            "INVALID_TOKEN"
        )
        others = {"or": [{"userId": {"eq": "bob"}}, {"userId": {"exists": False}}, {"title": {"eq": "t3"}}]}
        data = (await client.data(query, {"more": others}, caller=ANN))["docByFolder"]
        assert (data["items"], data["totalCount"]["value"]) == ([{"title": "t3"}], 1)


async def test_the_owner_filter_does_not_count_towards_filter_limits(tmp_path: Path) -> None:
    """The enforced owner test does not count towards the size limits of the caller's filter."""
    deep: Any = {"or": [{"title": {"exists": True}}] * 100}
    for _ in range(9):
        deep = {"and": [deep]}
    query = 'query ($filter: DocFilter) { docByFolder(folder: "f", filter: $filter) { items { title } } }'
    async with guarded_client(tmp_path) as client:
        data = await client.data(query, {"filter": deep}, caller=ANN)
        assert data["docByFolder"]["items"] == [{"title": "t0"}, {"title": "t3"}]


async def test_the_owner_filter_narrows_the_key_range(tmp_path: Path) -> None:
    """If the index is sorted by owner, records of other owners are not read."""
    async with guarded_client(tmp_path) as client:
        assert await titles(client, 'docByFolder(folder: "g")', BOB) == ["t10", "t7"]
        assert client.counts.records_read == 2
        client.reset_counts()
        assert await titles(client, 'docByFolder(folder: "g", from: "c")', BOB) == []


async def test_records_of_other_owners(tmp_path: Path) -> None:
    """Records of other owners, records without owner and missing records are refused with the same message."""
    async with guarded_client(tmp_path) as client:
        assert (await client.data('{ doc(id: "d3") { title } }', caller=ANN))["doc"] == {"title": "t3"}
        message = {
            (await client.error(f'{{ doc(id: "{id}") {{ title }} }}', caller=ANN))["message"]
            for id in ("d1", "d2", "none", "x" * 300)
        }
        assert message == {"doc is allowed only for members of Admin or the owner (userId). Request your own records."}
        assert (await refused(client, '{ doc(id: "d3") { title } }', ANONYMOUS)).endswith(". Sign in.")
        listed = await client.data('{ docById(id: "d3") { items { title } } }', caller=ANN)
        assert listed["docById"]["items"] == [{"title": "t3"}]
        listed = await client.data('{ docById(id: "d1") { items { title } totalCount { value } } }', caller=ANN)
        assert listed["docById"] == {"items": [], "totalCount": {"value": 0}}


# --- owners through another entity -------------------------------------------------------------------------------


async def test_owners_through_a_pair_record(tmp_path: Path) -> None:
    """A search for one owned value needs one access lookup: the pair of that value and the caller."""
    query = "query ($id: ID!) { lineById(id: $id) { items { number } } }"
    async with guarded_client(tmp_path) as client:
        data = await client.data(query, {"id": "s1"}, caller=ANN)
        assert [item["number"] for item in data["lineById"]["items"]] == ["0", "2", "4"]
        assert client.counts.gets == 1
        rule = "members of Admin or the owner of shelfId through Deed. Request your own records."
        for id in ("s2", "none"):
            assert await refused(client, query, ANN, gets=1, id=id) == f"lineById is allowed only for {rule}"
        assert await refused(client, query, ANN, id="x" * 1005) == f"lineById is allowed only for {rule}"
        assert (await refused(client, query, ANONYMOUS, id="s1")).endswith(". Sign in.")
        client.reset_counts()
        assert len((await client.data(query, {"id": "s2"}, caller=ADMIN))["lineById"]["items"]) == 3
        assert client.counts.gets == 0


async def test_owners_through_a_pair_need_the_owned_value(tmp_path: Path) -> None:
    """A search without the owned value is refused, and the message names the value. A filter may provide it."""
    async with guarded_client(tmp_path) as client:
        message = await refused(client, '{ lineByColour(colour: "red") { items { number } } }', ANN)
        rule = "members of Admin or the owner of shelfId through Deed. Request one shelfId that you own."
        assert message == f"lineByColour is allowed only for {rule}"
        query = """query ($id: String!) {
            lineByColour(colour: "red", filter: { shelfId: { eq: $id } }) { items { number } } }"""
        data = await client.data(query, {"id": "s1"}, caller=ANN)
        assert [item["number"] for item in data["lineByColour"]["items"]] == ["0", "2", "4"]
        await refused(client, query, ANN, gets=1, id="s2")


async def test_owners_through_another_record(tmp_path: Path) -> None:
    """The owner named by the referenced record sees the record. Without a reference, no owner sees it."""
    query = "query ($id: ID!) { room(id: $id) { roomId } }"
    async with guarded_client(tmp_path) as client:
        assert (await client.data(query, {"id": "attic"}, caller=ANN))["room"] == {"roomId": "attic"}
        assert (await client.data(query, {"id": "cellar"}, caller=BOB))["room"] == {"roomId": "cellar"}
        for id in ("cellar", "void", "none"):
            message = await client.error(query, {"id": id}, caller=ANN)
            assert (
                message["message"]
                == "room is allowed only for the owner of within through Safe. Request your own records."
            )


async def test_access_lookups_are_cached_per_request(tmp_path: Path) -> None:
    """One request makes each access lookup at most once."""
    query = """{ a: line(id: "s1", number: "0") { colour } b: line(id: "s1", number: "2") { colour }
        c: lineById(id: "s1") { items { colour } } }"""
    async with guarded_client(tmp_path) as client:
        await client.data(query, caller=ANN)
        assert client.counts.gets == 3


async def test_explain_reports_access_lookups(tmp_path: Path) -> None:
    """The explain output has an entry for each access lookup, including the lookup of a refused search."""
    async with guarded_client(tmp_path) as client:
        explain_caller = Caller("c", explain=True, subject="ann")
        response = await client.execute('{ lineById(id: "s1") { items { number } } }', caller=explain_caller)
        entries = response.body["extensions"]["explain"]
        assert sorted(one["why"] for one in entries) == [
            "An access lookup: Deed records name the owners.",
            "lineById names the index id.",
        ]
        refusal = await client.execute('{ lineById(id: "s2") { items { number } } }', caller=explain_caller)
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
async def test_properties_restricted_to_a_group(tmp_path: Path, query: str) -> None:
    """Callers outside the group cannot select, filter, sort or count by a restricted property. Nothing is read."""
    async with guarded_client(tmp_path) as client:
        assert await refused(client, query, ADMIN) == PAY


async def test_skipped_properties_are_not_checked(tmp_path: Path) -> None:
    """Restricted fields that `@skip` or `@include` exclude do not cause a refusal."""
    query = """query ($no: Boolean = false) { docByTitle { items {
        title a: pay @include(if: $no) ... @skip(if: true) { pay } ...Pay @include(if: false) } } }
        fragment Pay on Doc { pay }"""
    async with guarded_client(tmp_path) as client:
        data = await client.data(query, caller=ADMIN)
        assert len(data["docByTitle"]["items"]) == 12


async def test_group_members_use_a_restricted_property(tmp_path: Path) -> None:
    """Members of the group select, filter, sort and count by a restricted property."""
    both = Caller("c", subject="root", groups=frozenset({"Admin", "Payroll"}))
    async with guarded_client(tmp_path) as client:
        data = await client.data(
            '{ docByPay(filter: { pay: { ge: "p8" } }) { items { pay } totalCount { value } } doc(id: "d1") { pay } }',
            caller=both,
        )
        assert [item["pay"] for item in data["docByPay"]["items"]] == ["p8", "p9"]
        assert data["docByPay"]["totalCount"]["value"] == 2
        assert data["doc"] == {"pay": "p1"}


async def test_properties_restricted_to_owners(tmp_path: Path) -> None:
    """A property restricted to owners is null with an error in records of other owners."""
    async with guarded_client(tmp_path) as client:
        response = await client.execute("{ docByTitle(limit: 3) { items { note } } }", caller=ANN)
        assert response.body["data"]["docByTitle"]["items"] == [{"note": "n0"}, {"note": None}, {"note": None}]
        message = "Doc.note is allowed only for members of Admin or the owner (userId). Request your own records."
        assert [(error["path"], error["message"]) for error in response.body["errors"]] == [
            (["docByTitle", "items", at, "note"], message) for at in (1, 2)
        ]
        data = await client.data("{ docByTitle { items { note } } }", caller=ADMIN)
        assert len({item["note"] for item in data["docByTitle"]["items"]}) == 12
        assert await refused(client, "{ docByAny { items { note } } }", Caller("c", groups=frozenset({"Payroll"}))) == (
            "Doc.note is allowed only for members of Admin or the owner (userId). Sign in."
        )


async def test_the_owner_property_is_fetched_if_needed(tmp_path: Path) -> None:
    """The owner property is fetched with the record, even if neither index nor selection contains it."""
    async with guarded_client(tmp_path) as client:
        data = await client.data('{ docByUser(userId: "ann") { items { note } } }', caller=ANN)
        assert [item["note"] for item in data["docByUser"]["items"]] == ["n0", "n3", "n6", "n9"]


async def test_properties_restricted_to_owners_through_another_entity(tmp_path: Path) -> None:
    """A property restricted by `owner_through` needs one access lookup for each referenced record."""
    async with guarded_client(tmp_path) as client:
        response = await client.execute("{ docByTitle { items { folder room } } }", caller=BOB)
        seen = {(item["folder"], item["room"] is not None) for item in response.body["data"]["docByTitle"]["items"]}
        assert seen == {("f", True), ("g", False)}
        assert set(response.codes) == {"FORBIDDEN"}
        assert client.counts.gets == 2


async def test_searches_by_a_property_restricted_to_owners(tmp_path: Path) -> None:
    """Owners may search by a property restricted to owners only within their own records."""
    async with guarded_client(tmp_path) as client:
        assert await titles(client, "docByNote", ANN) == OF_ANN
        assert await titles(client, 'docByUser(userId: "ann", filter: { note: { ge: "n6" } })', ANN) == ["t6", "t9"]
        message = await refused(client, '{ docByTitle(filter: { note: { eq: "n1" } }) { items { title } } }', ANN)
        assert (
            message == "Doc.note is allowed only for members of Admin or the owner (userId). Request your own records."
        )
        query = '{ docByTitle(filter: { userId: { eq: "ann" }, note: { ge: "n6" } }) { items { title } } }'
        assert len((await client.data(query, caller=ANN))["docByTitle"]["items"]) == 2
        await refused(client, query, BOB)


# --- joins and nodes ---------------------------------------------------------------------------------------------


async def test_joined_records(tmp_path: Path) -> None:
    """A joined record that the caller may not see is null with an error at its path. The others are returned."""
    async with guarded_client(tmp_path) as client:
        response = await client.execute("{ shelfs { items { shelfId doc { title } } } }", caller=ANN)
        shelves = response.body["data"]["shelfs"]["items"]
        assert {shelf["shelfId"]: shelf["doc"] for shelf in shelves} == {"s1": {"title": "t0"}, "s2": None}
        at = [shelf["shelfId"] for shelf in shelves].index("s2")
        assert [(error["path"], error["message"]) for error in response.body["errors"]] == [
            (
                ["shelfs", "items", at, "doc"],
                "Shelf.doc is allowed only for members of Admin or the owner (userId). Request your own records.",
            )
        ]


async def test_several_joined_records(tmp_path: Path) -> None:
    """Joined records of a list are refused individually, missing records like records of other owners."""
    async with guarded_client(tmp_path) as client:
        response = await client.execute('{ doc(id: "d9") { following { title } } }', caller=BOB)
        assert response.codes == ("FORBIDDEN",)
        response = await client.execute('{ docById(id: "d9") { items { following { title } } } }', caller=ADMIN)
        assert response.body["data"]["docById"]["items"] == [{"following": [{"title": "t10"}, None]}]
        response = await client.execute('{ doc(id: "d0") { following { title } } }', caller=ANN)
        assert response.body["data"]["doc"] == {"following": [None, {"title": "t3"}]}
        assert [error["path"] for error in response.body["errors"]] == [["doc", "following", 0]]
        response = await client.execute('{ doc(id: "d9") { following { title } } }', caller=ANN)
        assert response.body["data"]["doc"] == {"following": [None, None]}
        assert response.codes == ("FORBIDDEN", "FORBIDDEN")


async def test_joined_pages(tmp_path: Path) -> None:
    """Joined pages follow the rules of searches: only own records, with one call for the access lookups."""
    async with guarded_client(tmp_path) as client:
        response = await client.execute("{ shelfs { items { shelfId lines { items { number } } } } }", caller=ANN)
        shelves = {shelf["shelfId"]: shelf["lines"] for shelf in response.body["data"]["shelfs"]["items"]}
        assert shelves == {"s1": {"items": [{"number": "0"}, {"number": "2"}, {"number": "4"}]}, "s2": None}
        assert response.codes == ("FORBIDDEN",)
        assert client.counts.gets == 2
        data = await client.data(
            """{ shelfs(limit: 9) { items { title
                papers(limit: 9) { items { title } totalCount(atMost: 9) { value } } } } }""",
            caller=ANN,
        )
        papers = {shelf["title"]: shelf["papers"] for shelf in data["shelfs"]["items"]}
        assert papers == {
            folder: {"items": [{"title": one} for one in own], "totalCount": {"value": 2}}
            for folder, own in (("f", ["t0", "t3"]), ("g", ["t6", "t9"]))
        }


async def test_properties_of_joined_records(tmp_path: Path) -> None:
    """Selecting a restricted property refuses its join, and nothing is read for that join."""
    async with guarded_client(tmp_path) as client:
        await client.data("{ shelfs { items { shelfId } } }", caller=ADMIN)
        before = client.counts
        client.reset_counts()
        response = await client.execute(
            "{ shelfs { items { shelfId doc { pay } first { pay } papers { items { pay } } } } }", caller=ADMIN
        )
        assert set(response.codes) == {"FORBIDDEN"}
        assert {error["message"] for error in response.body["errors"]} == {PAY}
        assert client.counts == before


async def test_nodes(tmp_path: Path) -> None:
    """`node` and `nodes` apply the access rules of each record individually."""
    query = "query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Doc { title } ... on Line { colour } } }"
    async with guarded_client(tmp_path) as client:
        data = await client.data('{ docById(id: "d0") { items { id } } }', caller=ADMIN)
        (of_ann,) = (item["id"] for item in data["docById"]["items"])
        of_bob = (await client.data('{ doc(id: "d1") { id } }', caller=ADMIN))["doc"]["id"]
        line = (await client.data('{ line(id: "s2", number: "1") { id } }', caller=BOB))["line"]["id"]
        response = await client.execute(query, {"ids": [of_ann, of_bob, line]}, caller=ANN)
        assert response.body["data"]["nodes"] == [{"title": "t0"}, None, None]
        assert [error["path"] for error in response.body["errors"]] == [["nodes", 1], ["nodes", 2]]
        one = "query ($id: ID!) { node(id: $id) { __typename ... on Doc { title } ... on Shelf { title } } }"
        assert (await client.data(one, {"id": of_ann}, caller=ANN))["node"] == {"__typename": "Doc", "title": "t0"}
        assert (await refused(client, one, ANONYMOUS, id=of_ann)) == (
            "Doc is allowed only for members of Admin or the owner (userId). Sign in."
        )
        with_pay = "query ($id: ID!) { node(id: $id) { ... on Doc { pay } } }"
        assert await refused(client, with_pay, ADMIN, id=of_ann) == PAY


async def test_joins_by_a_restricted_property(tmp_path: Path) -> None:
    """A join by a restricted property has the restriction of that property."""

    class Letter(Entity):
        """Refers to shelves by restricted properties."""

        letter_id: Id[str]
        user_id: str
        about: Annotated[str, allow(owner("user_id"))]
        paid: Annotated[list[str], allow(group("Payroll"))]

        shelf = Ref("Shelf", by="about", description="The shelf of the letter.")
        shelves = HasMany("Shelf", via="by_title", by="about", description="The shelves with that title.")
        several = RefMany("Shelf", by="paid", description="The shelves that were paid.")

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
    async with open_client(Catalog(Letter, Shelf), tmp_path, *records) as client:
        response = await client.execute(query, caller=ANN)
        assert sorted(response.body["data"]["letters"]["items"], key=str) == [
            {"shelf": None, "shelves": None},
            {"shelf": {"title": "s1"}, "shelves": {"items": [{"title": "s1"}]}},
        ]
        assert {error["message"] for error in response.body["errors"]} == {
            "Letter.about is allowed only for the owner (userId). Request your own records."
        }
        message = await refused(client, "{ letters { items { several { title } } } }", ANN)
        assert message == "Letter.paid is allowed only for members of Payroll. Omit it, or request membership."
