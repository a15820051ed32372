// Fills a table of idempotency records with Powertools for AWS Lambda. Prints the reply of each line.
//
// store.mjs TABLE < PAYLOADS: one JSON text a line. It ends in the middle of the line that has "die" as a value.

import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';

const layer = () => new DynamoDBPersistenceLayer({ tableName: process.argv[2] });
const whole = new IdempotencyConfig({ expiresAfterSeconds: 3600 });
const context = { getRemainingTimeInMillis: () => 30_000 };
whole.registerLambdaContext(context);
const keyed = new IdempotencyConfig({ expiresAfterSeconds: 3600, eventKeyJmesPath: 'headers."Idempotency-Key"' });
keyed.registerLambdaContext(context);

const work = makeIdempotent(
  async function work(payload) {
    if (payload === 'die') process.exit(9);
    return { was: JSON.stringify(payload), run: randomUUID() };
  },
  { persistenceStore: layer(), config: whole },
);

const charge = makeIdempotent(
  async function charge(event) {
    return { statusCode: 201, headers: { 'Content-Type': 'application/json', 'X-Charge': 'é' }, body: JSON.stringify({ of: event.body, id: randomUUID() }) };
  },
  { persistenceStore: layer(), config: keyed },
);

for await (const line of createInterface({ input: process.stdin })) {
  const payload = JSON.parse(line);
  const reply = payload !== null && typeof payload === 'object' && 'headers' in payload ? await charge(payload) : await work(payload);
  console.log(JSON.stringify(reply));
}
