# The app of ../typescript/shop.ts in Python. A test compares the templates of both.
from aws_cdk import App, Duration, RemovalPolicy, Stack
from aws_cdk import aws_apigatewayv2 as apigatewayv2
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_wafv2 as wafv2

from effectively_once.once import ApiKind, ApiSettings, Pipeline

app = App()
emulator = app.node.try_get_context("emulator") == "true"
architecture = lambda_.Architecture.X86_64 if app.node.try_get_context("architecture") == "amd64" else lambda_.Architecture.ARM_64


def shop() -> None:
    stack = Stack(app, "Shop")
    topic = sns.Topic(stack, "OnCall", enforce_ssl=True)
    common = dict(
        architecture=architecture,
        vpc=ec2.Vpc(stack, "Vpc", max_azs=2, nat_gateways=1),
        encryption_key=kms.Key(stack, "Key", enable_key_rotation=True),
        alarm_topic=topic,
        emulator=emulator,
    )
    orders = Pipeline(
        stack,
        "Orders",
        config="streams: {orders: {destinations: [events]}}\ndestinations: {events: {eventbridge: default}}\n",
        api=ApiSettings(cors_origins=["https://shop.example"]),
        handlers=None if emulator else {"orders": lambda_.Function.from_function_name(stack, "Handler", "orders-handler")},
        **common,
    )  # once send --stack Shop/Orders
    events.EventBus.from_event_bus_name(stack, "Bus", "default").grant_put_events_to(orders)
    sqs.Queue(stack, "Invoices").grant_send_messages(orders)
    sqs.Queue(stack, "Copies").grant_send_messages(orders.publish)

    billing = Pipeline(
        stack,
        "Billing",
        config="streams: {bills: {admission: sequence}}\n",
        api=ApiSettings(kind=ApiKind.REST, logs_role=True),  # one in an account and region has the role
        ingest_concurrency=20,
        **common,
    )  # once send --stack Shop/Billing

    add_domain(stack, orders)
    add_web_acl(stack, billing)
    refused = cloudwatch.Alarm(stack, "Refused", metric=orders.metric("DeadLettered"), threshold=10, evaluation_periods=1)
    refused.add_alarm_action(actions.SnsAction(topic))


def add_domain(stack: Stack, pipeline: Pipeline) -> None:
    """Gives the HTTP API of a pipeline a name. Your DNS points it at the domain's target."""
    certificate = "arn:aws:acm:eu-central-1:123456789012:certificate/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
    domain = apigatewayv2.DomainName(
        stack,
        "Domain",
        domain_name="orders.shop.example",
        certificate=acm.Certificate.from_certificate_arn(stack, "Certificate", certificate),
    )
    apigatewayv2.ApiMapping(stack, "Mapping", api=pipeline.http_api, stage=pipeline.http_stage, domain_name=domain)


def add_web_acl(stack: Stack, pipeline: Pipeline) -> None:
    """Limits the requests of each address to the REST API of a pipeline."""

    def visible(name: str) -> wafv2.CfnWebACL.VisibilityConfigProperty:
        return wafv2.CfnWebACL.VisibilityConfigProperty(cloud_watch_metrics_enabled=True, metric_name=name, sampled_requests_enabled=False)

    limit = wafv2.CfnWebACL.RateBasedStatementProperty(aggregate_key_type="IP", limit=1000)
    acl = wafv2.CfnWebACL(
        stack,
        "WebAcl",
        scope="REGIONAL",
        default_action=wafv2.CfnWebACL.DefaultActionProperty(allow={}),
        visibility_config=visible("billing"),
        rules=[
            wafv2.CfnWebACL.RuleProperty(
                name="rate",
                priority=0,
                visibility_config=visible("rate"),
                action=wafv2.CfnWebACL.RuleActionProperty(block={}),
                statement=wafv2.CfnWebACL.StatementProperty(rate_based_statement=limit),
            )
        ],
    )
    wafv2.CfnWebACLAssociation(stack, "WebAclOfBilling", resource_arn=pipeline.rest_stage_arn, web_acl_arn=acl.attr_arn)


def tuned() -> None:
    stack = Stack(app, "Tuned")
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=["a", "b"],
        private_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
        private_subnet_route_table_ids=["rtb-0", "rtb-1"],
    )
    key = "arn:aws:kms:eu-central-1:123456789012:key/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
    boundary = "arn:aws:iam::123456789012:policy/boundary"
    layer = "arn:aws:lambda:eu-central-1:123456789012:layer:collector:1"
    topic = "arn:aws:sns:eu-central-1:123456789012:"
    Pipeline(
        stack,
        "Pipeline",
        config="streams: {orders: {}}\n",
        architecture=lambda_.Architecture.X86_64,
        memory_size=1024,
        timeout=Duration.seconds(60),
        max_concurrency=20,
        ingest_concurrency=40,
        process_concurrency=60,
        publish_concurrency=50,
        batch_size=100,
        batch_window=Duration.seconds(5),
        vpc=vpc,
        security_groups=[ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0123456789abcdef0")],
        encryption_key=kms.Key.from_key_arn(stack, "Key", key),
        permissions_boundary=iam.ManagedPolicy.from_managed_policy_arn(stack, "Boundary", boundary),
        layers=[lambda_.LayerVersion.from_layer_version_arn(stack, "Layer", layer)],
        environment={"SHOP": "eu"},
        tracing=True,
        log_retention=logs.RetentionDays.ONE_YEAR,
        removal_policy=RemovalPolicy.DESTROY,
        metrics_namespace="Tuned",
        alarm_topic=sns.Topic.from_topic_arn(stack, "Alarms", topic + "tickets"),
        page_topic=sns.Topic.from_topic_arn(stack, "Pages", topic + "pages"),
        api=ApiSettings(kind=ApiKind.REST, logs_role=True),
    )


shop()
if not emulator:
    tuned()
app.synth()
