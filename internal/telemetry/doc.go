// Package telemetry tells what a system does: it counts what the engine observes, follows messages by traces, and names the invocation in each line of the log.
//
//	metrics.go   the names and units of the metrics, and what each event adds to them
//	tally.go     counts between two reports
//	emf.go       reports in CloudWatch's embedded metric format, as lines of the log
//	meter.go     reports to an OpenTelemetry collector
//	tracing.go   spans, and the way of a trace through headers
//	edges.go     decorators that put all of it around handlers, destinations, queues and the front door
//	invoke.go    the frame around each call of a function: it reports at the end, however that comes
//	log.go       the log of a function
//
// The engine knows nothing of it: it observes by a function, and spans are made at its edges.
//
// # Errors
//
// What can't be reported is logged and given up: no message fails, waits or is repeated for it.
//
// # Limits
//
// Nothing here holds a body, a key or the name of a group; identities are shown as hashes. What a function counted is lost when the function is killed before it
// returns; logs and queues still tell of it.
package telemetry
