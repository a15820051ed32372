import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import * as cognito from 'aws-cdk-lib/aws-cognito';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import * as sns from 'aws-cdk-lib/aws-sns';

/** The kind of API in API Gateway. */
export enum ApiKind {
  /** An HTTP API. */
  HTTP = 'http',
  /** A REST API, which can have a web ACL. */
  REST = 'rest',
}

/** How callers are authenticated. The authenticated principal scopes the identities of messages. */
export enum ApiAuth {
  /** Signed requests. The role or user is the principal. */
  IAM = 'iam',
  /** The principal is the token's issuer and subject. */
  JWT = 'jwt',
  /** No authentication: all callers share one set of identities. */
  NONE = 'none',
}

/** Settings of the API. */
export interface ApiSettings {
  /**
   * The kind of the API.
   *
   * @default ApiKind.HTTP
   */
  readonly kind?: ApiKind;

  /**
   * How callers are authenticated.
   *
   * @default ApiAuth.IAM
   */
  readonly auth?: ApiAuth;

  /**
   * The issuer of tokens. Required for an HTTP API with JWT.
   *
   * @default - none
   */
  readonly jwtIssuer?: string;

  /**
   * The audience of tokens. Required for an HTTP API with JWT.
   *
   * @default - none
   */
  readonly jwtAudience?: string[];

  /**
   * The user pool that issues tokens. Required for a REST API with JWT.
   *
   * @default - none
   */
  readonly userPool?: cognito.IUserPool;

  /**
   * The origins of web pages whose scripts may call an HTTP API.
   *
   * @default - none
   */
  readonly corsOrigins?: string[];

  /**
   * Whether to make the role with which API Gateway writes access logs of REST APIs. An account and
   * region has only one: set it on one pipeline, or on none if the account has the role already.
   *
   * @default false
   */
  readonly logsRole?: boolean;
}

/** Properties of a pipeline. One of config and configFile is required, unless template has a configuration. */
export interface PipelineProps {
  /**
   * The text of once.yaml: streams and destinations.
   *
   * @default - the content of configFile
   */
  readonly config?: string;

  /**
   * The path of once.yaml.
   *
   * @default - config
   */
  readonly configFile?: string;

  /**
   * The path of a template that `make included CONFIG=once.yaml` made. It has the queues of the
   * sources of that configuration, exactly the permissions for its destinations, and its API, so
   * `api` can't be set too.
   *
   * @default - the template of this package for `api`, for any configuration without sources
   */
  readonly template?: string;

  /**
   * The functions that handle streams, by the names of the streams. The functions of the pipeline
   * that run handlers may invoke exactly these. A function replaces the one that the configuration
   * names for its stream; the other settings of the handler are those of the configuration.
   *
   * @default - the functions that the configuration names, which you grant to the pipeline
   */
  readonly handlers?: { [stream: string]: lambda.IFunction };

  /**
   * A folder with the archives of the functions, as `make archives` builds them.
   *
   * @default - the archives of this package
   */
  readonly functions?: string;

  /**
   * The instruction set of the functions.
   *
   * @default lambda.Architecture.ARM_64
   */
  readonly architecture?: lambda.Architecture;

  /**
   * Memory of each function, in MB. Its CPU is proportional.
   *
   * @default 512
   */
  readonly memorySize?: number;

  /**
   * Timeout of the process and publish functions, from 5 seconds to 15 minutes. A failed message is
   * retried after six times as long.
   *
   * @default Duration.seconds(30)
   */
  readonly timeout?: Duration;

  /**
   * How many invocations each queue can cause at the same time, from 2 to 1000.
   *
   * @default 50
   */
  readonly maxConcurrency?: number;

  /**
   * Reserved concurrency of the ingest function. It keeps callers that wait for replies from using
   * up the concurrency that the process function needs to make them.
   *
   * @default - reserves and limits nothing
   */
  readonly ingestConcurrency?: number;

  /**
   * Reserved concurrency of the process function: at least maxConcurrency for each of its queues,
   * and one more.
   *
   * @default - reserves and limits nothing
   */
  readonly processConcurrency?: number;

  /**
   * Reserved concurrency of the publish function: at least 2 * maxConcurrency + 1.
   *
   * @default - reserves and limits nothing
   */
  readonly publishConcurrency?: number;

  /**
   * How many messages an invocation gets at most. First-in-first-out queues have at most 10, standard
   * queues up to 10,000 with a batchWindow.
   *
   * @default 10
   */
  readonly batchSize?: number;

  /**
   * How long messages of a standard queue are collected, at most 5 minutes.
   *
   * @default Duration.seconds(0)
   */
  readonly batchWindow?: Duration;

  /**
   * The network in which the functions run. It needs endpoints of DynamoDB, S3 and SQS, and of the
   * services of the destinations and secrets, or a way to the internet.
   *
   * @default - no network of your own
   */
  readonly vpc?: ec2.IVpc;

  /**
   * The subnets in the network.
   *
   * @default - the private subnets with a way to the internet
   */
  readonly vpcSubnets?: ec2.SubnetSelection;

  /**
   * The security groups of the functions.
   *
   * @default - a new one, which allows all outbound traffic
   */
  readonly securityGroups?: ec2.ISecurityGroup[];

  /**
   * The key that encrypts tables, queues, bucket, logs and the variables of the functions. The
   * policy of a key of the same app gets the services that need it. That of an imported key must
   * have them already.
   *
   * @default - keys that AWS manages
   */
  readonly encryptionKey?: kms.IKey;

  /**
   * The API.
   *
   * @default - an HTTP API with IAM
   */
  readonly api?: ApiSettings;

  /**
   * Bounds all roles of the pipeline.
   *
   * @default - none
   */
  readonly permissionsBoundary?: iam.IManagedPolicy;

  /**
   * Layers of the functions, such as a collector of telemetry.
   *
   * @default - none
   */
  readonly layers?: lambda.ILayerVersion[];

  /**
   * Further variables of the functions. Everybody who may read a function's configuration sees them.
   *
   * @default - none
   */
  readonly environment?: { [name: string]: string };

  /**
   * Whether AWS X-Ray records each invocation, and each request of a REST API.
   *
   * @default false
   */
  readonly tracing?: boolean;

  /**
   * How long logs are kept.
   *
   * @default logs.RetentionDays.ONE_MONTH
   */
  readonly logRetention?: logs.RetentionDays;

  /**
   * What happens to tables, queues, bucket and logs if the stack is deleted or an update replaces
   * them: RETAIN or DESTROY.
   *
   * @default RemovalPolicy.RETAIN
   */
  readonly removalPolicy?: RemovalPolicy;

  /**
   * The namespace of the metrics in CloudWatch. Pipelines in one account and region that share a
   * namespace are counted as one.
   *
   * @default - the path of the pipeline in the app, such as Shop/Orders
   */
  readonly metricsNamespace?: string;

  /**
   * The topic that is notified when an alarm begins and ends.
   *
   * @default - none, with a warning at synth
   */
  readonly alarmTopic?: sns.ITopic;

  /**
   * The topic that is notified, in place of alarmTopic, of alarms with the severity page.
   *
   * @default - alarmTopic
   */
  readonly pageTopic?: sns.ITopic;

  /**
   * Leaves out what emulators refuse or skip: alarms on metric math, and the role for access logs of
   * REST APIs. It also trusts the account as sender of messages, because emulators know no other.
   *
   * @default false
   */
  readonly emulator?: boolean;
}
