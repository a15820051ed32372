package dedup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/admission"
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

// An addition is the entries that a processed message adds to the log of its group: the message
// itself if its stream logs messages, then those of its handler, and the end of the log if the
// message ends it.
type addition struct {
	entry   record.Entry    // the fields that all of them have; at sets the content
	message *record.Message // nil if the stream does not log messages
	own     []record.Entry  // of the handler, with content only
	end     bool            // the last entry is the end of the log
	size    int             // of all of them
}

// additionOf returns the addition of a message. It must not be used after the message and the
// attempt.
func (pl *plan) additionOf(it *item, a *record.Attempt) (add addition) {
	s := &pl.part.stream
	if s.LogRetention == 0 {
		return addition{}
	}
	if add.own = a.Entries(); s.LogMessages && !it.OnlyEnds() && !a.Omitted() {
		add.message = &it.Message
	}
	add.end = it.End
	add.entry = record.Entry{
		ID: it.ID, RedeliveryOf: it.RedeliveryOf, Principal: it.Principal, Source: it.Source, Epoch: it.Epoch, Sequence: it.Sequence,
		Parents: it.Parents, Via: it.Via, ParentsMissing: pl.next.MissingParent(&it.Message) > 0, Late: it.Seen > 0 && it.Seen < pl.next.Log.Time,
	}
	if s.Partitions > 0 {
		add.entry.Group = it.SenderGroup()
	}
	for i := range add.count() {
		add.size += add.at(i).Size()
	}
	return add
}

// count returns the number of entries.
func (add *addition) count() int {
	n := len(add.own)
	if add.message != nil {
		n++
	}
	if add.end {
		n++
	}
	return n
}

// at returns an entry, until the next call.
func (add *addition) at(i int) *record.Entry {
	e := &add.entry
	e.Kind = record.EntryMessage
	if m := add.message; m != nil {
		if i == 0 {
			e.ContentType, e.Headers, e.Body = m.ContentType, m.Headers, m.Body
			return e
		}
		i--
	}
	if i == len(add.own) {
		e.Kind, e.ContentType, e.Headers, e.Body = record.EntryEnd, "", nil, nil
		return e
	}
	x := &add.own[i]
	e.ContentType, e.Headers, e.Body = x.ContentType, x.Headers, x.Body
	return e
}

// fits reports whether the plan can append entries of that size too. The first ones always fit.
func (pl *plan) fits(size int) bool {
	if size == 0 {
		return true
	}
	size += pl.entryBytes
	return pl.entries.Empty() && len(pl.hold)+len(pl.unhold) == 0 ||
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

// append adds the entries of a message to the plan. Their time is after the one that the sender has
// seen.
func (pl *plan) append(add *addition, seen clock.Hybrid) error {
	for i := range add.count() {
		if err := pl.appendEntry(add.at(i), seen); err != nil {
			return err
		}
	}
	return nil
}

// appendEntry numbers an entry and adds it to the plan. Its time is after the last entry's, and
// after another one.
func (pl *plan) appendEntry(e *record.Entry, seen clock.Hybrid) error {
	l := &pl.next.Log
	at, err := max(l.Time, seen).Tick(pl.now)
	if err != nil {
		return fmt.Errorf("append to log: %w", err)
	}
	l.Last, l.Time = l.Last+1, at
	e.Number, e.Time = l.Last, at
	if e.Kind == record.EntryEnd { // no later message of the group is processed
		l.Ended, pl.next.Timers = true, nil
	}
	pl.entries.Append(e, len(pl.part.items))
	pl.changed = true
	pl.entryBytes += e.Size()
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
	return pl.appendEntry(&record.Entry{
		Kind: record.EntryGap, Principal: principal, Source: event.Source, Epoch: event.Epoch, From: event.First, To: event.Last,
	}, 0)
}

// ends reports whether the plan ends the log of its group. Such a plan decides nothing behind the
// end: it is committed first.
func (pl *plan) ends() bool { return pl.next.Log.Ended && !pl.loaded.Log.Ended }

// clearEnded sends messages that are held behind the end of the log to the dead-letter queue, as
// many as one commit can delete: they were acknowledged, and will never be processed.
func (pl *plan) clearEnded(ctx context.Context) error {
	if !pl.loaded.Log.Ended {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(pl.next.Sources)) {
		if len(pl.next.Sources[key].Held) == 0 {
			continue
		}
		if err := pl.evict(ctx, key, admission.Ended()); err != nil {
			return err
		}
		if pl.more = len(pl.next.Sources[key].Held) > 0; pl.more {
			return nil
		}
	}
	return nil
}

// chunks returns the entries of a plan whose record is complete.
func (pl *plan) chunks() []record.Chunk { return pl.entries.Chunks(&pl.next) }
