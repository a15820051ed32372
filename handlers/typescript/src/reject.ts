/**
 * A handler throws a Reject to refuse a message for good: the message becomes a dead letter with
 * the reason, and is not retried. Every other error means "retry".
 */
export class Reject extends Error {
  /** The reason says to an operator why the message is refused. */
  constructor(reason: string, options?: ErrorOptions) {
    super(reason || "the handler refuses the message", options);
    this.name = "Reject";
  }
}
