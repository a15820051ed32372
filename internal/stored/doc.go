// Package stored is the encoding of records in stores: CBOR (RFC 8949, core deterministic encoding), read and written by hand, because decoding and encoding by reflection
// cost as much processor time as all the rest of a load and a commit. Each record is written and read side by side:
//
//	encoder.go, decoder.go  items, fields, lists and maps
//	pending.go, effect.go   what waits to be published, and replies
//	message.go              messages, held ones too
//	source.go               what a group remembers of its sources
//
// The numbers of the fields are the format: names may change, numbers may not, and a number is never used again. A field that is zero is left out, and what a store has in
// its keys is not repeated.
//
// # Errors
//
// Whatever can't be read wraps [record.ErrCorrupt]. That includes a field that this program does not know: to ignore it would be to drop it with the next commit. So whatever
// changes the meaning of a record changes the number of the format that its store writes beside it.
//
// # Limits
//
// Times are whole microseconds. An object has at most 23 fields.
package stored
