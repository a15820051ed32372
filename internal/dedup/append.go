package dedup

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// maxAppend is how many bytes of entries one commit appends to a log, unless a single message
// appends more: together with held messages and the group record they fit into a DynamoDB
// transaction of 4 MB.
const maxAppend = 512 << 10

// MaxAppend limits the entries that one message appends to a log, in bytes.
const MaxAppend = 1 << 20

var errNoLog = errors.New("the handler appends to a log, but the stream has none: configure log.retain")

// appendable returns an error if the engine can't take the entries of a handler. Another try of the
// handler may succeed.
func appendable(s record.Stream, entries []record.Entry) error {
	if s.LogRetention == 0 && len(entries) > 0 {
		return errNoLog
	}
	if size := sizeOf(entries); size > MaxAppend {
		return fmt.Errorf("a message appends %d bytes to a log, more than %d", size, MaxAppend)
	}
	for i := range entries {
		m := record.Message{ContentType: entries[i].ContentType, Headers: entries[i].Headers}
		if wrong := m.WrongHeaders(); wrong != nil {
			return fmt.Errorf("append to log: %w", wrong)
		}
	}
	return nil
}

// entriesOf returns the entries of a processed message for the log of its group: the message itself
// if its stream logs messages, and then those of its handler.
func (pl *plan) entriesOf(it *item, a *record.Attempt) []record.Entry {
	s := pl.part.stream
	if s.LogRetention == 0 {
		return nil
	}
	base := record.Entry{
		Kind: record.EntryMessage, ID: it.Identity(), Principal: it.Principal, Source: it.Source, Epoch: it.Epoch, Sequence: it.Sequence,
		Parents: it.Parents, Late: it.Seen > 0 && it.Seen < pl.next.Log.Time,
	}
	var out []record.Entry
	if s.LogMessages {
		e := base
		e.ContentType, e.Headers, e.Body = it.ContentType, it.Headers, it.Body
		out = append(out, e)
	}
	for _, x := range a.Entries() {
		e := base
		e.ContentType, e.Headers, e.Body = x.ContentType, x.Headers, x.Body
		out = append(out, e)
	}
	return out
}

// fits reports whether the plan can append these entries too. The first ones always fit.
func (pl *plan) fits(entries []record.Entry) bool {
	if len(entries) == 0 {
		return true
	}
	size := pl.entryBytes + sizeOf(entries)
	return len(pl.entries) == 0 && len(pl.hold)+len(pl.unhold) == 0 ||
		size <= maxAppend && len(pl.hold)+len(pl.unhold)+1+chunksOf(size) <= record.MaxCommitItems
}

func sizeOf(entries []record.Entry) int {
	n := 0
	for i := range entries {
		n += entries[i].Size()
	}
	return n
}

// chunksOf returns how many chunks entries of that size take at most.
func chunksOf(bytes int) int {
	if bytes == 0 {
		return 0
	}
	return bytes/record.MaxChunk + 1
}

// append numbers entries and adds them to the plan. Their time is after the last entry's, and after
// the time that the sender has seen.
func (pl *plan) append(entries []record.Entry, seen clock.Hybrid) error {
	if len(entries) == 0 {
		return nil
	}
	l := &pl.next.Log
	for _, e := range entries {
		at, err := max(l.Time, seen).Tick(pl.now)
		if err != nil {
			return fmt.Errorf("append to log: %w", err)
		}
		l.Last, l.Time = l.Last+1, at
		e.Number, e.Time = l.Last, at
		pl.entries = append(pl.entries, e)
	}
	pl.changed = true
	pl.entryBytes += sizeOf(entries)
	if until := pl.now.Add(pl.part.stream.LogRetention).Truncate(time.Millisecond); until.After(l.Until) {
		l.Until = until
	}
	return nil
}

// appendGap adds an entry about skipped numbers, if the stream has logs.
func (pl *plan) appendGap(key string, event admission.GapEvent) error {
	if pl.part.stream.LogRetention == 0 {
		return nil
	}
	principal, _, _ := strings.Cut(key, "\x1f")
	if principal == key {
		principal = ""
	}
	return pl.append([]record.Entry{{
		Kind: record.EntryGap, Principal: principal, Source: event.Source, Epoch: event.Epoch, From: event.First, To: event.Last,
	}}, 0)
}

// chunks returns the entries of a plan whose record is complete.
func (pl *plan) chunks() []record.Chunk { return log.Chunks(&pl.next, pl.entries) }
