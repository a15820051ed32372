import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { Annotations, CfnResource, Duration, Stack } from 'aws-cdk-lib';
import * as apigateway from 'aws-cdk-lib/aws-apigateway';
import * as apigatewayv2 from 'aws-cdk-lib/aws-apigatewayv2';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as assets from 'aws-cdk-lib/aws-s3-assets';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct, Dependable, IConstruct } from 'constructs';
import { withFile } from './archive';
import { checkConfig, checkProps, outputName, seconds } from './check';
import { Roles } from './grants';
import { Included, readTemplate } from './included';
import { ApiAuth, ApiKind, PipelineProps } from './props';
import { FUNCTIONS, setBatches, setConcurrency, setFunctions, setHandlers, setKey, setNetwork, setRetention, setTopics } from './settings';

/** The folder of this package. */
const PACKAGE = path.join(__dirname, '..');
/** The path of the configuration in the archives. */
const CONFIG = 'once.yaml';
/** The longest namespace of CloudWatch. */
const MAX_NAMESPACE = 255;

/**
 * A pipeline accepts messages over HTTP and SQS, processes each one time, and sends its effects.
 *
 * It is a construct: aspects and tags apply to it. What it is granted, all of its functions are
 * granted: `queue.grantSendMessages(pipeline)`.
 */
export class Pipeline extends Construct implements iam.IGrantable, ec2.IConnectable {
  /** The function that takes messages in over HTTP. */
  public readonly ingest: lambda.IFunction;
  /** The function that processes messages. */
  public readonly process: lambda.IFunction;
  /** The function that sends effects. */
  public readonly publish: lambda.IFunction;
  /** The roles of the functions, as one principal. */
  public readonly grantPrincipal: iam.IPrincipal;
  /** The standard queue of messages. */
  public readonly ingressQueue: sqs.IQueue;
  /** The first-in-first-out queue of messages. */
  public readonly ingressFifoQueue: sqs.IQueue;
  /** The dead-letter queues: of messages and of effects, each standard and first-in-first-out. */
  public readonly deadLetterQueues: sqs.IQueue[];
  /** The table of groups. */
  public readonly groupsTable: dynamodb.ITable;
  /** The table of tokens. */
  public readonly tokensTable: dynamodb.ITable;
  /** The bucket of large bodies and blobs. */
  public readonly bucket: s3.IBucket;
  /** The address of the API, including the stage if there is one. */
  public readonly apiUrl: string;
  /** The HTTP API, unless it is a REST API. */
  public readonly httpApi?: apigatewayv2.IHttpApi;
  /** The stage of the HTTP API. */
  public readonly httpStage?: apigatewayv2.IHttpStage;
  /** The REST API, unless it is an HTTP API. */
  public readonly restApi?: apigateway.IRestApi;
  /** The stage of the REST API. */
  public readonly restStage?: apigateway.IStage;
  /** The ARN of the stage of the REST API, for the association of a web ACL. */
  public readonly restStageArn?: string;
  /** The alarms. */
  public readonly alarms: cloudwatch.IAlarm[];
  /** The namespace of the metrics. */
  public readonly metricsNamespace: string;
  /** The security groups of the functions. There are none without a network. */
  public readonly connections: ec2.Connections;

  private readonly included: Included;
  private readonly sources: { [name: string]: sqs.IQueue } = {};

