package dynamostore

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/stored"
)

// encodeGroup gives the whole item of a group.
func encodeGroup(g *record.Group, attempt string) item {
	it := groupItemKey(g.Key)
	it[attrFormat] = number(format)
	it[attrIncarnation], it[attrVersion], it[attrLast] = number(g.Incarnation), number(g.Version), number(g.Last)
	put(it, attrAttempt, text(attempt))
	put(it, attrExpires, instant(g.Expires))
	put(it, attrTTL, ttl(g.Expires))
	if g.Retention > 0 {
		it[attrRetention] = integer(int64((g.Retention + time.Second - 1) / time.Second)) // rounded up, as the table's time-to-live is
	}
	if len(g.State) > 0 {
		it[attrState] = binary(g.State)
	}
	if g.HasHeld() {
		it[attrHeld] = str(shard(g.Key))
	}
	if len(g.Sources) > 0 {
		it[attrSources] = encoded(func(e *stored.Encoder) { stored.Map(e, g.Sources, stored.WriteSource) })
	}
	if len(g.Chained) > 0 {
		it[attrChained] = encoded(func(e *stored.Encoder) { stored.Map(e, g.Chained, stored.WriteUint) })
	}
	encodePending(it, g, attempt)
	return it
}

// encodePending puts the entries into an item.
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
		pending[numberName(p.Number)] = encoded(func(e *stored.Encoder) { writeEntry(e, g.Key, p, c) })
		if len(p.Sent) > 0 {
			sent[numberName(p.Number)] = encodeSent(p.Sent)
		}
	}
}

func encodeSent(sent []record.Sent) types.AttributeValue {
	return encoded(func(e *stored.Encoder) { stored.List(e, sent, stored.WriteSent) })
}

func byNumber(a, b record.Pending) int { return cmp.Compare(a.Number, b.Number) }

func numberName(n uint64) string { return strconv.FormatUint(n, 10) }

// decodeGroup reads an item; a missing or an expired one is a group of version 0.
func decodeGroup(key record.GroupKey, it item, now int64) (record.Group, error) {
	g := record.Group{Key: key}
	r := &reader{item: it}
	if len(it) == 0 {
		return g, nil
	}
	if r.checkFormat(); expired(r, now) {
		return g, r.err
	}
	r.need(attrIncarnation, attrVersion, attrLast)
	g.Incarnation, g.Version, g.Last = r.number(attrIncarnation), r.number(attrVersion), r.number(attrLast)
	g.State, g.Expires = r.binary(attrState), r.instant(attrExpires)
	r.record(attrSources, func(d *stored.Decoder) { g.Sources = stored.MapOf(d, stored.ReadSource) })
	r.record(attrChained, func(d *stored.Decoder) { g.Chained = stored.MapOf(d, (*stored.Decoder).Uint) })
	g.Retention = r.seconds(attrRetention)
	g.Pending = decodePending(r, key)
	if g.Version == 0 { // a record that is there must not read as one that is not
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
	r.record(attrCommon, func(d *stored.Decoder) { changes = readChanges(d, r.text(attrAttempt)) })
	var out []record.Pending
	for name := range entries.item {
		n, err := strconv.ParseUint(name, 10, 64)
		c, ok := commonAt(changes, n)
		if err != nil || !ok || numberName(n) != name {
			entries.fail(attrPending, "has an entry without a number, or of which its commit tells nothing")
			break
		}
		var p record.Pending
		entries.record(name, func(d *stored.Decoder) { p = readEntry(d, key, n, c) })
		marks.record(name, func(d *stored.Decoder) { p.Sent = stored.ListOf(d, stored.ReadSent) })
		out = append(out, p)
	}
	r.err = cmp.Or(r.err, entries.err, marks.err)
	slices.SortFunc(out, byNumber)
	return out
}

// expired tells whether an item reads as absent.
func expired(r *reader, now int64) bool {
	at := r.instant(attrExpires)
	return !at.IsZero() && at.UnixMilli() <= now
}

func (s *Store) nowMillis() int64 { return s.options.Now().UnixMilli() }

// ours tells whether an item is what a commit wrote, unless somebody has committed after it.
func ours(it item, c *record.Commit) bool {
	r := &reader{item: it}
	return len(it) > 0 && r.number(attrIncarnation) == c.Next.Incarnation && r.number(attrVersion) == c.Next.Version && r.text(attrAttempt) == c.Attempt && r.err == nil
}
