import { Attempt } from "./attempt.js";
import { readable, toJSON } from "./body.js";
import type { Answer, AnsweredMessage, Call } from "./document.js";
import { Message } from "./message.js";
import { Reject } from "./reject.js";

/**
 * A function that handles one message: it returns the new state of the group. It returns `state` if
 * nothing changes, and null to clear it.
 */
export type HandlerFunction<State> = (
  state: State | null,
  message: Message,
  attempt: Attempt,
) => State | null | Promise<State | null>;

/**
 * run answers a call: it handles the messages in their order, each with the state that the previous
 * one left. An error at a later message ends the answer before it, because the answer is committed
 * as a whole; failed is told about it. An error at the first message is thrown.
 */
export async function run<State>(fn: HandlerFunction<State>, call: Call, failed: (error: unknown, id: string) => void): Promise<Answer> {
  const before = JSON.stringify(call.state ?? null);
  let state = before;
  const messages: AnsweredMessage[] = [];
  for (const m of call.messages) {
    const attempt = new Attempt();
    try {
      // Each message gets a copy: an attempt that fails can't change the state of those before it.
      const result = await fn(JSON.parse(state) as State | null, new Message(call, m), attempt);
      if (result === undefined) throw new TypeError("the handler returned undefined: it must return the state of the group, or null for none");
      state = toJSON(result, "the state");
      messages.push(attempt.end(m.id));
    } catch (error) {
      attempt.abandon();
      if (error instanceof Reject) {
        messages.push({ id: m.id, reject: readable(error.message) });
        continue;
      }
      failed(error, m.id);
      if (messages.length === 0) throw error;
      break;
    }
  }
  return state === before ? { messages } : { state: JSON.parse(state), messages };
}

/** textOf returns an error in words. */
export function textOf(error: unknown): string {
  try {
    return readable(String(error instanceof Error ? error.message || error.name : error));
  } catch {
    return "an error that has no text";
  }
}