  public constructor(scope: Construct, id: string, props: PipelineProps) {
    super(scope, id);
    checkProps(props);
    const file = props.template ?? path.join(PACKAGE, 'templates', templateOf(props));
    const template = readTemplate(file);
    const sources = Object.keys(template.described.resources).filter((name) => /^Ingress.+Queue$/.test(name) && name !== 'IngressFifoQueue');
    const config = configOf(props, template.described.config);
    const timeout = seconds(props.timeout) ?? template.Resources[template.described.resources.Process].Properties?.Timeout;
    checkConfig(config, sources, file, Object.keys(props.handlers ?? {}), timeout);

    this.metricsNamespace = props.metricsNamespace ?? this.node.path.replace(/[^0-9A-Za-z._/#:-]/g, '-').slice(-MAX_NAMESPACE);
    const included = new Included(this, template, {
      MetricsNamespace: this.metricsNamespace,
      CorsOrigins: props.api?.corsOrigins,
      JwtIssuer: props.api?.jwtIssuer,
      JwtAudience: props.api?.jwtAudience,
      UserPool: props.api?.userPool?.userPoolArn,
    });
    this.included = included;
    this.addCode(config, props);
    const securityGroups = this.securityGroupsOf(props);
    this.connections = new ec2.Connections({ securityGroups });
    this.apply(props, securityGroups);
    setConcurrency(included, props, sources.length);

    const roles = FUNCTIONS.map((name) => iam.Role.fromRoleName(this, `${name}Role`, included.one<iam.CfnRole>(`${name}Role`).ref));
    [this.ingest, this.process, this.publish] = FUNCTIONS.map((name, i) => this.functionOf(name, roles[i], securityGroups));
    this.grantPrincipal = new Roles(roles);
    setHandlers(included, props, roles);
    const queue = (name: string) => this.queueOf(name, props);
    this.ingressQueue = queue('IngressQueue');
    this.ingressFifoQueue = queue('IngressFifoQueue');
    this.deadLetterQueues = ['Dead', 'DeadFifo', 'DeadPublish', 'DeadPublishFifo'].map((name) => queue(`${name}Queue`));
    sources.forEach((name) => (this.sources[name] = queue(name)));
    this.groupsTable = this.tableOf('Groups', props);
    this.tokensTable = this.tableOf('Tokens', props);
    this.bucket = s3.Bucket.fromBucketAttributes(this, 'Bucket', { bucketArn: included.one<s3.CfnBucket>('Bucket').attrArn, encryptionKey: props.encryptionKey });
    this.alarms = included.all(cloudwatch.CfnAlarm).map((alarm, i) => cloudwatch.Alarm.fromAlarmArn(this, `Alarm${i}`, alarm.attrArn));
    this.apiUrl = included.output('ApiUrl').value;
    ({ httpApi: this.httpApi, httpStage: this.httpStage, restApi: this.restApi, restStage: this.restStage, restStageArn: this.restStageArn } = this.importApi());
    included.nameOutputs(outputName(id));
  }

  /**
   * Returns the queue of a source of the configuration. Add it as a target of rules, notifications,
   * subscriptions and schedules.
   *
   * @param name the name under `ingress:` in the configuration
   */
  public sourceQueue(name: string): sqs.IQueue {
    const queue = this.sources[`Ingress${outputName(name)}Queue`];
    if (!queue) {
      throw new Error(`there is no ingress ${name}; there are the queues ${Object.keys(this.sources).join(', ') || 'of no source'}`);
    }
    return queue;
  }

  /**
   * Returns a metric of the pipeline for an alarm or a dashboard: the sum over five minutes, unless
   * options say otherwise. Without dimensions it is for the whole pipeline.
   *
   * @param name one of the names in docs/observability.md
   * @param options of the metric
   */
  public metric(name: string, options?: cloudwatch.MetricOptions): cloudwatch.Metric {
    return new cloudwatch.Metric({ namespace: this.metricsNamespace, metricName: name, statistic: 'Sum', period: Duration.minutes(5), ...options });
  }

  /** Sets the included resources as the props say. */
  private apply(props: PipelineProps, securityGroups: ec2.ISecurityGroup[]): void {
    const { included } = this;
    setFunctions(included, props);
    setBatches(included, props);
    setRetention(included, props);
    setTopics(included, props.alarmTopic, props.pageTopic);
    if (props.encryptionKey) {
      setKey(this, included, props.encryptionKey);
    }
    if (props.vpc) {
      setNetwork(included, props, securityGroups);
    }
    if (props.permissionsBoundary) {
      iam.PermissionsBoundary.of(this).apply(props.permissionsBoundary);
    }
    if (!props.alarmTopic && !props.emulator) {
      Annotations.of(this).addWarningV2('once:noAlarmTopic', 'Alarms without a topic notify nobody: set alarmTopic.');
    }
  }

  /** Names the API, and returns it and its stage as the CDK's constructs. */
  private importApi(): Pick<Pipeline, 'httpApi' | 'httpStage' | 'restApi' | 'restStage' | 'restStageArn'> {
    const api = this.included.one<apigatewayv2.CfnApi | apigateway.CfnRestApi>('Api');
    api.name = `${Stack.of(this).stackName}-${this.node.id}`; // API Gateway's lists show it
    if (api instanceof apigatewayv2.CfnApi) {
      const httpApi = apigatewayv2.HttpApi.fromHttpApiAttributes(this, 'HttpApi', { httpApiId: api.ref, apiEndpoint: api.attrApiEndpoint });
      const httpStage = apigatewayv2.HttpStage.fromHttpStageAttributes(this, 'HttpStage', { api: httpApi, stageName: '$default' });
      dependOn(httpStage, this.included.one('Stage'));
      return { httpApi, httpStage };
    }
    const restApi = apigateway.RestApi.fromRestApiAttributes(this, 'RestApi', { restApiId: api.ref, rootResourceId: api.attrRootResourceId });
    const stageName = this.included.one<apigateway.CfnStage>('Stage').ref;
    const restStage = apigateway.Stage.fromStageAttributes(this, 'RestStage', { restApi, stageName });
    dependOn(restStage, this.included.one('Stage'));
    const resourceName = `${api.ref}/stages/${stageName}`;
    const restStageArn = Stack.of(this).formatArn({ service: 'apigateway', account: '', resource: '/restapis', resourceName });
    return { restApi, restStage, restStageArn };
  }

  /** Sets the code of the functions: archives, to which the configuration is added. */
  private addCode(config: string, props: PipelineProps): void {
    const folder = props.functions ?? path.join(PACKAGE, 'functions');
    const architecture = (props.architecture ?? lambda.Architecture.ARM_64).name;
    const staging = fs.mkdtempSync(path.join(os.tmpdir(), 'once-functions-'));
    try {
      for (const name of FUNCTIONS) {
        const archive = `once-${name.toLowerCase()}-${architecture}.zip`;
        const staged = path.join(staging, archive);
        fs.writeFileSync(staged, archiveWith(path.join(folder, archive), config));
        const asset = new assets.Asset(this, `${name}Code`, { path: staged });
        const fn = this.included.one<lambda.CfnFunction>(name);
        fn.code = { s3Bucket: asset.s3BucketName, s3Key: asset.s3ObjectKey };
        asset.addResourceMetadata(fn, 'Code');
      }
    } finally {
      fs.rmSync(staging, { recursive: true }); // the CDK has copied the archives
    }
  }

  private securityGroupsOf(props: PipelineProps): ec2.ISecurityGroup[] {
    if (!props.vpc) {
      return [];
    }
    return props.securityGroups ?? [new ec2.SecurityGroup(this, 'SecurityGroup', { vpc: props.vpc, description: `once: functions of ${this.node.path}` })];
  }

  private functionOf(name: string, role: iam.IRole, securityGroups: ec2.ISecurityGroup[]): lambda.IFunction {
    const fn = this.included.one<lambda.CfnFunction>(name);
    const imported = lambda.Function.fromFunctionAttributes(this, name, { functionArn: fn.attrArn, role, sameEnvironment: true, securityGroup: securityGroups[0] });
    dependOn(imported, fn);
    return imported;
  }

  private queueOf(name: string, props: PipelineProps): sqs.IQueue {
    const queue = this.included.one<sqs.CfnQueue>(name);
    return sqs.Queue.fromQueueAttributes(this, name, {
      queueArn: queue.attrArn, queueUrl: queue.ref, queueName: queue.attrQueueName, keyArn: props.encryptionKey?.keyArn, fifo: queue.fifoQueue === true,
    });
  }

  /** Returns a table of the template, or an existing one that it names. */
  private tableOf(name: string, props: PipelineProps): dynamodb.ITable {
    if (!this.included.has(name)) {
      return dynamodb.Table.fromTableName(this, name, this.included.output(`${name}Table`).value);
    }
    const { attrArn } = this.included.one<dynamodb.CfnTable>(name);
    return dynamodb.Table.fromTableAttributes(this, name, { tableArn: attrArn, encryptionKey: props.encryptionKey });
  }
}

/** Returns the name of the template of this package for an API. */
function templateOf({ api = {}, emulator }: PipelineProps): string {
  const kind = api.kind ?? ApiKind.HTTP;
  const option = kind === ApiKind.REST ? api.logsRole && 'logs' : api.corsOrigins?.length && 'cors';
  return [kind, api.auth ?? ApiAuth.IAM, option, emulator && 'emulator'].filter((part) => part).join('-') + '.json';
}

/** Returns the configuration of the props, or the one that a template is made for. */
function configOf(props: PipelineProps, otherwise: string): string {
  const config = props.config ?? (props.configFile && readConfig(props.configFile)) ?? otherwise;
  if (!config) {
    throw new Error('config, configFile: give the text of once.yaml, or its path');
  }
  return config;
}

/** Returns the text of a configuration. */
function readConfig(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`configFile: ${(error as Error).message}; the path is relative to ${process.cwd()}`);
  }
}

/** Returns an archive of a function, with a configuration. */
function archiveWith(file: string, config: string): Buffer {
  let archive: Buffer;
  try {
    archive = fs.readFileSync(file);
  } catch (error) {
    throw new Error(`functions: ${(error as Error).message}; make archives builds them`);
  }
  try {
    return withFile(archive, CONFIG, Buffer.from(config));
  } catch (error) {
    throw new Error(`functions: ${file}: ${(error as Error).message}`);
  }
}

/** Has the dependents of an imported construct depend on the resource that it stands for. */
function dependOn(imported: IConstruct, resource: CfnResource): void {
  Dependable.implement(imported, { dependencyRoots: [resource] });
}
