package dynamostore

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
)

// encodeGroup gives the whole item of a group.
func (s *Store) encodeGroup(g *record.Group, attempt string) (item, error) {
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
	pending, sent := item{}, item{}
	it[attrPending], it[attrSent] = &types.AttributeValueMemberM{Value: pending}, &types.AttributeValueMemberM{Value: sent}
	records := []part{}
	for i := range g.Pending {
		p := &g.Pending[i]
		records = append(records, part{pending, numberName(p.Number), toPending(p)})
		if len(p.Sent) > 0 {
			records = append(records, part{sent, numberName(p.Number), toSent(p.Sent)})
		}
	}
	if len(g.Sources) > 0 {
		records = append(records, part{it, attrSources, toSources(g.Sources)})
	}
	if len(g.Chained) > 0 {
		records = append(records, part{it, attrChained, g.Chained})
	}
	return it, s.encodeParts(records)
}

// A part is a record to be put into an item.
type part struct {
	into   item
	name   string
	record any
}

func (s *Store) encodeParts(parts []part) error {
	for _, p := range parts {
		b, err := s.codec.encode(p.record)
		if err != nil {
			return err
		}
		p.into[p.name] = binary(b)
	}
	return nil
}

func numberName(n uint64) string { return strconv.FormatUint(n, 10) }

// decodeGroup reads an item; a missing or an expired one is a group of version 0.
func (s *Store) decodeGroup(key record.GroupKey, it item, now int64) (record.Group, error) {
	g := record.Group{Key: key}
	r := &reader{item: it}
	if len(it) == 0 || expired(r, now) {
		return g, r.err
	}
	r.checkFormat()
	g.Incarnation, g.Version, g.Last = r.number(attrIncarnation), r.number(attrVersion), r.number(attrLast)
	g.State, g.Expires = r.binary(attrState), r.instant(attrExpires)
	var sources map[string]sourceRecord
	if r.record(s.codec, attrSources, &sources) {
		g.Sources = fromSources(sources)
	}
	r.record(s.codec, attrChained, &g.Chained)
	if it[attrRetention] != nil {
		g.Retention = time.Duration(r.number(attrRetention)) * time.Second //nolint:gosec // written from a duration
	}
	g.Pending = s.decodePending(r)
	if r.err != nil {
		return record.Group{Key: key}, r.err
	}
	return g, nil
}

func (s *Store) decodePending(r *reader) []record.Pending {
	entries, marks := &reader{item: r.object(attrPending)}, &reader{item: r.object(attrSent)}
	var out []record.Pending
	for name := range entries.item {
		n, err := strconv.ParseUint(name, 10, 64)
		if err != nil {
			entries.fail(attrPending, "has an entry without a number")
			break
		}
		var entry pendingRecord
		entries.record(s.codec, name, &entry)
		p := entry.pending(n)
		var sent []sentRecord
		if marks.record(s.codec, name, &sent) {
			p.Sent = fromSent(sent)
		}
		out = append(out, p)
	}
	r.err = cmp.Or(r.err, entries.err, marks.err)
	slices.SortFunc(out, func(a, b record.Pending) int { return cmp.Compare(a.Number, b.Number) })
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
