"""CloudFormation template of the table of a catalog and its access policies (docs/how-to/dynamodb.md)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from graphql_api.storage import TableDefinition
from graphql_api.storage.engines import create_table_arguments

READ_ACTIONS = ("DescribeTable", "DescribeTimeToLive", "Query", "BatchGetItem")
"""actions for searches and reads by key"""
WRITE_ACTIONS = ("BatchWriteItem", "PutItem", "DeleteItem", "ConditionCheckItem")
"""additional actions for writes; a transaction requires the actions of its parts"""
SCAN_ACTIONS = ("Scan",)
"""actions with which opening a table without a record checks that it is empty; searches never scan"""
MIGRATION_ACTIONS = ("UpdateTable", "UpdateTimeToLive")
"""additional actions for `shardql migrate`, which also scans"""
INDEX_ACTIONS = ("Query",)
"""actions on indexes"""

Part = Mapping[str, Any]


def cloudformation_template(definition: TableDefinition, table: str | None = None) -> dict[str, Any]:
    """Return a template with the table, and policies and roles for servers, read-only servers and migrations.

    Without a table name, CloudFormation generates one.
    """
    name = {} if table is None else {"TableName": table}
    ttl = definition.ttl_attribute
    expiry = {} if ttl is None else {"TimeToLiveSpecification": {"AttributeName": ttl, "Enabled": True}}
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "A ShardQL table, and roles with the minimal permissions of servers.",
        "Parameters": {
            "TrustedService": {
                "Type": "String",
                "Description": "The service that runs the servers and may assume their roles.",
                "Default": "ecs-tasks.amazonaws.com",
                "AllowedPattern": r"[a-z0-9.-]+\.amazonaws\.com(\.cn)?",
            }
        },
        "Resources": {
            "Table": {
                "Type": "AWS::DynamoDB::Table",
                "DeletionPolicy": "Retain",
                "UpdateReplacePolicy": "Retain",
                "Properties": {
                    **name,
                    **create_table_arguments(definition),
                    # CreateTable does not accept the following.
                    "DeletionProtectionEnabled": True,
                    "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
                    **expiry,
                },
            },
            "ServerPolicy": _policy(
                "Reads and writes records, and checks that a new table is empty.",
                ("SearchAndRead", READ_ACTIONS, INDEX_ACTIONS),
                ("Write", WRITE_ACTIONS, ()),
                ("Scan", SCAN_ACTIONS, ()),
            ),
            "ReaderPolicy": _policy("Reads records only.", ("SearchAndRead", READ_ACTIONS, INDEX_ACTIONS)),
            "MigratorPolicy": _policy(
                "Rewrites records, and changes indexes and expiry of the table.",
                ("SearchAndRead", READ_ACTIONS, INDEX_ACTIONS),
                ("Write", WRITE_ACTIONS, ()),
                ("Scan", SCAN_ACTIONS, ()),
                ("Migrate", MIGRATION_ACTIONS, ()),
            ),
            "ServerRole": _role("ServerPolicy"),
            "ReaderRole": _role("ReaderPolicy"),
            "MigratorRole": _role("MigratorPolicy"),
        },
        "Outputs": {
            "StoreUrl": {
                "Description": "The URL of the store, for --store and open_catalog.",
                "Value": {"Fn::Sub": "dynamodb://${Table}?region=${AWS::Region}"},
            },
            "TableArn": _arn("The table.", "Table"),
            "ServerRoleArn": _arn("The role of servers.", "ServerRole"),
            "ReaderRoleArn": _arn("The role of read-only servers.", "ReaderRole"),
            "MigratorRoleArn": _arn("The role of migrations.", "MigratorRole"),
        },
    }


# --- policies --------------------------------------------------------------------------------------------------


def _policy(description: str, *grants: tuple[str, Sequence[str], Sequence[str]]) -> Part:
    """Return a policy. A grant is a name, the allowed actions on the table, and those on its indexes."""
    table, indexes = {"Fn::GetAtt": ["Table", "Arn"]}, {"Fn::Sub": "${Table.Arn}/index/*"}
    statements = [
        {"Sid": name, "Effect": "Allow", "Action": [f"dynamodb:{one}" for one in actions], "Resource": resource}
        for grant, on_table, on_indexes in grants
        for name, actions, resource in ((grant, on_table, table), (f"{grant}Indexes", on_indexes, indexes))
        if actions
    ]
    return {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {
            "Description": description,
            "PolicyDocument": {"Version": "2012-10-17", "Statement": statements},
        },
    }


def _role(policy: str) -> Part:
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": {
                "Version": "2012-10-17",
                "Statement": [
                    {"Effect": "Allow", "Principal": {"Service": {"Ref": "TrustedService"}}, "Action": "sts:AssumeRole"}
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
