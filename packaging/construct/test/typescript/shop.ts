// A CDK app of its own: two pipelines in one stack, in a network and under a key of the app. One has
// a domain, the other a web ACL. infra/testdata/shop is the same in Go.
//
// The context of the CDK may have two settings: emulator=true deploys to an emulator, and
// architecture is amd64 or arm64. The stack Tuned has every other setting; a test compares it with
// the template that infra/app makes for the same settings.
import { App, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as apigatewayv2 from 'aws-cdk-lib/aws-apigatewayv2';
import * as acm from 'aws-cdk-lib/aws-certificatemanager';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as actions from 'aws-cdk-lib/aws-cloudwatch-actions';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as events from 'aws-cdk-lib/aws-events';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import * as sns from 'aws-cdk-lib/aws-sns';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import * as wafv2 from 'aws-cdk-lib/aws-wafv2';
import { ApiKind, Pipeline, PipelineProps } from '@effectively-once/once';

const app = new App();
const emulator = app.node.tryGetContext('emulator') === 'true';
const architecture = app.node.tryGetContext('architecture') === 'amd64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64;

function shop(): void {
  const stack = new Stack(app, 'Shop');
  const topic = new sns.Topic(stack, 'OnCall', { enforceSSL: true });
  const common = {
    architecture,
    vpc: new ec2.Vpc(stack, 'Vpc', { maxAzs: 2, natGateways: 1 }),
    encryptionKey: new kms.Key(stack, 'Key', { enableKeyRotation: true }),
    alarmTopic: topic,
    emulator,
  };
  const orders = new Pipeline(stack, 'Orders', {
    config: 'streams: {orders: {destinations: [events]}}\ndestinations: {events: {eventbridge: default}}\n',
    api: { corsOrigins: ['https://shop.example'] },
    handlers: emulator ? undefined : { orders: lambda.Function.fromFunctionName(stack, 'Handler', 'orders-handler') },
    ...common,
  }); // once send --stack Shop/Orders
  events.EventBus.fromEventBusName(stack, 'Bus', 'default').grantPutEventsTo(orders);
  new sqs.Queue(stack, 'Invoices').grantSendMessages(orders);
  new sqs.Queue(stack, 'Copies').grantSendMessages(orders.publish);

  const billing = new Pipeline(stack, 'Billing', {
    config: 'streams: {bills: {admission: sequence}}\n',
    api: { kind: ApiKind.REST, logsRole: true }, // one in an account and region has the role
    ingestConcurrency: 20,
    ...common,
  }); // once send --stack Shop/Billing

  addDomain(stack, orders);
  addWebAcl(stack, billing);
  const refused = new cloudwatch.Alarm(stack, 'Refused', { metric: orders.metric('DeadLettered'), threshold: 10, evaluationPeriods: 1 });
  refused.addAlarmAction(new actions.SnsAction(topic));
}

/** Gives the HTTP API of a pipeline a name. Your DNS points it at the domain's target. */
function addDomain(stack: Stack, pipeline: Pipeline): void {
  const certificate = 'arn:aws:acm:eu-central-1:123456789012:certificate/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f';
  const domainName = new apigatewayv2.DomainName(stack, 'Domain', {
    domainName: 'orders.shop.example',
    certificate: acm.Certificate.fromCertificateArn(stack, 'Certificate', certificate),
  });
  new apigatewayv2.ApiMapping(stack, 'Mapping', { api: pipeline.httpApi!, stage: pipeline.httpStage, domainName });
}

/** Limits the requests of each address to the REST API of a pipeline. */
function addWebAcl(stack: Stack, pipeline: Pipeline): void {
  const visible = (metricName: string) => ({ cloudWatchMetricsEnabled: true, metricName, sampledRequestsEnabled: false });
  const acl = new wafv2.CfnWebACL(stack, 'WebAcl', {
    scope: 'REGIONAL',
    defaultAction: { allow: {} },
    visibilityConfig: visible('billing'),
    rules: [{
      name: 'rate', priority: 0, visibilityConfig: visible('rate'), action: { block: {} },
      statement: { rateBasedStatement: { aggregateKeyType: 'IP', limit: 1000 } },
    }],
  });
  new wafv2.CfnWebACLAssociation(stack, 'WebAclOfBilling', { resourceArn: pipeline.restStageArn!, webAclArn: acl.attrArn });
}

function tuned(): void {
  const stack = new Stack(app, 'Tuned');
  const vpc = ec2.Vpc.fromVpcAttributes(stack, 'Vpc', {
    vpcId: 'vpc-0123456789abcdef0', availabilityZones: ['a', 'b'], privateSubnetIds: ['subnet-0123456789abcdef0', 'subnet-0123456789abcdef1'], privateSubnetRouteTableIds: ['rtb-0', 'rtb-1'],
  });
  const arn = (rest: string) => `arn:aws:${rest}`;
  const props: PipelineProps = {
    config: 'streams: {orders: {}}\n',
    architecture: lambda.Architecture.X86_64,
    memorySize: 1024,
    timeout: Duration.seconds(60),
    maxConcurrency: 20,
    ingestConcurrency: 40,
    processConcurrency: 60,
    publishConcurrency: 50,
    batchSize: 100,
    batchWindow: Duration.seconds(5),
    vpc,
    securityGroups: [ec2.SecurityGroup.fromSecurityGroupId(stack, 'Group', 'sg-0123456789abcdef0')],
    encryptionKey: kms.Key.fromKeyArn(stack, 'Key', arn('kms:eu-central-1:123456789012:key/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f')),
    permissionsBoundary: iam.ManagedPolicy.fromManagedPolicyArn(stack, 'Boundary', arn('iam::123456789012:policy/boundary')),
    layers: [lambda.LayerVersion.fromLayerVersionArn(stack, 'Layer', arn('lambda:eu-central-1:123456789012:layer:collector:1'))],
    environment: { SHOP: 'eu' },
    tracing: true,
    logRetention: logs.RetentionDays.ONE_YEAR,
    removalPolicy: RemovalPolicy.DESTROY,
    metricsNamespace: 'Tuned',
    alarmTopic: sns.Topic.fromTopicArn(stack, 'Alarms', arn('sns:eu-central-1:123456789012:tickets')),
    pageTopic: sns.Topic.fromTopicArn(stack, 'Pages', arn('sns:eu-central-1:123456789012:pages')),
  };
  new Pipeline(stack, 'Pipeline', { ...props, api: { kind: ApiKind.REST, logsRole: true } });
}

shop();
if (!emulator) {
  tuned();
}
app.synth();
