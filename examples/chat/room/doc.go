// Package room is a chat room in several regions. Each region is a system of its own with a log of
// the room, and sends the lines of its people to all others.
//
//	line.go     a line of the room, and the message of a person
//	region.go   the handler: stamp a line, append it to the log, send it to the other regions
//	view.go     lines under those that they answer, in the same order in every region
//	diagram.go  a space-time diagram of when a line was written, and when each region read it
//
// # Order
//
// The log of a region is the order in which it is read there; it never changes. The logs of two
// regions differ, because a line takes time to travel. These orders are the same everywhere:
//
//   - the lines of one person, because their source numbers them;
//   - a line and its answer, because the answer is held until the line is in the log: see [Say];
//   - the lines on a screen, because answers to one line are sorted by the hybrid time of the region
//     where they were written, then by person and number: see [View].
//
// # Limits
//
// A region that is cut off keeps the lines of its people as pending effects of the room. Their size
// is bounded: beyond 256 KB the region takes no more lines until it reaches the others again.
package room
