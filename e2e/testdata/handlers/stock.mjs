// The handler of examples/stock as a function of AWS Lambda. It fails at the first try of a message
// with the header flaky.
import { handle, Reject } from "@effectively-once/handler";

const stock = handle((state, message, attempt) => {
  const { Add = 0, Take = 0 } = message.json();
  const onHand = (state?.OnHand ?? 0) + Add - Take;
  if (onHand < 0) throw new Reject("not enough in stock");
  if (message.headers.flaky && message.try === 1) throw new Error("not now");
  attempt.send("warehouse", { Add, Take });
  attempt.reply(200, { OnHand: onHand });
  return { OnHand: onHand };
});

export const handler = stock.lambda;
