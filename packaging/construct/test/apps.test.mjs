// What the apps in TypeScript and Python, which have the construct from its archives, make of it. SHOP has the folders typescript, python and go: two
// assemblies of the apps, and the template that infra makes for settings.json, the settings of the stack Tuned.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';

const folder = process.env.SHOP;
const read = (...path) => JSON.parse(readFileSync(join(folder, ...path), 'utf8'));

/** Returns a template without what differs by the language: where constructs were made. */
function template(language, stack) {
  const { Resources, ...rest } = read(language, `${stack}.template.json`);
  for (const [id, { Type }] of Object.entries(Resources)) {
    if (Type === 'AWS::CDK::Metadata') {
      delete Resources[id];
    }
  }
  return { Resources, ...rest };
}

const shop = template('typescript', 'Shop');

/** Returns the ids of all resources of a type, which must be this many. */
function all(type, count, { Resources } = shop) {
  const ids = Object.keys(Resources).filter((id) => Resources[id].Type === type);
  assert.equal(ids.length, count, type);
  return ids;
}

/** Returns the id of the only resource of a type whose id begins so. */
function one(type, begin = '', { Resources } = shop) {
  const ids = Object.keys(Resources).filter((id) => Resources[id].Type === type && id.startsWith(begin));
  assert.equal(ids.length, 1, `${type} ${begin}: ${ids}`);
  return ids[0];
}

const properties = (id) => shop.Resources[id].Properties;
const arn = (id) => ({ 'Fn::GetAtt': [id, 'Arn'] });
const ref = (id) => ({ Ref: id });

test('both languages make the same templates', () => {
  for (const stack of ['Shop', 'Tuned']) {
    assert.deepEqual(template('python', stack), template('typescript', stack));
  }
});

test('the functions of both pipelines run in the private subnets', () => {
  for (const id of all('AWS::Lambda::Function', 6)) {
    const { SubnetIds, SecurityGroupIds } = properties(id).VpcConfig;
    assert.equal(SubnetIds.length, 2);
    assert.ok(SubnetIds.every(({ Ref }) => Ref.startsWith('VpcPrivateSubnet')), JSON.stringify(SubnetIds));
    assert.equal(SecurityGroupIds.length, 1);
  }
});

test('the key encrypts tables, queues, buckets, logs and variables', () => {
  const key = arn(one('AWS::KMS::Key'));
  all('AWS::DynamoDB::Table', 4).forEach((id) => assert.deepEqual(properties(id).SSESpecification.KMSMasterKeyId, key));
  for (const id of all('AWS::SQS::Queue', 18).filter((queue) => queue.includes('Template'))) {
    assert.deepEqual(properties(id).KmsMasterKeyId, key);
    assert.equal(properties(id).SqsManagedSseEnabled, undefined);
  }
  all('AWS::S3::Bucket', 2).forEach((id) => assert.ok(JSON.stringify(properties(id).BucketEncryption).includes(JSON.stringify(key))));
  all('AWS::Logs::LogGroup', 8).forEach((id) => assert.deepEqual(properties(id).KmsKeyId, key));
  all('AWS::Lambda::Function', 6).forEach((id) => assert.deepEqual(properties(id).KmsKeyArn, key));
});

test('CloudWatch may use the key, and so may every function', () => {
  const key = one('AWS::KMS::Key');
  assert.ok(JSON.stringify(properties(key).KeyPolicy).includes('kms:EncryptionContext:aws:logs:arn'));
  const policies = all('AWS::IAM::Policy', 9).filter((id) => id.includes('Template'));
  assert.equal(policies.length, 6);
  for (const id of policies) {
    const of = properties(id).PolicyDocument.Statement.filter(({ Resource }) => JSON.stringify(Resource) === JSON.stringify(arn(key)));
    assert.ok(of.some(({ Action }) => Action.includes('kms:GenerateDataKey')), id);
  }
});

test('a domain is mapped to the HTTP API, after its stage', () => {
  const mapping = one('AWS::ApiGatewayV2::ApiMapping');
  assert.deepEqual(properties(mapping).ApiId, ref(one('AWS::ApiGatewayV2::Api', 'Orders')));
  assert.deepEqual(properties(mapping).DomainName, ref(one('AWS::ApiGatewayV2::DomainName')));
  assert.ok(shop.Resources[mapping].DependsOn.includes(one('AWS::ApiGatewayV2::Stage', 'Orders')));
  assert.deepEqual(properties(one('AWS::ApiGatewayV2::Api')).CorsConfiguration.AllowOrigins, ['https://shop.example']);
});

test('a web ACL is associated with the stage of the REST API', () => {
  const on = JSON.stringify(properties(one('AWS::WAFv2::WebACLAssociation')).ResourceArn);
  const [api, stage] = [one('AWS::ApiGateway::RestApi', 'Billing'), one('AWS::ApiGateway::Stage', 'Billing')];
  assert.ok(on.includes(`"::/restapis/",{"Ref":"${api}"},"/stages/",{"Ref":"${stage}"}`), on);
});

test('the command line finds both pipelines by the outputs', () => {
  const names = read('go', 'rest-iam-logs.template.json').Outputs;
  const wanted = Object.keys(names).filter((name) => !name.startsWith('Pipeline'));
  assert.ok(wanted.length > 10);
  for (const pipeline of ['Orders', 'Billing']) {
    wanted.forEach((name) => assert.ok(shop.Outputs[pipeline + name], pipeline + name));
  }
  assert.equal(Object.keys(shop.Outputs).length, 2 * wanted.length);
});

