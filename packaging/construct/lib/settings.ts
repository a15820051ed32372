import { ArnFormat, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as apigateway from 'aws-cdk-lib/aws-apigateway';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as sns from 'aws-cdk-lib/aws-sns';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { FIFO_BATCH, seconds } from './check';
import { Included } from './included';
import { PipelineProps } from './props';

/** The functions, as in the names of the template. */
export const FUNCTIONS = ['Ingest', 'Process', 'Publish'];

/** Sets the properties of the functions that need no other resource. */
export function setFunctions(included: Included, props: PipelineProps): void {
  for (const fn of included.all(lambda.CfnFunction)) {
    fn.memorySize = props.memorySize ?? fn.memorySize;
    fn.layers = props.layers?.map((layer) => layer.layerVersionArn) ?? fn.layers;
    if (props.architecture) {
      fn.architectures = [props.architecture.name];
    }
    if (props.environment) {
      const { variables } = fn.environment as lambda.CfnFunction.EnvironmentProperty;
      fn.environment = { variables: { ...props.environment, ...variables } };
    }
  }
  if (props.tracing) {
    included.all(lambda.CfnFunction).forEach((fn) => (fn.tracingConfig = { mode: lambda.Tracing.ACTIVE }));
    included.allow(['xray:PutTelemetryRecords', 'xray:PutTraceSegments'], '*');
    included.all(apigateway.CfnStage).forEach((stage) => (stage.tracingEnabled = true));
  }
}

/**
 * Names the handlers of the props to the functions, and allows those that run handlers to invoke
 * them: ingest runs those of one-time requests and of direct streams.
 */
export function setHandlers(included: Included, props: PipelineProps, roles: iam.IRole[]): void {
  const handlers = Object.entries(props.handlers ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  if (handlers.length === 0) {
    return;
  }
  for (const fn of included.all(lambda.CfnFunction)) {
    const { variables } = fn.environment as lambda.CfnFunction.EnvironmentProperty;
    fn.environment = { variables: { ...variables, ONCE_HANDLERS: handlers.map(([stream, handler]) => `${stream}=${handler.functionArn}`).join(',') } };
  }
  for (const role of roles.filter((_, i) => FUNCTIONS[i] !== 'Publish')) {
    for (const [, handler] of handlers) {
      role.addToPrincipalPolicy(new iam.PolicyStatement({ actions: ['lambda:InvokeFunction'], resources: [handler.functionArn] }));
    }
  }
}

/** Sets batches, and the timeout that the time until a retry follows from. */
export function setBatches(included: Included, props: PipelineProps): void {
  const window = seconds(props.batchWindow) ?? 0;
  let longer = 0;
  if (props.timeout) {
    const timeout = seconds(props.timeout);
    longer = timeout - included.one<lambda.CfnFunction>('Process').timeout!;
    ['Process', 'Publish'].forEach((name) => (included.one<lambda.CfnFunction>(name).timeout = timeout));
  }
  for (const { mapping, fifo } of included.mappings()) {
    if (props.batchSize) {
      mapping.batchSize = fifo ? Math.min(props.batchSize, FIFO_BATCH) : props.batchSize;
    }
    if (window > 0 && !fifo) {
      mapping.maximumBatchingWindowInSeconds = window;
    }
    if (props.maxConcurrency) {
      mapping.scalingConfig = { maximumConcurrency: props.maxConcurrency };
    }
  }
  for (const queue of included.all(sqs.CfnQueue)) {
    if (queue.redrivePolicy) {
      queue.visibilityTimeout = queue.visibilityTimeout! + 6 * longer + (queue.fifoQueue ? 0 : window);
    }
  }
}

/** Reserves concurrency, and has the alarms of busy functions follow it. */
export function setConcurrency(included: Included, props: PipelineProps, sources: number): void {
  const perQueue = props.maxConcurrency ?? maxConcurrency(included);
  const settings = { Ingest: props.ingestConcurrency, Process: props.processConcurrency, Publish: props.publishConcurrency };
  for (const [name, reserved] of Object.entries(settings)) {
    const queues = { Process: 2 + sources, Publish: 2 }[name] ?? 0;
    const least = queues * perQueue + 1;
    if (queues > 0 && reserved !== undefined && reserved < least) {
      throw new Error(`${name.toLowerCase()}Concurrency: ${reserved} is less than ${least}: ${queues} queues feed the function, each with ${perQueue} invocations at once, and sweeps or redrives need one more`);
    }
    if (reserved !== undefined) {
      included.one<lambda.CfnFunction>(name).reservedConcurrentExecutions = reserved;
    }
    const limit = reserved ?? (props.maxConcurrency && queues > 0 ? queues * perQueue : undefined);
    if (limit !== undefined) {
      setBusy(included.find<cloudwatch.CfnAlarm>(`Alarms${name}Busy`), limit);
    }
  }
}

/** Returns how many invocations each queue causes at once in the template. */
function maxConcurrency(included: Included): number {
  const scaling = included.mappings()[0].mapping.scalingConfig as lambda.CfnEventSourceMapping.ScalingConfigProperty | undefined;
  return scaling?.maximumConcurrency ?? 0;
}

/** Sets the threshold of an alarm on a function that may soon be throttled to the same part of another limit. */
function setBusy(alarm: cloudwatch.CfnAlarm | undefined, limit: number): void {
  const description = alarm?.alarmDescription ?? '';
  const before = /(\d+) at a time/.exec(description);
  if (alarm && before) {
    alarm.threshold = (alarm.threshold! / Number(before[1])) * limit;
    alarm.alarmDescription = description.replace(before[0], `${limit} at a time`);
  }
}

/** Encrypts everything with a key, and allows functions, CloudWatch and sources to use it. */
export function setKey(scope: Construct, included: Included, key: kms.IKey): void {
  const kmsMasterKeyId = key.keyArn;
  for (const table of included.all(dynamodb.CfnTable)) {
    table.sseSpecification = { sseEnabled: true, sseType: 'KMS', kmsMasterKeyId };
  }
  for (const queue of included.all(sqs.CfnQueue)) {
    queue.kmsMasterKeyId = kmsMasterKeyId;
    queue.sqsManagedSseEnabled = undefined;
  }
  for (const bucket of included.all(s3.CfnBucket)) {
    const serverSideEncryptionByDefault = { sseAlgorithm: 'aws:kms', kmsMasterKeyId };
    bucket.bucketEncryption = { serverSideEncryptionConfiguration: [{ bucketKeyEnabled: true, serverSideEncryptionByDefault }] };
  }
  included.all(logs.CfnLogGroup).forEach((group) => (group.kmsKeyId = key.keyArn));
  included.all(lambda.CfnFunction).forEach((fn) => (fn.kmsKeyArn = key.keyArn));
  included.allow(included.described.keyActions, key.keyArn);
  admit(key, included, Stack.of(scope));
}

/** Adds statements to the policy of a key of the same app: for CloudWatch, and for the sources that the policies of queues name. */
function admit(key: kms.IKey, included: Included, stack: Stack): void {
  key.addToResourcePolicy(new iam.PolicyStatement({
    principals: [new iam.ServicePrincipal(`logs.${stack.region}.amazonaws.com`)],
    actions: included.described.keyActions,
    resources: ['*'],
    conditions: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': stack.formatArn({ service: 'logs', resource: '*', arnFormat: ArnFormat.NO_RESOURCE_NAME }) } },
  }));
  const principals = new Map<string, unknown>();
  for (const policy of included.all(sqs.CfnQueuePolicy)) {
    for (const statement of policy.policyDocument.Statement.filter((s: { Sid?: string }) => s.Sid === 'AllowSource')) {
      principals.set(JSON.stringify(stack.resolve(statement.Principal)), statement.Principal);
    }
  }
  for (const Principal of principals.values()) {
    key.addToResourcePolicy(iam.PolicyStatement.fromJson({ Principal, Action: ['kms:Decrypt', 'kms:GenerateDataKey'], Effect: 'Allow', Resource: '*' }));
  }
}

/** Puts the functions into a network. */
export function setNetwork(included: Included, props: PipelineProps, securityGroups: ec2.ISecurityGroup[]): void {
  const { subnetIds, hasPublic } = props.vpc!.selectSubnets(props.vpcSubnets);
  if (hasPublic) {
    throw new Error('vpcSubnets: functions in public subnets reach neither AWS nor the internet; select private subnets');
  }
  for (const fn of included.all(lambda.CfnFunction)) {
    fn.vpcConfig = { subnetIds, securityGroupIds: securityGroups.map((group) => group.securityGroupId) };
  }
  included.allow(included.described.networkActions, '*');
}

/** Sets how long logs are kept, and whether the resources with data are. */
export function setRetention(included: Included, props: PipelineProps): void {
  if (props.logRetention !== undefined) {
    included.all(logs.CfnLogGroup).forEach((group) => (group.retentionInDays = props.logRetention));
  }
  if (props.removalPolicy !== RemovalPolicy.DESTROY) {
    return;
  }
  included.all(dynamodb.CfnTable).forEach((table) => (table.deletionProtectionEnabled = false));
  for (const resource of [...included.all(dynamodb.CfnTable), ...included.all(sqs.CfnQueue), ...included.all(s3.CfnBucket), ...included.all(logs.CfnLogGroup)]) {
    resource.applyRemovalPolicy(RemovalPolicy.DESTROY);
  }
}

/** Has the alarms notify topics, by their severity. */
export function setTopics(included: Included, alarms?: sns.ITopic, pages?: sns.ITopic): void {
  for (const alarm of included.all(cloudwatch.CfnAlarm)) {
    const page = alarm.tags?.some((tag) => tag.key === 'once:severity' && tag.value === 'page');
    const topic = page ? (pages ?? alarms) : alarms;
    alarm.alarmActions = alarm.okActions = topic && [topic.topicArn];
  }
}
