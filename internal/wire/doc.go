// Package wire is the contract of messages on SQS queues: it translates between the engine's messages and what a queue carries, for real
// SQS and for the embedded queues alike.
//
// A message is its body and these attributes, all of them optional for senders:
//
//	once-stream      the stream; else the one that the queue is bound to
//	once-id          the identity; else the MessageDeduplicationId, else the messageId, which a retry by the sender does not repeat
//	once-group       the group; else the MessageGroupId
//	once-source      a numbered sender, with
//	once-epoch       its incarnation, a decimal number without sign or leading zeros
//	once-sequence    and the message's number, 1 or more
//	once-depends-on  a structured-field dictionary (RFC 9651) source=number, see [ParseDependsOn]
//	once-meta        JSON: content_type, headers, encoding; and, from trusted senders, principal, route, accepted
//	once-reason      on a dead letter, "reason: detail"
//
// Other attributes of the types String and Number become headers, except that Content-Type becomes the content type; binary ones are dropped. Names that start with
// once-, in any case, are the contract's: one that is not above makes the message invalid, because a misspelt group would break an order in silence.
//
// # Trust
//
// What a sender may say about itself it may say freely. What the front door found out (principal, route, acceptance) is believed only of
// a trusted SenderId, which SQS authenticates: anybody else who may write to the queue could take on another's identity by it.
//
// # Errors
//
// A message that breaks the contract is a [*record.InvalidError], and as much of it as can be read comes with the error. What could not be read is
// kept among its headers, under the attribute's name: such a message stays invalid on its way through the dead-letter queue and back.
// So does one whose dead letter would be larger than a queue takes: its letter lacks headers, or more, as its reason says, and has a header that no message may have.
//
// # Limits
//
// Nine of the ten attributes that SQS allows are used at most. A body that SQS takes as it is, is sent as it is; any other is sent as base64.
package wire