test('the code of each function is a zip archive with the program and the configuration', () => {
  const { files } = read('typescript', 'Shop.assets.json');
  for (const [pipeline, config] of [['Orders', 'streams: {orders:'], ['Billing', 'streams: {bills:']]) {
    for (const name of ['Ingest', 'Process', 'Publish']) {
      const { Code, Environment } = properties(one('AWS::Lambda::Function', `${pipeline}TemplatePipeline${name}`));
      const { source } = files[Code.S3Key.replace('.zip', '')];
      assert.equal(source.packaging, 'file');
      const archive = readFileSync(join(folder, 'typescript', source.path), 'latin1');
      assert.ok(archive.startsWith('PK\x03\x04') && archive.includes('bootstrap') && archive.includes('once.yaml') && archive.includes(config));
      assert.equal(Environment.Variables.ONCE_CONFIG, 'once.yaml');
      assert.equal(Environment.Variables.ONCE_METRICS_NAMESPACE, `Shop/${pipeline}`);
    }
  }
});

test('what a pipeline is granted, each of its roles is', () => {
  const roles = (queue) => all('AWS::IAM::Policy', 9)
    .filter((id) => JSON.stringify(properties(id).PolicyDocument).includes(JSON.stringify(arn(one('AWS::SQS::Queue', queue)))))
    .flatMap((id) => properties(id).Roles.map(({ Ref }) => Ref));
  const role = (name) => one('AWS::IAM::Role', `OrdersTemplatePipeline${name}Role`);
  assert.deepEqual(roles('Invoices').sort(), ['Ingest', 'Process', 'Publish'].map(role).sort());
  assert.deepEqual(roles('Copies'), [role('Publish')]);
});

test('the functions that run handlers know and may invoke those of the props', () => {
  const handler = /:lambda:.*:function:orders-handler/;
  for (const name of ['Ingest', 'Process', 'Publish']) {
    const variable = JSON.stringify(properties(one('AWS::Lambda::Function', `OrdersTemplatePipeline${name}`)).Environment.Variables.ONCE_HANDLERS);
    assert.ok(variable.includes('orders=arn:') && handler.test(variable), variable);
  }
  const roles = all('AWS::IAM::Policy', 9)
    .filter((id) => properties(id).PolicyDocument.Statement.some(({ Action, Resource }) => Action === 'lambda:InvokeFunction' && handler.test(JSON.stringify(Resource))))
    .flatMap((id) => properties(id).Roles.map(({ Ref }) => Ref));
  assert.deepEqual(roles.sort(), ['Ingest', 'Process'].map((name) => one('AWS::IAM::Role', `OrdersTemplatePipeline${name}Role`)).sort());
});

test('alarms notify the topics by their severity, and an alarm of the app counts the pipeline', () => {
  const tuned = template('typescript', 'Tuned').Resources;
  for (const [id, { Type, Properties }] of Object.entries(tuned).filter(([, resource]) => resource.Type === 'AWS::CloudWatch::Alarm')) {
    const page = Properties.Tags.some(({ Key, Value }) => Key === 'once:severity' && Value === 'page');
    assert.deepEqual(Properties.AlarmActions, [`arn:aws:sns:eu-central-1:123456789012:${page ? 'pages' : 'tickets'}`], Type + id);
    assert.deepEqual(Properties.OKActions, Properties.AlarmActions);
  }
  const refused = properties(one('AWS::CloudWatch::Alarm', 'Refused'));
  assert.deepEqual([refused.Namespace, refused.MetricName], ['Shop/Orders', 'DeadLettered']);
});

test('the props make what the same settings of infra make', () => {
  const go = read('go', 'rest-iam-logs.template.json').Resources;
  const ours = template('typescript', 'Tuned').Resources;
  const prefix = 'PipelineTemplate';
  const ids = Object.fromEntries(Object.keys(ours).filter((id) => id.startsWith(prefix)).map((id) => [id, id.slice(prefix.length, -8)]));
  let text = JSON.stringify(ours);
  Object.entries(ids).forEach(([id, name]) => (text = text.replaceAll(`"${id}"`, `"${name}"`)));
  const normal = (resources) => Object.fromEntries(Object.entries(resources).map(([id, { Metadata, ...resource }]) => [id, plain(resource)]));
  assert.deepEqual(normal(JSON.parse(text)), normal(JSON.parse(JSON.stringify(go).replaceAll('{"Ref":"MetricsNamespace"}', '"Tuned"'))));
});

/** Returns a resource without what the construct sets on purpose: code, topics and the name of the API. */
function plain(resource) {
  const { Code, AlarmActions, OKActions, ...rest } = resource.Properties ?? {};
  if (resource.Type === 'AWS::ApiGateway::RestApi') {
    delete rest.Name;
  }
  if (typeof rest.Threshold === 'number') {
    rest.Threshold = Number(rest.Threshold.toFixed(6));
  }
  if (resource.Type === 'AWS::IAM::Policy') {
    rest.PolicyDocument.Statement = permissions(rest.PolicyDocument.Statement);
    delete rest.PolicyName;
  }
  return { ...resource, DependsOn: [resource.DependsOn ?? []].flat().sort(), Properties: rest };
}

/** Returns each action on each resource: the CDK joins statements if it makes the policy itself. */
function permissions(statements) {
  const list = (value) => [value].flat();
  return statements.flatMap((s) => list(s.Action).flatMap((action) => list(s.Resource).map((resource) => `${s.Effect} ${action} ${JSON.stringify(resource)}`))).sort();
}
