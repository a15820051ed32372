// Package deadletter reads dead letters and redrives them under their identities. It is used for
// queues in a data folder and on SQS.
//
// A dead letter is sent to its queue first, and deleted when that queue has answered. After a crash
// in between there are two copies under one identity, which the engine deduplicates.
//
// # Errors
//
// A letter that can't be redriven stays, and is counted with its reason. If a whole run returns an
// error, a dead-letter queue did not answer, or the deadline has passed; the counts are returned
// with it.
//
// # Limits
//
// SQS returns at most ten messages of one group of a first-in-first-out queue: if these stay, they
// hide the others of the group until the next run.
package deadletter
