package dynamostore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

const anAttempt = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// afterTen returns the record of a group after a batch of ten numbered messages, each with an
// effect, late in the life of the group.
func afterTen(effect func(m *record.Message) record.Effect) record.Group {
	key := record.GroupKey{Stream: "orders", Group: "customer-000001"}
	g := record.Group{
		Key: key, Incarnation: 1767225600000, Version: 12345, State: []byte(`{"cents":123456789,"currency":"EUR"}`), Last: 234567, Retention: record.DefaultGroupRetention,
		Sources: map[string]record.Source{"sender-01": {Epoch: 3, Next: 123468}},
	}
	for i := range uint64(10) {
		m := record.Message{Stream: key.Stream, Group: key.Group, Source: "sender-01", Epoch: 3, Sequence: 123457 + i, Body: fmt.Appendf(nil, `{"order":%d,"cents":12345}`, 1000+i)}
		g.Last++
		p := record.Pending{
			Number: g.Last, Identity: m.Number(), Token: record.NewNumberKey("", key, m.Number()), Attempt: fmt.Sprint(anAttempt, ".", i+1),
			Effects: []record.Effect{effect(&m)}, Retention: record.DefaultRetention,
		}
		p.Fingerprint = p.Print(m.Fingerprint())
		g.Pending = append(g.Pending, p)
	}
	return g
}

func forwarded(m *record.Message) record.Effect {
	return record.Effect{To: []string{"ledger"}, ID: m.Identity(), Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, ContentType: "application/json", Body: m.Body}
}

func made(m *record.Message) record.Effect {
	return record.Effect{To: []string{"ledger"}, ContentType: "application/json", Body: fmt.Appendf(nil, `{"paid":%d,"cents":12345}`, m.Sequence)}
}

