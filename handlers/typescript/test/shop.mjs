// A handler for the tests with the server: an account that pays, and says so.

import { handle, Reject } from "../dist/index.js";

/** The texts of messages that fail in their first try. */
const failed = new Set();

export const shop = handle(
  async (state, message, attempt) => {
    console.log("handling", message.id);
    const { cents = 0, fails, reject, remind, cancel, note } = message.timer ? {} : message.json();
    const account = state ?? { cents: 100, tries: 0 };
    account.tries += 1;
    account.cents -= cents;
    if (reject) throw new Reject("not a payment");
    if (fails && message.try === 1 && !failed.has(message.id)) {
      failed.add(message.id);
      throw new Error(`${message.id} fails`);
    }
    attempt.send("mail", { id: message.id, left: account.cents, ...(message.timer ? { timer: message.timer } : {}) });
    if (remind) attempt.timer("reminder", remind, "pay");
    if (cancel) attempt.cancel("reminder");
    if (note) attempt.append(note);
    attempt.reply(201, { left: account.cents });
    return account;
  },
  { secret: process.env.SHOP_SECRET, onError: (error) => console.error(String(error)) },
);
