// What a pipeline makes of its props. SHOP has sources.json, the template that infra makes for sources.yaml.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { App, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { UserPool } from 'aws-cdk-lib/aws-cognito';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Function } from 'aws-cdk-lib/aws-lambda';
import { ApiAuth, ApiKind, Pipeline } from '@effectively-once/once';

const folder = mkdtempSync(join(tmpdir(), 'once-props-'));
const config = 'streams: {orders: {}}\n';
const sources = { template: join(process.env.SHOP, 'sources.json'), config: readFileSync('sources.yaml', 'utf8') };

/** Makes a pipeline in a stack of its own. */
function make(props) {
  const stack = new Stack(new App({ outdir: join(folder, 'cdk.out') }), 'Shop');
  return new Pipeline(stack, 'orders-eu', typeof props === 'function' ? props(stack) : props);
}

const synth = (props) => Template.fromStack(Stack.of(make(props)));

const fn = (stack) => Function.fromFunctionName(stack, 'Handler', 'handler');

const bad = {
  'no configuration': [{}, /config, configFile: give/],
  'two configurations': [{ config, configFile: 'once.yaml' }, /config, configFile: give one/],
  'a configuration that is no YAML': [{ config: 'streams: {' }, /config: .* at line 1/],
  'a path in place of the text': [{ config: 'once.yaml' }, /config: it has no settings.*configFile is its path/],
  'a list in place of a configuration': [{ config: '- orders' }, /config: it has no settings/],
  'a path that is wrong': [{ configFile: 'nowhere/once.yaml' }, /configFile: ENOENT.*nowhere\/once.yaml'; the path is relative to \//],
  'a number outside of its range': [{ config, memorySize: 64 }, /memorySize: 64 is not a whole number from 128/],
  'a large batch without a window': [{ config, batchSize: 11 }, /batchSize: 11 .* needs a batchWindow/],
  'a long timeout': [{ config, timeout: Duration.hours(1) }, /timeout \(seconds\): 3600/],
  'too little concurrency': [{ config, processConcurrency: 100 }, /processConcurrency: 100 is less than 101/],
  'subnets without a network': [{ config, vpcSubnets: {} }, /vpcSubnets, securityGroups: give vpc/],
  'public subnets': [(stack) => ({ config, vpc: new Vpc(stack, 'Vpc'), vpcSubnets: { subnetType: SubnetType.PUBLIC } }), /select private subnets/],
  'another removal policy': [{ config, removalPolicy: RemovalPolicy.SNAPSHOT }, /neither RETAIN nor DESTROY/],
  'CORS of a REST API': [{ config, api: { kind: ApiKind.REST, corsOrigins: ['*'] } }, /set kind to HTTP/],
  'a role for logs of an HTTP API': [{ config, api: { logsRole: true } }, /set kind to REST/],
  'JWT without an issuer': [{ config, api: { auth: ApiAuth.JWT } }, /needs jwtIssuer/],
  'JWT without a user pool': [{ config, api: { auth: ApiAuth.JWT, kind: ApiKind.REST } }, /needs userPool/],
  'an issuer without JWT': [{ config, api: { jwtIssuer: 'https://id.example' } }, /set auth to JWT/],
  'a folder without archives': [{ config, functions: folder }, /functions: ENOENT.*make archives/],
  'sources without a template for them': [{ config: sources.config }, /no queue for ingress shop-orders, uploads.*make included/],
  'a template with other sources': [{ ...sources, config }, /has IngressShopOrdersQueue, IngressUploadsQueue/],
  'a template for CloudFormation alone': [{ config, template: 'package.json' }, /not made for this construct/],
  'a handler of no stream': [(stack) => ({ config, handlers: { order: fn(stack) } }), /handlers.order: the config has no stream order/],
  'two handlers of a stream': [(stack) => ({ config: `${config}handlers: {orders: {url: "https://x.example"}}\n`, handlers: { orders: fn(stack) } }), /handlers.orders: the config has another handler/],
  'a handler that may take too long': [{ config: `${config}handlers: {orders: {lambda: f, timeout: 0.5m}}\n` }, /handlers.orders.timeout: 0.5m does not fit into the 30 s .* at most 26s/],
  'a handler of the ingest function that may take too long': [
    { config: 'streams: {orders: {direct: true, order: none}}\nhandlers: {orders: {lambda: f, timeout: 26s}}\n', timeout: Duration.minutes(1) }, /26s does not fit into the 29 s/,
  ],
  'the default of a handler with a short timeout': [(stack) => ({ config, timeout: Duration.seconds(10), handlers: { orders: fn(stack) } }), /handlers.orders.timeout: 10s does not fit into the 10 s/],
  'a template and an API': [{ ...sources, api: {} }, /the template has its API/],
};

for (const [name, [props, message]] of Object.entries(bad)) {
  test(`an error says what to do about ${name}`, () => assert.throws(() => make(props), message));
}

test('an archive that is no archive is an error', () => {
  for (const name of ['ingest', 'process', 'publish']) {
    writeFileSync(join(folder, `once-${name}-arm64.zip`), 'text');
  }
  assert.throws(() => make({ config, functions: folder }), /not a zip archive/);
});

test('callers are authenticated as the props say', () => {
  const jwt = { auth: ApiAuth.JWT, jwtIssuer: 'https://id.example', jwtAudience: ['shop', 'till'] };
  const pool = (stack) => ({ config, api: { kind: ApiKind.REST, auth: ApiAuth.JWT, userPool: new UserPool(stack, 'Pool') } });
  const route = (props) => properties(make(props), 'AWS::ApiGatewayV2::Route').map(({ authorizationType }) => authorizationType);
  const method = (props) => properties(make(props), 'AWS::ApiGateway::Method').map(({ authorizationType }) => authorizationType);
  assert.deepEqual(route({ config }), ['AWS_IAM']);
  assert.deepEqual(route({ config, api: { auth: ApiAuth.NONE } }), ['NONE']);
  assert.deepEqual(route({ config, api: jwt }), ['JWT']);
  assert.deepEqual(method({ config, api: { kind: ApiKind.REST } }), ['AWS_IAM', 'AWS_IAM']);
  assert.deepEqual(method({ config, api: { kind: ApiKind.REST, auth: ApiAuth.NONE } }), ['NONE', 'NONE']);
  assert.deepEqual(method(pool), ['COGNITO_USER_POOLS', 'COGNITO_USER_POOLS']);
  assert.deepEqual(properties(make({ config, api: jwt }), 'AWS::ApiGatewayV2::Authorizer')[0].jwtConfiguration, { issuer: 'https://id.example', audience: ['shop', 'till'] });
  assert.match(JSON.stringify(properties(make(pool), 'AWS::ApiGateway::Authorizer')[0].providerArns), /"Pool\w+","Arn"/);
});

/** Returns the properties of the resources of a type, without synthesizing a template. */
function properties(pipeline, type) {
  const stack = Stack.of(pipeline);
  const resources = stack.node.findAll().filter(({ cfnResourceType }) => cfnResourceType === type);
  assert.ok(resources.length > 0, type);
  return resources.map((resource) => stack.resolve(resource.cfnProperties));
}

test('a template for a configuration has its sources, permissions, and the configuration itself', () => {
  const pipeline = make((stack) => ({ template: sources.template, encryptionKey: new Key(stack, 'Key') }));
  const template = Template.fromStack(Stack.of(pipeline));
  template.hasOutput('OrdersEuIngressShopOrdersQueueUrl', {});
  template.hasOutput('OrdersEuApiUrl', {});
  const text = JSON.stringify(template.toJSON());
  assert.ok(text.includes('events:PutEvents'));
  const policy = JSON.stringify(Object.values(template.findResources('AWS::KMS::Key'))[0].Properties.KeyPolicy);
  assert.ok(policy.includes('events.amazonaws.com') && policy.includes('s3.amazonaws.com'), policy);
  assert.match(JSON.stringify(Stack.of(pipeline).resolve(pipeline.sourceQueue('shop-orders').queueUrl)), /ShopOrders|shoporders/i);
  assert.throws(() => pipeline.sourceQueue('other'), /there is no ingress other; there are .*ShopOrders/);
});

test('a stack keeps its own description, and has no parameters of the template', () => {
  const json = synth({ config }).toJSON();
  assert.equal(json.Description, undefined);
  assert.deepEqual(Object.keys(json.Parameters), ['BootstrapVersion']);
});

test('a pipeline without a topic warns that its alarms notify nobody, and one for an emulator does not', () => {
  const warnings = (props) => make(props).node.metadata.filter(({ type }) => type === 'aws:cdk:warning').map(({ data }) => data);
  assert.match(warnings({ config })[0], /set alarmTopic/);
  assert.deepEqual(warnings({ config, emulator: true }), []);
});
