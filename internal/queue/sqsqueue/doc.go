// Package sqsqueue is the queue port on Amazon SQS.
//
// # Errors
//
// A message that breaks a rule of SQS is a *queue.InvalidError, and is not sent. Any other error of Send leaves a message sent or not; the SDK has tried several
// times by then, so that one call may send a message twice, which a first-in-first-out queue recognises by its deduplication id.
//
// # Limits
//
// A receive gives at most ten messages, and never more than SQS has at hand. Times are whole seconds, rounded up: a wait of at most 20, a visibility of 1 second to 12 hours. An
// attribute that is binary is not given out.
package sqsqueue
