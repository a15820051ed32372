package dynamostore

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// encodeGroup returns the whole item of a group.
func encodeGroup(g *record.Group, attempt string) item {
	it := groupItemKey(g.Key)
	it[attrFormat] = number(format)
	it[attrIncarnation], it[attrVersion], it[attrLast] = number(g.Incarnation), number(g.Version), number(g.Last)
	put(it, attrAttempt, text(attempt))
	put(it, attrExpires, instant(g.Expires))
	put(it, attrTTL, ttl(g.Expires))
	it[attrRetention] = keepFor(g.Retention)
	if len(g.State) > 0 {
		it[attrState] = binary(g.State)
	}
	if g.HasHeld() {
		it[attrHeld] = str(shard(g.Key))
	}
	if len(g.Sources) > 0 {
		it[attrSources] = encoded(func(e *encoding.Encoder) { encoding.Map(e, g.Sources, encoding.WriteSource) })
	}
	if len(g.Chained) > 0 {
		it[attrChained] = encoded(func(e *encoding.Encoder) { encoding.Map(e, g.Chained, encoding.WriteUint) })
	}
	if len(g.Timers) > 0 {
		it[attrFormat] = number(formatTimer)
		it[attrTimers] = encoded(func(e *encoding.Encoder) { encoding.Map(e, g.Timers, encoding.WriteTimer) })
		put(it, attrUntil, instant(g.KeptForTimers()))
	}
	if g.Log.Last > 0 {
		it[attrLog] = encoded(func(e *encoding.Encoder) { encoding.WriteLog(e, &g.Log) })
	}
	encodePending(it, g, attempt)
	return it
}

// keepFor returns a retention in seconds, rounded up as the table's time-to-live is.
func keepFor(d time.Duration) types.AttributeValue {
	return integer(int64((record.StoredRetention(d) + time.Second - 1) / time.Second))
}

// encodePending adds the pending entries to an item.
func encodePending(it item, g *record.Group, attempt string) {
	list := slices.SortedFunc(slices.Values(g.Pending), byNumber)
	pending, sent := item{}, item{}
	it[attrPending], it[attrSent] = &types.AttributeValueMemberM{Value: pending}, &types.AttributeValueMemberM{Value: sent}
	if len(list) > 0 {
		it[attrCommon] = binary(encodeCommons(list, attempt))
	}
	c := common{attempt: attempt}
	for i := range list {
		p := &list[i]
		c = commonOf(p, c)
		pending[numberName(p.Number)] = encoded(func(e *encoding.Encoder) { writeEntry(e, g.Key, p, c) })
		switch {
		case p.Kept():
			sent[numberName(p.Number)] = encodeKept(p)
		case len(p.Sent) > 0:
			sent[numberName(p.Number)] = encodeSent(p.Sent)
		}
	}
}

// doneMark is the destination in the mark of a kept entry. The mark takes the place of an effect's
// index with the time until which the entry counts, in seconds. No destination has this name.
//
// A version of this program that knows no kept entries reads one as an entry without effects, and
// ignores its mark. So it treats the message as committed, and marks the token before it removes
// the entry.
const doneMark = "\x1fdone"

func encodeKept(p *record.Pending) types.AttributeValue {
	return encodeSent([]record.Sent{{Effect: int(encoding.Seconds(p.DoneUntil)), To: doneMark}})
}

// keptUntil moves the time of a kept entry from its mark to where it belongs.
func keptUntil(p *record.Pending) {
	if len(p.Effects) == 0 && len(p.Sent) == 1 && p.Sent[0].To == doneMark {
		p.DoneUntil, p.Sent = encoding.FromSeconds(int64(p.Sent[0].Effect)), nil
	}
}

func encodeSent(sent []record.Sent) types.AttributeValue {
	return encoded(func(e *encoding.Encoder) { encoding.List(e, sent, encoding.WriteSent) })
}

func byNumber(a, b record.Pending) int { return cmp.Compare(a.Number, b.Number) }

func numberName(n uint64) string { return strconv.FormatUint(n, 10) }

// decodeGroup reads an item. A missing or expired item is a group of version 0.
func decodeGroup(key record.GroupKey, it item, now int64) (record.Group, error) {
	g := record.Group{Key: key}
	r := &reader{item: it}
	if len(it) == 0 {
		return g, nil
	}
	if r.checkGroupFormat(); expired(r, now) {
		return g, r.err
	}
	r.need(attrIncarnation, attrVersion, attrLast)
	g.Incarnation, g.Version, g.Last = r.number(attrIncarnation), r.number(attrVersion), r.number(attrLast)
	g.State, g.Expires = r.binary(attrState), r.instant(attrExpires)
	r.record(attrSources, func(d *encoding.Decoder) { g.Sources = encoding.MapOf(d, encoding.ReadSource) })
	r.record(attrChained, func(d *encoding.Decoder) { g.Chained = encoding.MapOf(d, (*encoding.Decoder).Uint) })
	r.record(attrTimers, func(d *encoding.Decoder) { g.Timers = encoding.MapOf(d, encoding.ReadTimer) })
	r.record(attrLog, func(d *encoding.Decoder) { encoding.ReadLog(d, &g.Log) })
	g.Retention = record.ReadRetention(r.seconds(attrRetention))
	g.Pending = decodePending(r, key)
	if g.Version == 0 { // version 0 would read as a missing record
		r.fail(attrVersion, "is 0")
	}
	if r.err != nil {
		return record.Group{Key: key}, r.err
	}
	return g, nil
}

func decodePending(r *reader, key record.GroupKey) []record.Pending {
	entries, marks := &reader{item: r.object(attrPending)}, &reader{item: r.object(attrSent)}
	var changes []change
	r.record(attrCommon, func(d *encoding.Decoder) { changes = readChanges(d, r.text(attrAttempt)) })
	var out []record.Pending
	for name := range entries.item {
		n, err := strconv.ParseUint(name, 10, 64)
		c, ok := commonAt(changes, n)
		if err != nil || !ok || numberName(n) != name {
			entries.fail(attrPending, "has an entry without a number, or of which its commit tells nothing")
			break
		}
		var p record.Pending
		entries.record(name, func(d *encoding.Decoder) { p = readEntry(d, key, n, c) })
		marks.record(name, func(d *encoding.Decoder) { p.Sent = encoding.ListOf(d, encoding.ReadSent) })
		keptUntil(&p)
		out = append(out, p)
	}
	r.err = cmp.Or(r.err, entries.err, marks.err)
	slices.SortFunc(out, byNumber)
	return out
}

// expired reports whether an item reads as absent.
func expired(r *reader, now int64) bool {
	at := r.instant(attrExpires)
	return !at.IsZero() && at.UnixMilli() <= now
}

func (s *Store) nowMillis() int64 { return s.options.Now().UnixMilli() }

// ours reports whether an item was written by a commit, and not overwritten by a later one.
func ours(it item, c *record.Commit) bool {
	r := &reader{item: it}
	return len(it) > 0 && r.number(attrIncarnation) == c.Next.Incarnation && r.number(attrVersion) == c.Next.Version && r.text(attrAttempt) == c.Attempt && r.err == nil
}
