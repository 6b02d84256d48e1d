"""The CloudFormation template of a table: what AWS's schemas say of it, and that it grants what is used and no more."""

import ast
import json
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from cfnlint.api import lint
from cfnlint.decode import cfn_yaml

from graphql_api import Catalog, Entity, Id, Index, Timestamp, Ttl
from graphql_api.examples.users import catalog as users
from graphql_api.ops.cloudformation import to_yaml, cloudformation_template, create_table_arguments
from graphql_api.storage.engines.dynamodb.table_lifecycle import create_table_request
from graphql_api.storage.values import TableDefinition

ADAPTER = Path(__file__).parents[2] / "graphql_api" / "storage" / "engines" / "dynamodb"


class Session(Entity):
    """Indexes of every kind, and an expiry."""

    session_id: Id[str]
    user_id: str
    seen: Timestamp
    expires: Ttl[Timestamp]

    by_user = Index(hash="user_id", sort="seen", projection=["expires"])
    by_keys = Index(hash="user_id", projection="KEYS_ONLY")
    by_seen = Index(sort="seen", raw=True)


SESSIONS = Catalog(Session).table_definition()
DEFINITIONS = {"users": users.table_definition(), "sessions": SESSIONS, "no indexes": TableDefinition()}


def resources(template: dict[str, Any]) -> dict[str, Any]:
    """The properties of each resource."""
    return {name: resource["Properties"] for name, resource in template["Resources"].items()}


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_the_template_is_valid(definition: TableDefinition) -> None:
    """AWS's schemas and rules find nothing wrong with a template, with a name for the table or without."""
    assert lint(to_yaml(cloudformation_template(definition, "sessions"))) == []
    assert lint(json.dumps(cloudformation_template(definition))) == []


def test_the_validator_finds_mistakes() -> None:
    """A template with a misspelt property and a wrong key type is found out."""
    text = to_yaml(cloudformation_template(SESSIONS))
    assert {found.rule.id for found in lint(text.replace("ManagedPolicyArns", "Policys"))} >= {"E3002"}
    assert lint(text.replace("KeyType: RANGE", "KeyType: ORDER", 1))


def test_the_table_is_the_definition() -> None:
    """The table has the definition's keys, types, indexes and projections, and all that keeps data from harm."""
    assert resources(cloudformation_template(SESSIONS, "sessions"))["Table"] == {
        "TableName": "sessions",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            {"AttributeName": "hashKey", "AttributeType": "S"},
            {"AttributeName": "rangeKey", "AttributeType": "S"},
            {"AttributeName": "sessionUserHashKey", "AttributeType": "S"},
            {"AttributeName": "userRangeKey", "AttributeType": "S"},
            {"AttributeName": "keysRangeKey", "AttributeType": "S"},
            {"AttributeName": "seen", "AttributeType": "N"},
        ],
        "KeySchema": [
            {"AttributeName": "hashKey", "KeyType": "HASH"},
            {"AttributeName": "rangeKey", "KeyType": "RANGE"},
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": name,
                "KeySchema": [
                    {"AttributeName": hash_key, "KeyType": "HASH"},
                    {"AttributeName": range_key, "KeyType": "RANGE"},
                ],
                "Projection": projection,
            }
            for name, hash_key, range_key, projection in (
                (
                    "user",
                    "sessionUserHashKey",
                    "userRangeKey",
                    {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["expires"]},
                ),
                ("keys", "sessionUserHashKey", "keysRangeKey", {"ProjectionType": "KEYS_ONLY"}),
                ("seen", "hashKey", "seen", {"ProjectionType": "ALL"}),
            )
        ],
        "DeletionProtectionEnabled": True,
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "TimeToLiveSpecification": {"AttributeName": "expires", "Enabled": True},
    }


