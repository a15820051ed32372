// Package pipeline puts the engine between its queues, wherever the system runs: the embedded system and the deployed functions give it their store and their queues, and get the
// same streams, the same ways between the queues and the same functions.
//
//	pipeline.go  the engine, and the functions behind the queues
//	streams.go   what the configuration and the code say of each stream
//	queues.go    which queue each message goes to
//	senders.go   the destinations that are the same everywhere
//	feed.go      messages that one stream sends to another
//
// # Errors
//
// An error of a queue is ambiguous: what was to be sent may be there. Everything here may be repeated.
//
// # Limits
//
// The package knows ports only: neither a store, nor AWS clients, nor the command line. It receives nothing; whoever owns the queues feeds the functions.
package pipeline
