// Package telemetry makes a system observable: it counts the engine's events, makes traces, and
// adds the invocation to each line of the log.
//
// The engine does not depend on it: the engine calls an observer function, and spans are made at
// its edges.
//
// # Errors
//
// If a report fails, the error is logged and the report is dropped: no message fails, waits or is
// retried because of it.
//
// # Limits
//
// No report contains a body, a key or the name of a group; identities are hashed. If a function is
// killed before it returns, its counts are lost; logs and queues still show its work.
package telemetry
