"""CloudFormation template of a catalog's table with an ECS service that serves it (docs/how-to/deploying.md)."""

from collections.abc import Mapping
from typing import Any

from graphql_api.errors import InvalidValue
from graphql_api.ops.cloudformation import cloudformation_template
from graphql_api.storage import TableDefinition

PORT = 8000
STOP_SECONDS = 30
"""more than the drain and the stop of a server with default settings"""
_SECRET_CHARACTERS = 64
"""letters and digits: 381 random bits, which are read as base64"""
_KEYS = {"SHARDQL_TOKEN_KEYS": "TokenKeys", "SHARDQL_RECORD_KEY": "RecordKey"}
"""settings with the resources of their secrets"""
_SCALING_CPU_PERCENT = 60
_LIVENESS = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{PORT}/healthz', timeout=2)"

Part = Mapping[str, Any]


def service_template(
    definition: TableDefinition, address: str, table: str | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the template of the table, with a Fargate service of the catalog at an address, and its load balancer.

    `environment` holds more variables of the server.
    """
    for name in environment or {}:
        if name in _KEYS:
            raise InvalidValue(
                f"{name} would be readable in the template: leave it out, the stack keeps it in Secrets Manager.",
                argument="env",
            )
    template = cloudformation_template(definition, table)
    return {
        **template,
        "Description": "A ShardQL table, an ECS service that serves it, and roles with minimal permissions.",
        "Parameters": {**template["Parameters"], **_PARAMETERS},
        "Resources": {
            **template["Resources"],
            **_secrets(),
            "LogGroup": _resource("Logs::LogGroup", RetentionInDays=30),
            "ExecutionRole": _execution_role(),
            "Cluster": _resource("ECS::Cluster"),
            "TaskDefinition": _task_definition(address, environment or {}),
            **_network(),
            "Service": _service(),
            **_scaling(),
        },
        "Outputs": {
            **template["Outputs"],
            "LoadBalancerName": {
                "Description": "The target of a DNS alias for the host name.",
                "Value": _attribute("LoadBalancer", "DNSName"),
            },
        },
    }


def _parameter(kind: str, description: str, **more: Any) -> Part:
    return {"Type": kind, "Description": description, **more}


_PARAMETERS: Mapping[str, Part] = {
    "Repository": _parameter("String", "The ECR repository of the container image, in this account and region."),
    "ImageTag": _parameter("String", "The tag of the container image."),
    "HostName": _parameter("String", "The name under which clients reach the service, such as api.example.com."),
    "CertificateArn": _parameter("String", "The certificate of this name in AWS Certificate Manager."),
    "Vpc": _parameter("AWS::EC2::VPC::Id", "The network of the service."),
    "LoadBalancerSubnets": _parameter("List<AWS::EC2::Subnet::Id>", "Public subnets in two or more zones."),
    "ServiceSubnets": _parameter(
        "List<AWS::EC2::Subnet::Id>", "Subnets of the tasks, with a route to DynamoDB, ECR, Secrets Manager and logs."
    ),
    "AssignPublicIp": _parameter(
        "String",
        "ENABLED if the subnets of the tasks reach AWS through an internet gateway only.",
        AllowedValues=["ENABLED", "DISABLED"],
        Default="DISABLED",
    ),
    "MinTasks": _parameter("Number", "The smallest number of tasks.", Default=2, MinValue=1),
    "MaxTasks": _parameter("Number", "The largest number of tasks.", Default=10, MinValue=1),
}


def _resource(kind: str, *, keep: bool = False, after: str | None = None, **properties: Any) -> Part:
    kept = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"} if keep else {}
    order = {} if after is None else {"DependsOn": after}
    return {"Type": f"AWS::{kind}", **kept, **order, **({"Properties": properties} if properties else {})}


def _reference(name: str) -> Part:
    return {"Ref": name}


def _attribute(resource: str, name: str) -> Part:
    return {"Fn::GetAtt": [resource, name]}


# --- keys and permissions ----------------------------------------------------------------------------------------


def _secrets() -> dict[str, Part]:
    generated = {"PasswordLength": _SECRET_CHARACTERS, "ExcludePunctuation": True}
    return {
        "TokenKeys": _resource(
            "SecretsManager::Secret", Description="Seals the page tokens of ShardQL.", GenerateSecretString=generated
        ),
        "RecordKey": _resource(
            "SecretsManager::Secret",
            keep=True,
            Description="Signs the record keys of ShardQL. It must never change.",
            GenerateSecretString=generated,
        ),
    }


def _execution_role() -> Part:
    """Return the role with which ECS starts a task. The server itself never has these permissions."""
    repository = {"Fn::Sub": "arn:${AWS::Partition}:ecr:${AWS::Region}:${AWS::AccountId}:repository/${Repository}"}
    statements = [
        ("Registry", ["ecr:GetAuthorizationToken"], "*"),  # This action has no resources.
        (
            "Image",
            ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            repository,
        ),
        ("Log", ["logs:CreateLogStream", "logs:PutLogEvents"], _attribute("LogGroup", "Arn")),
        ("Keys", ["secretsmanager:GetSecretValue"], [_reference(name) for name in _KEYS.values()]),
    ]
    return _resource(
        "IAM::Role",
        AssumeRolePolicyDocument={
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "ecs-tasks.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ],
        },
        Policies=[
            {
                "PolicyName": "StartTasks",
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {"Sid": name, "Effect": "Allow", "Action": actions, "Resource": resource}
                        for name, actions, resource in statements
                    ],
                },
            }
        ],
    )


# --- the task ----------------------------------------------------------------------------------------------------


def _task_definition(address: str, environment: Mapping[str, str]) -> Part:
    image = "${AWS::AccountId}.dkr.ecr.${AWS::Region}.${AWS::URLSuffix}/${Repository}:${ImageTag}"
    variables: dict[str, Any] = {
        "SHARDQL_PRODUCTION": "1",
        "SHARDQL_STORE": {"Fn::Sub": "dynamodb://${Table}?region=${AWS::Region}"},
        "SHARDQL_ALLOWED_HOSTS": _reference("HostName"),
        **environment,
    }
    container = {
        "Name": "server",
        "Image": {"Fn::Sub": image},
        "Command": ["shardql", "serve", address, "--host", "0.0.0.0", "--port", str(PORT)],  # noqa: S104 - in a task
        "PortMappings": [{"ContainerPort": PORT}],
        "Environment": [{"Name": name, "Value": value} for name, value in variables.items()],
        "Secrets": [{"Name": name, "ValueFrom": _reference(secret)} for name, secret in _KEYS.items()],
        # Liveness only: a task must not be replaced because the store does not answer.
        "HealthCheck": {"Command": ["CMD", "python", "-c", _LIVENESS], "StartPeriod": 30},
        "ReadonlyRootFilesystem": True,
        "LinuxParameters": {"InitProcessEnabled": True},
        "StopTimeout": STOP_SECONDS,
        "LogConfiguration": {
            "LogDriver": "awslogs",
            "Options": {
                "awslogs-group": _reference("LogGroup"),
                "awslogs-region": _reference("AWS::Region"),
                "awslogs-stream-prefix": "server",
            },
        },
    }
    return _resource(
        "ECS::TaskDefinition",
        RequiresCompatibilities=["FARGATE"],
        NetworkMode="awsvpc",
        Cpu="512",
        Memory="1024",
        ExecutionRoleArn=_attribute("ExecutionRole", "Arn"),
        TaskRoleArn=_attribute("ServerRole", "Arn"),
        ContainerDefinitions=[container],
    )


def _service() -> Part:
    return _resource(
        "ECS::Service",
        after="Listener",  # The target group must belong to a load balancer.
        Cluster=_reference("Cluster"),
        LaunchType="FARGATE",
        TaskDefinition=_reference("TaskDefinition"),
        HealthCheckGracePeriodSeconds=60,
        DeploymentConfiguration={
            "MinimumHealthyPercent": 100,
            "MaximumPercent": 200,
            "DeploymentCircuitBreaker": {"Enable": True, "Rollback": True},
        },
        LoadBalancers=[{"ContainerName": "server", "ContainerPort": PORT, "TargetGroupArn": _reference("TargetGroup")}],
        NetworkConfiguration={
            "AwsvpcConfiguration": {
                "AssignPublicIp": _reference("AssignPublicIp"),
                "SecurityGroups": [_reference("ServiceSecurityGroup")],
                "Subnets": _reference("ServiceSubnets"),
            }
        },
    )


# --- network and scaling -----------------------------------------------------------------------------------------


def _network() -> dict[str, Part]:
    def group(description: str, port: int, **source: Any) -> Part:
        ingress = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, **source}
        return _resource(
            "EC2::SecurityGroup",
            GroupDescription=description,
            VpcId=_reference("Vpc"),
            SecurityGroupIngress=[ingress],
        )

    return {
        "LoadBalancerSecurityGroup": group("HTTPS from anywhere", 443, CidrIp="0.0.0.0/0"),
        "ServiceSecurityGroup": group(
            "From the load balancer only",
            PORT,
            SourceSecurityGroupId=_attribute("LoadBalancerSecurityGroup", "GroupId"),
        ),
        "LoadBalancer": _resource(
            "ElasticLoadBalancingV2::LoadBalancer",
            Subnets=_reference("LoadBalancerSubnets"),
            SecurityGroups=[_reference("LoadBalancerSecurityGroup")],
        ),
        "TargetGroup": _resource(
            "ElasticLoadBalancingV2::TargetGroup",
            VpcId=_reference("Vpc"),
            TargetType="ip",
            Protocol="HTTP",
            Port=PORT,
            HealthCheckPath="/readyz",
            HealthCheckIntervalSeconds=10,
            HealthCheckTimeoutSeconds=5,
            HealthyThresholdCount=2,
            UnhealthyThresholdCount=2,
            TargetGroupAttributes=[{"Key": "deregistration_delay.timeout_seconds", "Value": "15"}],
        ),
        "Listener": _resource(
            "ElasticLoadBalancingV2::Listener",
            LoadBalancerArn=_reference("LoadBalancer"),
            Protocol="HTTPS",
            Port=443,
            SslPolicy="ELBSecurityPolicy-TLS13-1-2-2021-06",
            Certificates=[{"CertificateArn": _reference("CertificateArn")}],
            DefaultActions=[{"Type": "forward", "TargetGroupArn": _reference("TargetGroup")}],
        ),
    }


def _scaling() -> dict[str, Part]:
    return {
        "ScalableTarget": _resource(
            "ApplicationAutoScaling::ScalableTarget",
            ServiceNamespace="ecs",
            ScalableDimension="ecs:service:DesiredCount",
            ResourceId={"Fn::Sub": "service/${Cluster}/${Service.Name}"},
            MinCapacity=_reference("MinTasks"),
            MaxCapacity=_reference("MaxTasks"),
        ),
        "ScalingPolicy": _resource(
            "ApplicationAutoScaling::ScalingPolicy",
            PolicyName="cpu",
            PolicyType="TargetTrackingScaling",
            ScalingTargetId=_reference("ScalableTarget"),
            TargetTrackingScalingPolicyConfiguration={
                "PredefinedMetricSpecification": {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"},
                "TargetValue": _SCALING_CPU_PERCENT,
            },
        ),
    }
