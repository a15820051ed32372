// Package handler is the contract with handlers in any language: a request with messages of one
// group and its state, and an answer with the new state, replies and effects.
//
// Packages remote, program and lambda call a handler over HTTP, as a program on this machine, and
// as a function of AWS Lambda.
//
// # Errors
//
// An [InvalidError] says which rule an answer breaks. A handler with such an answer has failed: its
// messages are retried, and nothing of the answer is committed.
//
// # Limits
//
// Requests and answers have at most [MaxRequest] and [MaxAnswer] bytes.
package handler
