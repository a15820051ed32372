// Package handler is the contract with handlers in any language: a request with messages of one
// group and its state, and an answer with the new state, replies and effects.
//
//	request.go    the request, and its encoding
//	answer.go     the answer, and its strict decoding
//	effect.go     effects and timers in an answer
//	messages.go   effects in the commit of a session, which has no timers
//	content.go    content types, headers and bodies
//	document.go   JSON objects without unknown or repeated members
//	call.go       the port to the program that answers
//	guard.go      calls for a stream: their time, their number, their answers
//	breaker.go    no calls while the program is down
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
