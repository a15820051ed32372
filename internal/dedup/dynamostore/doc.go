// Package dynamostore is a store in two DynamoDB tables.
//
// A decision is one conditional write to one item; only a commit that holds or unholds messages is a transaction. What a condition compares, and what two
// writers change independently of each other, are attributes; all else is CBOR in binary attributes: items are paid for by size, and names and values need not be
// UTF-8 there. The attributes are described in attributes.go; pending entries, which are to be small, in entry.go and common.go.
//
// # Writes that may have been applied
//
// The SDK repeats a request whose answer was lost, and so meets its own write. A failed condition brings the stored item back: if it shows the commit's attempt, or
// the token that was to be written, the write had been applied and the call succeeds. If it does not, and an earlier try of the same call may have been applied and
// written over since, the error is ambiguous; only otherwise is it record.ErrConflict.
//
// # Errors
//
// record.ErrConflict and record.ErrCorrupt as the port defines them; ErrTooLarge for an item above DynamoDB's limit, of which nothing was sent: with a
// *record.RefusedError where it is too large by itself, and no repetition will mend it; without one where entries that wait to be published fill the record. Any other error
// leaves a write applied or not.
//
// # Limits
//
// Times are kept to the millisecond. Empty slices and maps read as nil. An item holds 400 KB. Where there are Claims, a state and a pending entry of more than 100 KB are kept there; what is
// too large all the same is refused. A reply of more than 1 KB has an item of its own. Clear sets the expiry in a condition on what it
// leaves; where that condition loses a race the record stays without one, until a later commit or clear of the group. Groups and Tokens scan, in DynamoDB's own order.
package dynamostore
