// The handler that all consumers of bench/faults have, behind the idempotency of Powertools for AWS Lambda, as its documentation shows it.
//
// It speaks the Lambda Runtime API, as the managed runtime does.

import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';
import { DynamoDBClient, UpdateItemCommand } from '@aws-sdk/client-dynamodb';

const client = new DynamoDBClient({});
const config = new IdempotencyConfig({ eventKeyJmesPath: 'id', expiresAfterSeconds: 24 * 3600 });

const handle = makeIdempotent(
  async (message) => {
    const out = await client.send(
      new UpdateItemCommand({
        TableName: process.env.FAULTS_COUNTERS,
        Key: { pk: { S: message.id } },
        UpdateExpression: 'ADD n :one',
        ExpressionAttributeValues: { ':one': { N: '1' } },
        ReturnValues: 'UPDATED_NEW',
      }),
    );
    const answer = await fetch(process.env.FAULTS_RECEIVER, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Webhook-Id': message.id },
      body: JSON.stringify({ id: message.id, count: Number(out.Attributes.n.N) }),
    });
    await answer.arrayBuffer();
    if (!answer.ok) throw new Error(`the receiver answers ${answer.status}`);
    return { status: 200 };
  },
  { persistenceStore: new DynamoDBPersistenceLayer({ tableName: process.env.FAULTS_RECORDS }), config },
);

const root = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation/`;
for (;;) {
  const next = await fetch(`${root}next`);
  const event = await next.json();
  const deadline = Number(next.headers.get('Lambda-Runtime-Deadline-Ms'));
  config.registerLambdaContext({ getRemainingTimeInMillis: () => Math.max(0, deadline - Date.now()) });
  let what = '/response';
  let result = {};
  try {
    for (const record of event.Records) await handle(JSON.parse(record.body));
  } catch (e) {
    what = '/error';
    result = { errorType: e.name, errorMessage: e.message };
  }
  const settled = await fetch(root + next.headers.get('Lambda-Runtime-Aws-Request-Id') + what, { method: 'POST', body: JSON.stringify(result) });
  await settled.arrayBuffer();
}
