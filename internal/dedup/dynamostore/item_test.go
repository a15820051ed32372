package dynamostore

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/record"
)

// A change to an attribute, chosen by the fuzzer: its new kind and text.
func changed(kind byte, text string) types.AttributeValue {
	switch kind % 8 {
	case 0:
		return nil
	case 1:
		return &types.AttributeValueMemberN{Value: text}
	case 2:
		return str(text)
	case 3:
		return binary([]byte(text))
	case 4:
		return &types.AttributeValueMemberM{Value: item{text: binary([]byte(text))}}
	case 5:
		return &types.AttributeValueMemberL{}
	case 6:
		return &types.AttributeValueMemberNULL{Value: true}
	default:
		return &types.AttributeValueMemberBOOL{}
	}
}

// alter applies a change to a copy of an item: to one attribute, or to one entry of a map.
func alter(it item, attribute uint8, kind byte, text string) (out item, name string) {
	out = maps.Clone(it)
	names := slices.Sorted(maps.Keys(it))
	name = names[int(attribute)%len(names)]
	in := out
	if m, ok := it[name].(*types.AttributeValueMemberM); ok && attribute >= 128 {
		inner := maps.Clone(m.Value)
		out[name], in = &types.AttributeValueMemberM{Value: inner}, inner
		if entries := slices.Sorted(maps.Keys(inner)); len(entries) > 0 && kind < 128 {
			delete(in, entries[0])
		}
		put(in, text, changed(kind, text))
		return out, name
	}
	delete(in, name)
	put(in, name, changed(kind, text))
	return out, name
}

func seeds(f *testing.F) {
	f.Helper()
	for attribute := range uint8(16) {
		for kind := range byte(8) {
			f.Add(attribute, kind, "1")
		}
		f.Add(attribute|128, byte(3), "1")
	}
	f.Add(uint8(0), byte(1), "2") // a newer format, among others
	f.Add(uint8(3), byte(1), "-1")
	f.Add(uint8(3), byte(1), "18446744073709551615")
	f.Add(uint8(7), byte(3), "\xa1\x01")
}

// checkItem checks the result of reading a changed item: it is corrupt, or an existing record.
func checkItem(t *testing.T, name string, there bool, err error) bool {
	t.Helper()
	switch {
	case err != nil && !errors.Is(err, record.ErrCorrupt):
		t.Fatalf("attribute %s: got %v, want %v", name, err, record.ErrCorrupt)
	case err == nil && !there && name != attrExpires: // a changed expiry may have passed
		t.Fatalf("with another attribute %s the record reads as absent", name)
	}
	return err == nil && there
}

const itemTime = 1_000_000_000_000

func FuzzGroupItem(f *testing.F) {
	seeds(f)
	g := afterTen(forwarded)
	g.Log = record.Log{Last: 9, Time: 7, Until: time.UnixMilli(itemTime + 1)}
	g.Expires, g.Chained = time.UnixMilli(itemTime+1), map[string]uint64{"next/g": 1}
	g.Pending[0].Sent = []record.Sent{{To: "ledger"}}
	g.Sources["s"] = record.Source{Epoch: 1, Next: 2, Held: record.Ranges{{First: 4, Last: 5}}}
	it := encodeGroup(&g, anAttempt)
	f.Fuzz(func(t *testing.T, attribute uint8, kind byte, text string) {
		other, name := alter(it, attribute, kind, text)
		first, err := decodeGroup(g.Key, other, itemTime)
		if !checkItem(t, name, first.Version > 0, err) {
			return
		}
		again, err := decodeGroup(g.Key, encodeGroup(&first, anAttempt), itemTime)
		if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("attribute %s: read, written and read again: %v (-first +again):\n%s", name, err, diff)
		}
	})
}

func FuzzTokenItem(f *testing.F) {
	seeds(f)
	token := record.Token{
		Key: record.TokenKey{1}, State: record.Leased, Fingerprint: record.Fingerprint{4}, Stream: "orders", Group: "a\xff", Owner: "attempt", Epoch: 2, Lease: time.UnixMilli(itemTime),
		Reply: &record.Reply{Status: 204}, Reason: record.ReasonGap, Detail: "out of stock", Request: &record.Message{ID: "id"}, Expires: time.UnixMilli(itemTime + 1),
	}
	it, _, err := encodeToken(&token)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, attribute uint8, kind byte, text string) {
		other, name := alter(it, attribute, kind, text)
		first, err := decodeToken(token.Key, other, itemTime)
		if !checkItem(t, name, first.State != record.Absent, err) {
			return
		}
		written, _, err := encodeToken(&first.Token)
		if err != nil {
			return // too large by now
		}
		again, err := decodeToken(token.Key, written, itemTime)
		if diff := cmp.Diff(first.Token, again.Token, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("attribute %s: read, written and read again: %v (-first +again):\n%s", name, err, diff)
		}
	})
}

func FuzzHeldItem(f *testing.F) {
	seeds(f)
	h := record.Held{At: time.UnixMilli(itemTime), Message: record.Message{Stream: "orders", ID: "id", Source: "s", Epoch: 1, Sequence: 5, Body: []byte("body")}}
	it, err := encodeHeld(heldKey(&h.Message), &h)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, attribute uint8, kind byte, text string) {
		other, name := alter(it, attribute, kind, text)
		first, err := decodeHeld(other)
		if checkItem(t, name, true, err) && heldKey(&first.Message) != heldKey(&h.Message) {
			t.Fatalf("with another attribute %s it is a message of another number: %+v", name, first)
		}
	})
}

func FuzzChunkItem(f *testing.F) {
	seeds(f)
	group := record.GroupKey{Stream: "orders", Group: "a"}
	c := record.Chunk{Group: group, Incarnation: 1000, First: 3, Last: 5, Expires: time.UnixMilli(itemTime + 1), Data: []byte("entries")}
	it, err := encodeChunk(&c)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, attribute uint8, kind byte, text string) {
		other, name := alter(it, attribute, kind, text)
		first, err := decodeChunk(other, record.LogRange{Group: group, Incarnation: 1000, Last: 5})
		if !checkItem(t, name, true, err) {
			return
		}
		again, err := encodeChunk(&first)
		if err != nil || first.First > first.Last || first.Group != group || first.Incarnation != 1000 {
			t.Fatalf("with another attribute %s it is %+v, %v", name, first, err)
		}
		second, err := decodeChunk(again, record.LogRange{Group: group, Incarnation: 1000, Last: 5})
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("attribute %s: read, written and read again: %v (-first +again):\n%s", name, err, diff)
		}
	})
}

func TestAnItemOfANewerFormatIsNamedAsSuchAlsoWhenItHasExpired(t *testing.T) {
	g := record.Group{Version: 1, Incarnation: 1, Expires: time.UnixMilli(1)}
	it := encodeGroup(&g, "attempt")
	it[attrFormat] = number(format + 1)
	_, groupErr := decodeGroup(g.Key, it, itemTime)
	it, _, err := encodeToken(&record.Token{State: record.Done, Expires: time.UnixMilli(1)})
	if err != nil {
		t.Fatal(err)
	}
	it[attrFormat] = number(format + 1)
	_, tokenErr := decodeToken(record.TokenKey{}, it, itemTime)
	for _, err := range []error{groupErr, tokenErr} {
		if want := "corrupt record: attribute f is 2, and this program reads 1"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