def test_a_table_without_more() -> None:
    """Without a name, indexes and an expiry the template speaks of none, and data still outlives the stack."""
    template = cloudformation_template(TableDefinition())
    assert resources(template)["Table"].keys() == {
        *("BillingMode", "AttributeDefinitions", "KeySchema"),
        *("DeletionProtectionEnabled", "PointInTimeRecoverySpecification"),
    }
    table = template["Resources"]["Table"]
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_the_adapter_makes_the_same_table(definition: TableDefinition) -> None:
    """What the adapter asks of CreateTable is what the template says, to the last attribute."""
    assert create_table_request("one", definition) == {"TableName": "one", **create_table_arguments(definition)}


# --- rights ----------------------------------------------------------------------------------------------------


def granted(policy: str) -> dict[str, set[str]]:
    """What a policy allows, by what it is done with."""
    found: dict[str, set[str]] = {}
    for statement in resources(cloudformation_template(SESSIONS))[policy]["PolicyDocument"]["Statement"]:
        assert statement["Effect"] == "Allow"
        found.setdefault(json.dumps(statement["Resource"]), set()).update(statement["Action"])
    return found


def operations_of_the_adapter() -> set[str]:
    """Every operation of DynamoDB that the adapter's sources name."""
    known = {*botocore.session.get_session().get_service_model("dynamodb").operation_names}
    return {
        node.value
        for path in ADAPTER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known
    }


def test_servers_may_do_what_the_adapter_does() -> None:
    """The policy of servers allows each operation of the adapter but making tables, on this table and its indexes."""
    used = operations_of_the_adapter()
    assert "TransactWriteItems" in used, "a right of its own it has not: its parts are puts, deletes and checks"
    parts = {"PutItem", "DeleteItem", "ConditionCheckItem"}
    making = {"CreateTable", "UpdateTable", "UpdateTimeToLive"}
    assert making <= used
    table, indexes = '{"Fn::GetAtt": ["Table", "Arn"]}', '{"Fn::Sub": "${Table.Arn}/index/*"}'
    assert granted("ServerPolicy") == {
        table: {f"dynamodb:{name}" for name in used - making - {"TransactWriteItems"} | parts},
        indexes: {"dynamodb:Query"},
    }


def test_readers_change_nothing() -> None:
    """The policy of readers has no write in it, and nothing that servers may not do; neither has a wildcard."""
    servers, readers = granted("ServerPolicy"), granted("ReaderPolicy")
    verbs = {action.removeprefix("dynamodb:") for actions in readers.values() for action in actions}
    assert verbs == {"DescribeTable", "DescribeTimeToLive", "Query", "BatchGetItem"}
    assert all(actions <= servers[resource] for resource, actions in readers.items())
    assert not any("*" in action for grants in (servers, readers) for actions in grants.values() for action in actions)


def test_roles_have_one_policy_each() -> None:
    """A role has its own policy and nothing more, and only the named service may take it on."""
    found = resources(cloudformation_template(SESSIONS))
    for name in ("Server", "Reader"):
        role = found[f"{name}Role"]
        assert role["ManagedPolicyArns"] == [{"Ref": f"{name}Policy"}]
        (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Principal"] == {"Service": {"Ref": "TrustedService"}}


# --- YAML ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_yaml_says_what_json_says(definition: TableDefinition) -> None:
    """Read back, the YAML of a template is the template."""
    template = cloudformation_template(definition, "sessions")
    assert json.loads(json.dumps(cfn_yaml.loads(to_yaml(template)))) == json.loads(json.dumps(template))


def test_yaml_quotes_what_it_would_mistake() -> None:
    """Texts that YAML would read as dates, numbers, booleans, comments, maps or tags come back as they are."""
    texts = [
        *("2012-10-17", "1e3", "0x10", "true", "No", "ON", "y", "null", "~", "", " a", "a ", "a: b", "a #b", "#a"),
        *("- a", "*a", "&a", "!a", "%a", "@a", "`a`", "'a'", '"a"', "a\nb", "é", "a:", "a,b", "{a", "[a", "a::b", "."),
    ]
    value = {
        "texts": texts,
        "flags": [True, False],
        "empty": [[], {}],
        "1": {"no": "x"},
        "deep": [[["a"]], {"b": ["c"]}],
    }
    assert json.loads(json.dumps(cfn_yaml.loads(to_yaml(value)))) == value
