"""CloudFormation template of the table of a catalog and its access policies (docs/dynamodb.md)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from graphql_api.storage import IndexDefinition, TableDefinition, attribute_types

READ_ACTIONS = ("DescribeTable", "DescribeTimeToLive", "Query", "BatchGetItem")
"""actions for searches and reads by key"""
WRITE_ACTIONS = ("BatchWriteItem", "PutItem", "DeleteItem", "ConditionCheckItem")
"""additional actions for writes; a transaction requires the actions of its parts"""
GROWTH_ACTIONS = ("Scan",)
"""actions that opening a table needs once for an added shard generation; searches never scan"""
INDEX_ACTIONS = ("Query",)
"""actions on indexes"""

Part = Mapping[str, Any]


def cloudformation_template(definition: TableDefinition, table: str | None = None) -> dict[str, Any]:
    """Return a template with the table, and policies and roles for servers and read-only servers.

    Without a table name, CloudFormation generates one.
    """
    name = {} if table is None else {"TableName": table}
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "A ShardQL table, and roles with the minimal permissions of servers.",
        "Parameters": {
            "TrustedService": {
                "Type": "String",
                "Description": "The service that runs the servers and may assume their roles.",
                "Default": "ecs-tasks.amazonaws.com",
                "AllowedPattern": r"[a-z0-9.-]+\.amazonaws\.com(\.cn)?",
            },
        },
        "Resources": {
            "Table": {
                "Type": "AWS::DynamoDB::Table",
                "DeletionPolicy": "Retain",
                "UpdateReplacePolicy": "Retain",
                "Properties": {**name, **create_table_arguments(definition), **_safeguards(definition)},
            },
            "ServerPolicy": _policy(
                "Reads and writes records, and checks the start time of added shard generations.",
                ("SearchAndRead", READ_ACTIONS, INDEX_ACTIONS),
                ("Write", WRITE_ACTIONS, ()),
                ("CheckGrowth", GROWTH_ACTIONS, ()),
            ),
            "ReaderPolicy": _policy("Reads records only.", ("SearchAndRead", READ_ACTIONS, INDEX_ACTIONS)),
            "ServerRole": _role("ServerPolicy"),
            "ReaderRole": _role("ReaderPolicy"),
        },
        "Outputs": {
            "StoreUrl": {
                "Description": "The URL of the store, for --store and open_catalog.",
                "Value": {"Fn::Sub": "dynamodb://${Table}?region=${AWS::Region}"},
            },
            "TableArn": _arn("The table.", "Table"),
            "ServerRoleArn": _arn("The role of servers.", "ServerRole"),
            "ReaderRoleArn": _arn("The role of read-only servers.", "ReaderRole"),
        },
    }


def create_table_arguments(definition: TableDefinition) -> dict[str, Any]:
    """Return the arguments of CreateTable without the name, which CloudFormation accepts too."""
    types = attribute_types(definition, definition.indexes)
    indexes = [_index(index) for index in definition.indexes]
    return {
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()],
        "KeySchema": _keys(definition.hash_attribute, definition.range_attribute),
        **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
    }


def _index(index: IndexDefinition) -> Part:
    carried = index.projection
    projection = (
        {"ProjectionType": "INCLUDE", "NonKeyAttributes": [*carried]}
        if isinstance(carried, tuple)
        else {"ProjectionType": carried}
    )
    return {
        "IndexName": index.name,
        "KeySchema": _keys(index.hash_attribute, index.range_attribute),
        "Projection": projection,
    }


def _keys(hash_attribute: str, range_attribute: str) -> Sequence[Part]:
    return [
        {"AttributeName": hash_attribute, "KeyType": "HASH"},
        {"AttributeName": range_attribute, "KeyType": "RANGE"},
    ]


def _safeguards(definition: TableDefinition) -> Part:
    """Return properties that CreateTable does not accept: backups, deletion protection and expiry."""
    ttl = definition.ttl_attribute
    return {
        "DeletionProtectionEnabled": True,
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        **({} if ttl is None else {"TimeToLiveSpecification": {"AttributeName": ttl, "Enabled": True}}),
    }


# --- policies --------------------------------------------------------------------------------------------------

PolicyGrant = tuple[str, Sequence[str], Sequence[str]]
"""a name, the allowed actions on the table, and those on its indexes"""


def _policy(description: str, *grants: PolicyGrant) -> Part:
    statements = [statement for grant in grants for statement in _statements(*grant)]
    return {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {
            "Description": description,
            "PolicyDocument": {"Version": "2012-10-17", "Statement": statements},
        },
    }


def _statements(name: str, on_table: Sequence[str], on_indexes: Sequence[str]) -> Iterator[Part]:
    table, indexes = {"Fn::GetAtt": ["Table", "Arn"]}, {"Fn::Sub": "${Table.Arn}/index/*"}
    for suffix, actions, resource in (("", on_table, table), ("Indexes", on_indexes, indexes)):
        if actions:
            yield {
                "Sid": f"{name}{suffix}",
                "Effect": "Allow",
                "Action": [f"dynamodb:{action}" for action in actions],
                "Resource": resource,
            }


def _role(policy: str) -> Part:
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Principal": {"Service": {"Ref": "TrustedService"}},
                        "Action": "sts:AssumeRole",
                    }
                ],
            },
            "ManagedPolicyArns": [{"Ref": policy}],
        },
    }


def _arn(description: str, resource: str) -> Part:
    return {"Description": description, "Value": {"Fn::GetAtt": [resource, "Arn"]}}


# --- YAML ------------------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./-]|:(?=\S)|[ ,](?=[A-Za-z0-9]))*[A-Za-z0-9.]?")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""texts that YAML parses as other types"""


def to_yaml(value: Any) -> str:
    """Format maps, lists, texts and booleans as YAML. Texts are quoted as in JSON."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any, indent: str = "") -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            if isinstance(part, Mapping | list | tuple) and part:
                yield f"{indent}{_scalar(name)}:"
                yield from _lines(part, f"{indent}  ")
            else:
                yield f"{indent}{_scalar(name)}: {_scalar(part)}"
    elif isinstance(value, list | tuple) and value:
        for part in value:
            first, *rest = _lines(part, f"{indent}  ")
            yield f"{indent}- {first.strip()}"
            yield from rest
    else:
        yield f"{indent}{_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return orjson.dumps(value).decode()
