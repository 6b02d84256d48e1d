"""The CloudFormation template of a table with its service: validity, permissions, keys, health, stopping."""

import json
import string
from random import Random
from typing import Any

import pytest
from cfnlint.api import lint

from graphql_api.cli import load_command
from graphql_api.examples.users import catalog as users
from graphql_api.ops.cloudformation import cloudformation_template, to_yaml
from graphql_api.ops.service_stack import service_template
from graphql_api.server import Settings
from graphql_api.server.settings import parse_secret

ADDRESS = "graphql_api.examples.users:catalog"
DEFINITION = users.table_definition()
TEMPLATE = service_template(DEFINITION, ADDRESS, "users", {"SHARDQL_JWT_AUDIENCES": "web"})


def properties(name: str) -> dict[str, Any]:
    """The properties of a resource."""
    found: dict[str, Any] = TEMPLATE["Resources"][name]["Properties"]
    return found


def container() -> dict[str, Any]:
    """The definition of the only container."""
    (found,) = properties("TaskDefinition")["ContainerDefinitions"]
    return dict(found)


def test_template_is_valid() -> None:
    """The CloudFormation linter accepts the template, and finds an error in a changed one."""
    text = to_yaml(TEMPLATE)
    assert lint(text) == []
    wrong = text.replace("AwsvpcConfiguration", "VpcConfiguration").replace("Ref: TargetGroup", "Ref: Targets")
    assert {found.rule.id for found in lint(wrong)} >= {"E3002", "E1020"}


def test_the_table_and_its_roles_are_the_same() -> None:
    """The parts of the table are those of the template without a service, so a stack can change to this one."""
    plain = cloudformation_template(DEFINITION, "users")
    for section in ("Parameters", "Resources", "Outputs"):
        assert {name: TEMPLATE[section][name] for name in plain[section]} == plain[section]


def test_the_server_is_started_as_in_production() -> None:
    """The command and the variables are options and settings of `serve`, on the table of the stack."""
    shardql, serve, address, *options = container()["Command"]
    assert (shardql, serve, address) == ("shardql", "serve", ADDRESS)
    known = {option for parameter in load_command("serve").params for option in parameter.opts}
    assert {word for word in options if word.startswith("--")} <= known
    variables = {one["Name"]: one["Value"] for one in container()["Environment"]}
    assert variables["SHARDQL_STORE"] == {"Fn::Sub": "dynamodb://${Table}?region=${AWS::Region}"}
    assert variables["SHARDQL_PRODUCTION"] == "1"
    assert variables["SHARDQL_JWT_AUDIENCES"] == "web"
    settings = {f"SHARDQL_{name.upper()}" for name in Settings.model_fields}
    assert {*variables, *(one["Name"] for one in container()["Secrets"])} <= settings


def test_the_task_has_the_role_of_a_server() -> None:
    """Tasks act with the policy of servers. The role that starts them reaches neither the table nor other secrets."""
    assert properties("TaskDefinition")["TaskRoleArn"] == {"Fn::GetAtt": ["ServerRole", "Arn"]}
    (policy,) = properties("ExecutionRole")["Policies"]
    grants = {one["Sid"]: (one["Action"], json.dumps(one["Resource"])) for one in policy["PolicyDocument"]["Statement"]}
    assert not any("dynamodb" in action or "*" in action for actions, _ in grants.values() for action in actions)
    assert [name for name, (_, resource) in grants.items() if resource == '"*"'] == ["Registry"]
    assert grants["Registry"][0] == ["ecr:GetAuthorizationToken"]
    assert grants["Keys"] == (["secretsmanager:GetSecretValue"], '[{"Ref": "TokenKeys"}, {"Ref": "RecordKey"}]')
    assert "ManagedPolicyArns" not in properties("ExecutionRole")


def test_generated_secrets_are_keys(random: Random) -> None:
    """What Secrets Manager generates is a valid key. The key of record keys survives its stack."""
    for name in ("TokenKeys", "RecordKey"):
        rules = properties(name)["GenerateSecretString"]
        assert rules["ExcludePunctuation"] is True
        for _ in range(100):
            text = "".join(random.choices(string.ascii_letters + string.digits, k=rules["PasswordLength"]))
            assert len(parse_secret(text)) >= 32
    assert TEMPLATE["Resources"]["RecordKey"]["DeletionPolicy"] == "Retain"
    shown = json.dumps([part for name, part in TEMPLATE["Resources"].items() if name != "TaskDefinition"])
    assert "SecretString" not in shown.replace("GenerateSecretString", "")


def test_health_checks() -> None:
    """The load balancer asks for readiness. ECS asks for liveness, since a store that fails is no reason to restart."""
    assert properties("TargetGroup")["HealthCheckPath"] == "/readyz"
    assert "/healthz" in container()["HealthCheck"]["Command"][-1]
    compile(container()["HealthCheck"]["Command"][-1], "health check", "exec")


def test_stopping() -> None:
    """A task has more time to stop than a server in production needs by default."""
    settings = Settings(production=True)
    assert container()["StopTimeout"] > settings.drain_seconds + settings.stop_seconds


def test_only_the_load_balancer_reaches_the_tasks() -> None:
    """Clients reach the load balancer by HTTPS, and nothing but it reaches the port of the tasks."""
    (rule,) = properties("ServiceSecurityGroup")["SecurityGroupIngress"]
    assert "CidrIp" not in rule
    assert rule["SourceSecurityGroupId"] == {"Fn::GetAtt": ["LoadBalancerSecurityGroup", "GroupId"]}
    assert rule["FromPort"] == rule["ToPort"] == container()["PortMappings"][0]["ContainerPort"]
    assert properties("Listener")["Protocol"] == "HTTPS"


@pytest.mark.parametrize("name", [None, "users"])
def test_the_template_fits_cloudformation(name: str | None) -> None:
    """A template may have 51,200 bytes when it is given as text, and 200 parameters."""
    assert len(to_yaml(service_template(DEFINITION, ADDRESS, name)).encode()) < 51_200
