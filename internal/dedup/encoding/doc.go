// Package encoding is the encoding of records in stores: CBOR (RFC 8949, core deterministic
// encoding). It is hand-written because encoding and decoding by reflection took as much processor
// time as the whole rest of a load and a commit. One function names the fields of a record, to write
// and to read it.
//
// The field numbers are the format: names may change, numbers may not, and a number is never
// reused. A field that is zero is left out. Data that is in a store's key is not repeated in the
// record.
//
// # Errors
//
// If a record can't be decoded, the error wraps [record.ErrCorrupt]. An unknown field is such an
// error, because the next commit would drop it. So a change of the meaning of a record needs a new
// format number, which the store writes beside the record.
//
// # Limits
//
// Times are whole microseconds. An object has at most 23 fields.
package encoding
