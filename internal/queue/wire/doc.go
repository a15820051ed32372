// Package wire is the contract of messages on SQS queues. It converts between the engine's messages
// and the messages of a queue, both for SQS and for the embedded queues.
//
// A message is its body and these attributes, all of them optional for senders:
//
//	once-stream      the stream; default: the stream that the queue is bound to
//	once-id          the identity; default: the MessageDeduplicationId, or else the messageId, which
//	                 is different if the sender retries
//	once-group       the group; default: the MessageGroupId of a first-in-first-out queue
//	once-source      a numbered sender, with
//	once-epoch       its incarnation, a decimal number without sign or leading zeros
//	once-sequence    and the message's number, 1 or more
//	once-depends-on  a structured-field dictionary (RFC 9651) source=number, see [ParseDependsOn]
//	once-parents     numbers of log entries, see [ParseParents]
//	once-end         true: the message ends the log of its group
//	once-time        the hybrid time that the sender has seen
//	once-meta        JSON: content_type, headers, encoding; from trusted senders also principal,
//	                 route, accepted, redelivery_of, timer, timer_number; on a dead letter session,
//	                 number
//	once-reason      on a dead letter, "reason: detail"
//
// Other attributes of the types String and Number become headers, except that Content-Type becomes
// the content type; binary ones are dropped. Names that start with once-, in any case, are
// reserved. A reserved name that is not listed makes the message invalid, because a misspelt
// once-group would break an order silently.
//
// # Trust
//
// Every sender may set the attributes that describe its own message. The facts that the HTTP API
// establishes (principal, route, acceptance), and the timer that a message is of, are accepted only
// from a trusted SenderId, which SQS authenticates: otherwise any sender with access to the queue
// could use another principal's identity, or fire a timer of a group.
//
// # Errors
//
// If a message breaks the contract, the error is a [*record.InvalidError], and the decodable parts
// are returned with it. The other parts are kept as headers, under the attribute's name, so that
// the message stays invalid on its way through the dead-letter queue and back. If a dead letter
// would be larger than a queue allows, headers or other parts are left out, as its reason says, and
// it has a header that no message may have, so that it stays invalid too.
package wire
