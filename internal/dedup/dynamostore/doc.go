// Package dynamostore is a store in two DynamoDB tables.
//
// Each decision is one conditional write of one item; only a commit that holds or unholds messages
// is a transaction. Fields that a condition compares, or that two writers change independently, are
// attributes. All others are CBOR in binary attributes: an item is billed by its size, and binary
// values need not be UTF-8. The attributes are described in attributes.go; pending entries, which
// are kept small, in entry.go and common.go.
//
// # Writes that may have been applied
//
// The SDK retries a request if the reply was lost, and so may conflict with its own write. A failed
// condition returns the stored item. If it shows the commit's attempt, or the token to be written,
// the write had been applied and the call succeeds. If it does not, an earlier try of the same call
// may have been applied and overwritten since; then the error is ambiguous. Only otherwise it is
// record.ErrConflict.
//
// # Errors
//
// record.ErrConflict and record.ErrCorrupt are as the port defines them. ErrTooLarge says that an
// item exceeds DynamoDB's limit, and that nothing was sent. If the item is too large by itself, so
// that no retry can succeed, the error also wraps a *record.RefusedError; if pending effects fill
// the record, it wraps record.ErrFull. After any other error a write may have been applied or not.
//
// # Limits
//
// Times are kept to the millisecond. Empty slices and maps read as nil. An item is limited to 400
// KB. If Claims are configured, a state or a pending entry of more than 100 KB is stored there; a
// record that is still too large is refused. A reply of more than 1 KB has its own item.
//
// Clear sets the expiry on the condition that nothing is left. If that condition loses a race, the
// record stays without expiry until a later commit or clear of the group. Groups and Tokens scan,
// in DynamoDB's own order.
package dynamostore
