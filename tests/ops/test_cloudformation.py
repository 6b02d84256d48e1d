"""The CloudFormation template of a table: validity, table definition and least-privilege policies."""

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
from graphql_api.ops.cloudformation import cloudformation_template, to_yaml
from graphql_api.storage.engines.dynamodb.table_requests import create_table_arguments
from graphql_api.storage.values import TableDefinition

ADAPTER = Path(__file__).parents[2] / "graphql_api" / "storage" / "engines" / "dynamodb"


class Session(Entity):
    """An entity with indexes of every kind and a time to live."""

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
def test_template_is_valid(definition: TableDefinition) -> None:
    """Templates with and without a table name pass the CloudFormation linter."""
    assert lint(to_yaml(cloudformation_template(definition, "sessions"))) == []
    assert lint(json.dumps(cloudformation_template(definition))) == []


def test_linter_detects_errors() -> None:
    """The linter detects a misspelt property and an invalid key type."""
    text = to_yaml(cloudformation_template(SESSIONS))
    assert {found.rule.id for found in lint(text.replace("ManagedPolicyArns", "Policys"))} >= {"E3002"}
    assert lint(text.replace("KeyType: RANGE", "KeyType: ORDER", 1))


def test_table_matches_the_definition() -> None:
    """The table has the keys, types, indexes and projections of the definition, and is protected against deletion."""
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


def test_minimal_table() -> None:
    """A template without name, indexes and expiry omits them; deleting the stack still retains the table."""
    template = cloudformation_template(TableDefinition())
    assert resources(template)["Table"].keys() == {
        *("BillingMode", "AttributeDefinitions", "KeySchema"),
        *("DeletionProtectionEnabled", "PointInTimeRecoverySpecification"),
    }
    table = template["Resources"]["Table"]
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_adapter_creates_the_same_table(definition: TableDefinition) -> None:
    """The template contains the arguments with which the adapter creates the table."""
    properties = resources(cloudformation_template(definition))["Table"]
    assert {name: properties[name] for name in create_table_arguments(definition)} == create_table_arguments(definition)


# --- permissions -------------------------------------------------------------------------------------------------


def allowed_actions(policy: str) -> dict[str, set[str]]:
    """The allowed actions of a policy, by resource."""
    found: dict[str, set[str]] = {}
    for statement in resources(cloudformation_template(SESSIONS))[policy]["PolicyDocument"]["Statement"]:
        assert statement["Effect"] == "Allow"
        found.setdefault(json.dumps(statement["Resource"]), set()).update(statement["Action"])
    return found


def adapter_operations() -> set[str]:
    """All DynamoDB operations in the source code of the adapter."""
    known = {*botocore.session.get_session().get_service_model("dynamodb").operation_names}
    return {
        node.value
        for path in ADAPTER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known
    }


def test_server_policy_matches_the_adapter() -> None:
    """The server policy allows the operations of the adapter, except creating tables, on this table and its indexes."""
    used = adapter_operations()
    assert "TransactWriteItems" in used, "it has no permission of its own: its parts are puts, deletes and checks"
    parts = {"PutItem", "DeleteItem", "ConditionCheckItem"}
    creation = {"CreateTable", "UpdateTable", "UpdateTimeToLive"}
    assert creation <= used
    table, indexes = '{"Fn::GetAtt": ["Table", "Arn"]}', '{"Fn::Sub": "${Table.Arn}/index/*"}'
    assert allowed_actions("ServerPolicy") == {
        table: {f"dynamodb:{name}" for name in used - creation - {"TransactWriteItems"} | parts},
        indexes: {"dynamodb:Query"},
    }


def test_reader_policy_has_no_writes() -> None:
    """The reader policy is a subset of the server policy without writes; neither has wildcards."""
    servers, readers = allowed_actions("ServerPolicy"), allowed_actions("ReaderPolicy")
    verbs = {action.removeprefix("dynamodb:") for actions in readers.values() for action in actions}
    assert verbs == {"DescribeTable", "DescribeTimeToLive", "Query", "BatchGetItem"}
    assert all(actions <= servers[resource] for resource, actions in readers.items())
    assert not any("*" in action for grants in (servers, readers) for actions in grants.values() for action in actions)


def test_migrator_policy_changes_indexes() -> None:
    """The policy of migrations also allows changes of indexes and expiry, and not the creation of tables."""
    servers, migrators = allowed_actions("ServerPolicy"), allowed_actions("MigratorPolicy")
    added = {resource: actions - servers[resource] for resource, actions in migrators.items()}
    assert [sorted(actions) for actions in added.values() if actions] == [
        ["dynamodb:UpdateTable", "dynamodb:UpdateTimeToLive"]
    ]
    assert all(actions <= migrators[resource] for resource, actions in servers.items())


def test_roles_have_one_policy_each() -> None:
    """Each role has exactly its own policy, and only the given service can assume it."""
    found = resources(cloudformation_template(SESSIONS))
    for name in ("Server", "Reader", "Migrator"):
        role = found[f"{name}Role"]
        assert role["ManagedPolicyArns"] == [{"Ref": f"{name}Policy"}]
        (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Principal"] == {"Service": {"Ref": "TrustedService"}}


# --- YAML ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_yaml_equals_json(definition: TableDefinition) -> None:
    """The YAML output of a template equals its JSON output."""
    template = cloudformation_template(definition, "sessions")
    assert json.loads(json.dumps(cfn_yaml.loads(to_yaml(template)))) == json.loads(json.dumps(template))


def test_yaml_quotes_ambiguous_texts() -> None:
    """Texts that YAML could parse as other types are quoted."""
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
