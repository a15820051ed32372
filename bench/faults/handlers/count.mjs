// The handler that all consumers of bench/faults have, in TypeScript's package: it counts the message in the state of its group, and sends the count.
//
// count.mjs PORT

import { createServer } from 'node:http';
import { handle } from '../../../handlers/typescript/dist/index.js';
import { listener } from '../../../handlers/typescript/dist/node.js';

const count = handle(
  (state, message, attempt) => {
    const next = { count: (state?.count ?? 0) + 1 };
    attempt.send('receiver', { id: message.id, ...next });
    return next;
  },
  { secret: process.env.FAULTS_SECRET },
);

createServer({ keepAliveTimeout: 120_000 }, listener(count)).listen(Number(process.argv[2]), '127.0.0.1');
