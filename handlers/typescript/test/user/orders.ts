// The handler of the README, compiled without the types of Node.js, as in Cloudflare Workers.
import { handle, Reject } from "@effectively-once/handler";

interface Account {
  cents: number;
}

interface Order {
  cents: number;
}

export default handle<Account>(
  async (state, message, attempt) => {
    const account = state ?? { cents: 0 };
    const order = message.json<Order>();
    if (!Number.isInteger(order?.cents)) throw new Reject("not an order");
    if (account.cents < order.cents) {
      attempt.reply(409, { reason: "not enough money" });
      return account;
    }
    attempt.send("mail", { id: message.id }, { group: "ann", after: "15m" });
    attempt.timer("reminder", "7d", "pay");
    attempt.reply(201, { id: message.id });
    return { cents: account.cents - order.cents };
  },
  { secret: (env: { ONCE_SECRET: string }) => env.ONCE_SECRET },
);

// @ts-expect-error a handler that returns no state does not compile
handle<Account>(async (state) => {
  if (state) state.cents = 0;
});

// @ts-expect-error a time span needs a unit
handle<Account>((state, _, attempt) => (attempt.timer("reminder", "15"), state));

// @ts-expect-error the content is what a sender wrote: without a type it has to be checked
handle<Account>((state, message) => ({ cents: message.body.cents }));
