export type { Attempt, Duration, SendOptions } from "./attempt.js";
export type { BodyOptions } from "./body.js";
export type { Answer, AnsweredMessage, Call, CallMessage, EncodedBody, EncodedEffect } from "./document.js";
export { handle } from "./handle.js";
export type { Handler, HandlerOptions, Secrets } from "./handle.js";
export type { Message } from "./message.js";
export { Reject } from "./reject.js";
export type { HandlerFunction } from "./run.js";
