import { handle, Reject } from "@effectively-once/handler";

/** The state of one group: one customer's account. */
interface Account {
  Cents: number;
}

/** Takes money from the account of its group. If To is that account, it puts the money in. */
interface Transfer {
  From: string;
  To: string;
  Cents: number;
}

/**
 * transfer moves money out of the account and tells the other bank and the customer. However often a
 * transfer is delivered, the account changes once, and both messages keep their identities.
 */
export const transfer = handle<Account>(
  (state, message, attempt) => {
    const { From, To, Cents } = read(message.json());
    const account = state ?? { Cents: 0 };
    if (To === message.group) {
      account.Cents += Cents;
    } else if (From !== message.group) {
      throw new Reject("not a transfer of this account");
    } else if (account.Cents < Cents) {
      attempt.reply(409, { Reason: "not enough money" });
      return account; // a decision, remembered like any other
    } else {
      account.Cents -= Cents;
      attempt.send("bank", { From, To, Cents }, { group: To || message.group });
      attempt.send("mail", { ID: message.id, Balance: account.Cents });
    }
    attempt.reply(201, { ID: message.id, Balance: account.Cents });
    return account;
  },
  { secret: process.env.ONCE_SECRET },
);

/** read checks a message. A sender writes what it wants: the compiler knows nothing of it. */
function read(body: unknown): Transfer {
  const { From = "", To = "", Cents } = (body ?? {}) as Partial<Transfer>;
  if (typeof From !== "string" || typeof To !== "string" || !Number.isSafeInteger(Cents) || Cents! <= 0) {
    throw new Reject("not a transfer");
  }
  return { From, To, Cents: Cents! };
}
