// Package outbox is the publisher half of the engine: it sends what is committed and pending to its destinations, marks the messages' tokens done, and clears what is sent.
//
//	publish  send the pending effects of groups, mark done, clear     publish.go
//	ship     to all destinations at once, in order to each            ship.go
//	mark     tokens done, requests' tokens by a condition             mark.go
//	sweep    entries without effects, staged blobs of lost attempts   sweep.go
//
// # Errors
//
// Everything may be repeated, by any worker, at any time, and is repeated after an error: effects are sent again under the same identity.
//
// # Limits
//
// The package imports the standard library and the records only. It never clears before tokens are done, and never touches a group's version.
package outbox
