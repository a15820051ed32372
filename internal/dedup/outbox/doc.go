// Package outbox is the publisher of the engine: it sends committed, pending effects to their
// destinations, marks the messages' tokens done, and clears the sent entries.
//
//	publish  send the pending effects of groups, mark done, clear     publish.go
//	ship     to all destinations concurrently, in order to each       ship.go
//	mark     tokens done, those of requests by a condition            mark.go
//	sweep    entries without effects, staged blobs of lost attempts   sweep.go
//
// # Errors
//
// Any worker may repeat any of this at any time, and does so after an error. Effects are then sent
// again under the same identity.
//
// # Limits
//
// The package imports the standard library and package record only. It never clears an entry before
// its token is done, and never changes a group's version.
package outbox
