package storetest

import (
	"fmt"
	"reflect"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func groupA() record.GroupKey { return record.GroupKey{Stream: "orders", Group: "a"} }
func groupB() record.GroupKey { return record.GroupKey{Stream: "orders", Group: "b"} }

// fullGroup returns a group with every field set, including fields that are added later: a store
// that forgets a field fails.
func fullGroup(key record.GroupKey) record.Group {
	g := filled[record.Group]()
	g.Key, g.Incarnation, g.Version, g.Retention, g.Expires = key, 1000, 1, 90*time.Second, time.Time{}
	g.Pending[1] = kept(g.Pending[1], time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC))
	return g
}

func fullToken(key record.TokenKey, state record.TokenState) record.Token {
	t := filled[record.Token]()
	t.Key, t.State, t.Expires = key, state, time.Time{}
	return t
}

// fullHeld returns a held message of group "a" whose principal and source share a record key.
func fullHeld(sequence uint64) record.Held {
	h := filled[record.Held]()
	h.Message.Stream, h.Message.Group = groupA().Stream, groupA().Group
	h.Message.Principal, h.Message.Source = "tenant", "sender"
	h.Message.Epoch, h.Message.Sequence = 7, sequence
	return h
}

func keyOf(h record.Held) record.HeldKey {
	m := h.Message
	return record.HeldKey{Group: m.GroupKey(), Source: m.SourceKey(), Epoch: m.Epoch, Sequence: m.Sequence}
}

func tokenKey(i int) record.TokenKey { return record.NewTokenKey("tenant", "orders", fmt.Sprint(i)) }

func pending(numbers ...uint64) []record.Pending {
	var out []record.Pending
	for _, n := range numbers {
		p := filled[record.Pending]()
		p.Number, p.Sent, p.DoneUntil = n, nil, time.Time{}
		out = append(out, p)
	}
	return out
}

// kept returns the form of an entry that takes the place of a done token until a time.
func kept(p record.Pending, until time.Time) record.Pending {
	p = p.Keep(until)
	p.DoneUntil = until.Truncate(time.Second).UTC()
	return p
}

func numbers(g record.Group) []uint64 {
	var out []uint64
	for _, p := range g.Pending {
		out = append(out, p.Number)
	}
	return out
}

// filled returns a value with no zero field: all numbers and texts differ, and collections have two
// elements.
func filled[T any]() T {
	var v T
	n := 0
	fill(reflect.ValueOf(&v).Elem(), &n)
	return v
}

func fill(v reflect.Value, n *int) {
	*n++
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Date(2026, 2, 1, 0, 0, *n, 7e6, time.UTC)
		return
	case *[]byte:
		*x = []byte{0, 0xff, byte(*n)}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
		if m, ok := reflect.TypeAssert[*record.Message](v.Addr()); ok {
			m.Try = 0 // it belongs to a delivery, and no store keeps it
		}
		if p, ok := reflect.TypeAssert[*record.Pending](v.Addr()); ok {
			p.Committed, p.DoneUntil = p.Committed.Truncate(time.Second), time.Time{}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, n)
			fill(value, n)
			v.SetMapIndex(key, value)
		}
	default:
		fillScalar(v, *n)
	}
}

func fillScalar(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.String:
		// not UTF-8: a handler's reply may have such headers
		v.SetString(fmt.Sprintf("text %d \xff", n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n) << 20)
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(n))
	case reflect.Uint8:
		v.SetUint(uint64(n%250) + 1)
	default:
		panic("no value for a " + v.Type().String())
	}
}
