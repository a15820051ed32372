package client

import (
	"encoding/json"
	"iter"
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
	// State is the state of the session, as JSON. With [Client.Consume] the handler may replace it.
	State json.RawMessage
	// Effects are sent to destinations when the batch is done, see [Client.Consume].
	Effects []Effect

	prefix string
}

// Identity names an entry of the session for other systems: stream/session/life/number, or
// stream/group/session/life/number for the log of a group, with escaped names. It is the same for each try of the entry by this
// session. If the session is retired, the entry has another identity in the session that gets it.
func (b *Batch) Identity(e *Entry) string { return b.prefix + strconv.FormatUint(e.Number, 10) }

// SetHeaders sets the headers with which another system recognises a repeated call, and one of a
// consumer that was replaced: Idempotency-Key, the quoted identity of the entry; Once-Fence; and
// Once-Id, the key of the message. The system must refuse a fence that is lower than one that it has
// seen for the session. If sessions are retired, it must remember Once-Id as well.
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

// parts returns the batch in parts of one entry each. The last one also has what follows its entry.
func (b *Batch) parts() iter.Seq[Batch] {
	return func(yield func(Batch) bool) {
		from := b.From
		for i := range b.Entries {
			part := *b
			part.From, part.To, part.Entries, part.Effects = from, b.Entries[i].Number, b.Entries[i:i+1:i+1], nil
			part.End = b.End && part.To == b.To
			from = part.To
			if !yield(part) {
				return
			}
		}
		if from < b.To {
			part := *b
			part.From, part.Entries, part.Effects = from, nil, nil
			yield(part)
		}
	}
}