func TestARecordWithTheEffectsOfTenMessagesCostsOneUnit(t *testing.T) {
	for name, c := range map[string]struct {
		effect func(m *record.Message) record.Effect
		most   int
	}{"forwarded": {forwarded, 750}, "made by a handler": {made, 920}} {
		g := afterTen(c.effect)
		it := encodeGroup(&g, anAttempt)
		if n := itemSize(it); n > c.most {
			t.Errorf("%s: %d bytes, want at most %d", name, n, c.most)
		}
		got, err := decodeGroup(g.Key, it, 0)
		if diff := cmp.Diff(g, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// oneOf returns a random value, mostly the first, because neighbours have much in common.
func oneOf[T any](r *rand.Rand, list ...T) T { return list[max(0, r.IntN(3*len(list))-2*len(list))] }

// someEntry returns an entry like those of an engine, with random deviations.
func someEntry(r *rand.Rand, key record.GroupKey, number uint64, attempt string) record.Pending {
	m := record.Message{
		Principal: oneOf(r, "", "tenant"), Stream: key.Stream, Group: key.Group, ID: oneOf(r, "", "id", "a/1", "a/1/2", "a/1/02"), Source: oneOf(r, "s", "", "s/1/1"),
		Epoch: r.Uint64N(2), Sequence: oneOf(r, number, 0, number+7, 1<<64-1), Body: []byte(oneOf(r, "", "body")),
	}
	f := oneOf(r, forwarded, made)(&m)
	f.To, f.ContentType, f.ID = oneOf(r, []string{"a"}, nil, []string{"a", "b"}), oneOf(r, "", "text/plain"), oneOf(r, f.ID, "", "other")
	p := record.Pending{
		Number: number, Identity: oneOf(r, m.Number(), m.Identity(), ""), Principal: m.Principal, Attempt: oneOf(r, attempt+".1", "", attempt, ".1", "x.1.gap.2"),
		Token:   oneOf(r, record.TokenKey{1}, record.TokenKey{}, record.NewTokenKey(m.Principal, m.Stream, m.Identity()), record.NewNumberKey(m.Principal, key, m.Number())),
		Effects: oneOf(r, []record.Effect{f}, nil, []record.Effect{f, {Blob: &record.Blob{Key: "k"}}, f}, []record.Effect{{}}),
		Marks:   oneOf(r, true, false), Retention: oneOf[time.Duration](r, 0, 1, record.DefaultRetention),
	}
	p.Fingerprint = p.Print(oneOf(r, record.Fingerprint{}, record.Fingerprint{1}, record.Fingerprint{31: 1}, m.Fingerprint()))
	return p
}

// This test is about entries that are not rewritten while their common part is, with other
// neighbours.
func TestAnEntryReadsTheSameAfterLaterCommits(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := record.Group{Key: record.GroupKey{Stream: "orders", Group: "a"}, Version: 1, Incarnation: 1}
		raw := item{} // the entries as they were written
		for _, attempt := range []string{"A", "B", "C", "D"} {
			// cleared, or dropped
			g.Pending = slices.DeleteFunc(g.Pending, func(record.Pending) bool { return r.IntN(3) == 0 })
			before := len(g.Pending)
			for range r.IntN(4) {
				g.Last += 1 + r.Uint64N(2)
				g.Pending = append(g.Pending, someEntry(r, g.Key, g.Last, attempt))
			}
			it := encodeGroup(&g, attempt)
			pending := entries(it, attrPending)
			for i, p := range g.Pending {
				if i < before {
					pending[numberName(p.Number)] = raw[numberName(p.Number)]
				}
				raw[numberName(p.Number)] = pending[numberName(p.Number)]
			}
			if n := len(g.Pending); n > 0 && r.IntN(2) == 0 { // a concurrent Clear
				delete(pending, numberName(g.Pending[n-1].Number))
				g.Pending = g.Pending[:n-1]
			}
			got, err := decodeGroup(g.Key, it, 0)
			if diff := cmp.Diff(g, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Fatalf("seed %d, commit %s: %v (-want +got):\n%s", seed, attempt, err, diff)
			}
		}
	}
}

// FuzzPending decodes any bytes as a common part and an entry: they are corrupt, or equal the
// decoded form of their encoding.
func FuzzPending(f *testing.F) {
	for _, effect := range []func(m *record.Message) record.Effect{forwarded, made} {
		g := afterTen(effect)
		it := encodeGroup(&g, anAttempt)
		r := &reader{item: entries(it, attrPending)}
		f.Add((&reader{item: it}).binary(attrCommon), r.binary(numberName(g.Last)), g.Last)
	}
	f.Add([]byte{0x81, 0xa1, 1, 1}, []byte{0xa2, 2, 0x40, 8, 0xf5}, uint64(7))
	f.Fuzz(func(t *testing.T, commons, entry []byte, number uint64) {
		g := record.Group{Version: 1, Incarnation: 1}
		it := encodeGroup(&g, anAttempt)
		it[attrCommon] = binary(commons)
		entries(it, attrPending)[numberName(number)] = binary(entry)
		first, err := decodeGroup(g.Key, it, 0)
		if err != nil {
			if !errors.Is(err, record.ErrCorrupt) {
				t.Fatalf("got %v, want %v", err, record.ErrCorrupt)
			}
			return
		}
		again, err := decodeGroup(g.Key, encodeGroup(&first, anAttempt), 0)
		if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("read, written and read again: %v (-first +again):\n%s", err, diff)
		}
	})
}

func TestHalfAHashIsAHashOfItsOwn(t *testing.T) {
	for _, n := range []int{0, 1, 15, 17, 31, 33} {
		e := &encoding.Encoder{}
		e.Bytes(make([]byte, n))
		d := encoding.NewDecoder(e.B)
		if readHash(d, new([32]byte)); !errors.Is(d.End(), record.ErrCorrupt) {
			t.Errorf("a hash of %d bytes is read: %v", n, d.End())
		}
	}
}
