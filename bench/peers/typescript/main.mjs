// One state change for each message behind the idempotency of Powertools for AWS Lambda, as its documentation shows it.
//
// main.mjs first|duplicate MESSAGES WARM: warms up, says "ready", waits for a line, works, and says how much CPU that took.

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';
import { DynamoDBClient, UpdateItemCommand } from '@aws-sdk/client-dynamodb';

const [which, messages, warm] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const reply = which === 'duplicate' ? 'x'.repeat(20_480) : 'ok';
const client = new DynamoDBClient({});
const config = new IdempotencyConfig({ eventKeyJmesPath: 'id', expiresAfterSeconds: 24 * 3600 });
config.registerLambdaContext({ getRemainingTimeInMillis: () => 30_000 });

const handle = makeIdempotent(
  async (message) => {
    await client.send(
      new UpdateItemCommand({
        TableName: process.env.BENCH_ACCOUNTS,
        Key: { pk: { S: message.group } },
        UpdateExpression: 'SET cents = :n',
        ExpressionAttributeValues: { ':n': { N: String(message.n) } },
      }),
    );
    return { status: 201, body: reply };
  },
  { persistenceStore: new DynamoDBPersistenceLayer({ tableName: process.env.BENCH_RECORDS }), config },
);

const message = (n) => {
  const name = randomUUID();
  return { id: name, group: name, n };
};

const cpu = () => {
  const usage = process.resourceUsage();
  return (usage.userCPUTime + usage.systemCPUTime) / 1e6;
};

const known = message(0);
await handle(known);
for (let n = 0; n < warm; n++) await handle(which === 'duplicate' ? known : message(n));
console.log('ready');
await once(process.stdin, 'data');
process.stdin.pause();
const work = Array.from({ length: messages }, (_, n) => (which === 'duplicate' ? known : message(n)));
const start = cpu();
for (const m of work) await handle(m);
console.log(JSON.stringify({ cpu_seconds: cpu() - start }));
