// Package deadletter reads dead letters and puts them back where they came from, under the identities that they had. Its rules are the same wherever the queues are: in a
// data folder, or on SQS.
//
// A dead letter is sent to where it belongs first, and deleted when that queue has answered. What dies in between is there twice under one identity, which the engine is made for.
//
// # Errors
//
// What can't be put back stays, and is counted with its reason. An error of a whole run says that a dead-letter queue didn't answer, or that the time was over; the counts
// come with it.
//
// # Limits
//
// SQS shows no more than ten messages of one group of a first-in-first-out queue at once: those that stay hide the others behind them, until the next run.
package deadletter
