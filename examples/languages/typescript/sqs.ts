// Sends an order with the AWS SDK, until the server has it.
//
//   node sqs.js http://127.0.0.1:8080 orders order-1 customer-7 '{"item": 7}'
//
// The key comes from the caller, who has it after a crash, too: an order number, the id of a row.

import { GetQueueUrlCommand, SendMessageCommand, SQSClient, SQSServiceException } from "@aws-sdk/client-sqs";
import { setTimeout as sleep } from "node:timers/promises";

const [url, stream, key, group, body] = process.argv.slice(2);
// once dev checks no credentials. In AWS leave these options out, and send to the queue
// IngressFifoQueueUrl, with the attribute once-stream, and the stream in the deduplication id.
const sqs = new SQSClient({ endpoint: url, region: "any", credentials: { accessKeyId: "any", secretAccessKey: "any" } });

async function send(): Promise<string | undefined> {
  const queue = await sqs.send(new GetQueueUrlCommand({ QueueName: `${stream}.fifo` }));
  const message = { QueueUrl: queue.QueueUrl, MessageBody: body, MessageGroupId: group, MessageDeduplicationId: key };
  return (await sqs.send(new SendMessageCommand(message))).MessageId;
}

for (let pause = 100; ; pause = Math.min(2 * pause, 10_000)) {
  try {
    console.log("sent", key, await send());
    break;
  } catch (e) {
    if (e instanceof SQSServiceException && (e.$metadata.httpStatusCode ?? 500) < 500) throw e; // it would be refused again
    // No answer: the order may have been accepted, so the key stays the same.
  }
  await sleep(pause * (0.5 + Math.random() / 2));
}
