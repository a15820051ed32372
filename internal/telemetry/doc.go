// Package telemetry makes a system observable: it counts the engine's events, makes traces, and
// adds the invocation to each line of the log.
//
//	metrics.go   the names and units of the metrics, and the metrics of each event
//	tally.go     counts between two reports
//	emf.go       reports in CloudWatch's embedded metric format, as lines of the log
//	otlp/        the connection to an OpenTelemetry collector
//	scrape/      metrics for Prometheus
//	spans.go     spans of handlers and destinations
//	tracing.go   trace context in headers
//	edges.go     decorators of handlers, destinations, queues and the HTTP API
//	invoke.go    the wrapper of each call of a function, which reports at the end in any case
//	log.go       the log of a function
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
