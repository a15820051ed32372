// Package pipeline puts the engine between its queues, wherever the system runs: the embedded
// system and the deployed functions give it their store and their queues, and get the same streams,
// the same ways between the queues and the same functions.
//
//	pipeline.go  the engine, and the functions behind the queues
//	streams.go   the streams of the configuration and of the code, merged
//	queues.go    which queue each message goes to
//	senders.go   the destinations that are the same everywhere
//	sources.go   the queues of sources, and deliveries with several messages
//	feed.go      messages that one stream sends to another
//
// # Errors
//
// If a queue returns an error, the message may or may not have been sent. Every call may be
// repeated.
//
// # Limits
//
// The package knows ports only: neither a store, nor AWS clients, nor the command line. It receives
// nothing; the owner of the queues feeds the functions.
package pipeline
