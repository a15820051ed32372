// Package sqsqueue is the queue port on Amazon SQS.
//
// # Errors
//
// If a message breaks a rule of SQS, the error is a *queue.InvalidError, and the message is not
// sent. After any other error of Send a message may have been sent. The SDK retries, so one call
// may send a message twice, which a first-in-first-out queue detects by the deduplication id.
//
// # Limits
//
// A message has at most 1 MiB, as in SQS. With a place for bodies, see WithBodies, it has at most
// 2 MiB, and a body that does not fit is kept there.
//
// Receive returns at most ten messages, and often fewer than are in the queue. Times are whole
// seconds, rounded up: a wait of at most 20, a visibility of 1 second to 12 hours. Binary
// attributes are not returned.
package sqsqueue
