package client

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
)

// A Batch is a part of a session: its entries after the number From, up to the number To.
type Batch struct {
	From, To uint64
	// Entries are the entries to process. Dead letters and the end are left out, so there may be
	// none; then the batch is done without work.
	Entries []Entry
	// End is true if nothing follows To.
	End bool
	// Fence is the fence of the session. A store that has seen a higher one must refuse the work.
	Fence uint64
	// State is the state of the session, as JSON; it is nil if there is none. With [Client.Consume]
	// the handler may change it, and nil clears it.
	State json.RawMessage
	// Effects are sent to destinations when the batch is done, see [Client.Consume].
	Effects []Effect

	prefix string
}

// Identity names an entry of the session for other systems: stream/session/life/number, or
// stream/group/session/life/number for the log of a group, with escaped names. It is the same for
// each try of the entry by this session. If the session is retired, the entry has another identity
// in the session that gets it.
func (b *Batch) Identity(e *Entry) string { return b.prefix + strconv.FormatUint(e.Number, 10) }

// SetHeaders sets the headers with which another system recognises a repeated call, and one of a
// consumer that was replaced: Idempotency-Key, the quoted identity of the entry; Once-Fence; and
// Once-Id, the key of the message. The system must refuse a fence that is lower than one that it
// has seen for the session. If sessions are retired, it must remember Once-Id as well.
func (b *Batch) SetHeaders(h http.Header, e *Entry) {
	h.Set("Idempotency-Key", strconv.Quote(b.Identity(e)))
	h.Set("Once-Fence", strconv.FormatUint(b.Fence, 10))
	h.Set("Once-Id", e.ID)
}

// identity returns the part of identities that all entries have.
func (o *Opened) identity() string {
	prefix := o.Stream
	if o.Group != "" {
		prefix += "/" + url.PathEscape(o.Group)
	}
	return prefix + "/" + url.PathEscape(o.Name) + "/" + strconv.FormatUint(o.Life, 10) + "/"
}

// first returns the first entries of the batch, at most n. If these are all, it also has what
// follows the last one.
func (b *Batch) first(n int) Batch {
	part := *b
	if n < len(b.Entries) {
		part.Entries, part.To, part.End = b.Entries[:n:n], b.Entries[n-1].Number, false
	}
	return part
}

// pass removes the entries up to a number, which are processed or dead letters.
func (b *Batch) pass(number uint64) {
	b.From = number
	for len(b.Entries) > 0 && b.Entries[0].Number <= number {
		b.Entries = b.Entries[1:]
	}
}
