// Package link is a destination that is another once system. Effects are posted to its HTTP API
// as numbered messages, many in one request, so that a stream with sequence admission there
// processes each effect once and in order, however often it is sent.
//
// # Identity
//
// The source is SYSTEM/DESTINATION/stream/group: the name of this system, the name of the
// destination, and the group that sends. The epoch is the incarnation of the group, the sequence
// the effect's number among those of the group to the same destination and target. All four
// parts of the source are needed. Two systems may send from streams of one name to one receiver.
// A destination that is renamed numbers from 1 again, and so does a second destination with the
// same URL. A deleted group that is used again has a new incarnation, and so a new epoch. After a
// restore the epoch is the time of that, with the numbers from 1: see [record.Restores]. Effects that
// were pending in the copy keep their old epoch and numbers. The destination keeps its name.
//
// The key is the effect's identity in this system with its incarnation. It is the identity if
// the stream there is not numbered.
//
// # Errors
//
// An effect that the other system refuses for good, because of a loop or of its content, is
// refused here too, after a void message has taken its number: otherwise the receiver would hold
// all later ones. If its number is taken by another content, or the receiver has ended, there is
// no void message. After any other answer, and if there is none, the effect is to be sent again
// under the same number. Redirects are not followed. Errors name the host only: a URL may
// contain secrets.
package link
