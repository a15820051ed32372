package storetest

import (
	"reflect"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func copyCases() []testCase {
	return []testCase{
		{name: "what is changed after a commit is not changed in the store", run: testCommitCopies},
		{name: "what is changed after a load is not changed in the store", run: testLoadCopies},
		{name: "held messages are copies", run: testHeldCopies},
		{name: "tokens are copies", run: testTokenCopies},
	}
}

func testCommitCopies(t *testing.T, s *suite) {
	c := following(s.group(t, groupA()), func(c *record.Commit) {
		c.Next = fullGroup(groupA())
		c.Hold = []record.Held{fullHeld(2)}
	})
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	scribble(&c)
	same(t, "record", s.group(t, groupA()), fullGroup(groupA()))
	same(t, "held", s.held(t, keyOf(fullHeld(1)), 1), []record.Held{fullHeld(2)})
}

func testLoadCopies(t *testing.T, s *suite) {
	s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next = fullGroup(groupA()) })
	g := s.group(t, groupA())
	scribble(&g)
	same(t, "record", s.group(t, groupA()), fullGroup(groupA()))
}

func testHeldCopies(t *testing.T, s *suite) {
	s.commit(t, s.group(t, groupA()), hold(fullHeld(2)))
	held := s.held(t, keyOf(fullHeld(1)), 1)
	scribble(&held)
	same(t, "held", s.held(t, keyOf(fullHeld(1)), 1), []record.Held{fullHeld(2)})
}

func testTokenCopies(t *testing.T, s *suite) {
	key := tokenKey(1)
	next := fullToken(key, record.Leased)
	answer := s.swap(t, record.Token{Key: key}, next)
	scribble(&next)
	scribble(&answer)
	same(t, "token after a swap", s.token(t, key), fullToken(key, record.Leased))

	current, err := s.SwapToken(t.Context(), record.Token{Key: key}, record.Token{Key: key, State: record.Issued})
	if err == nil {
		t.Fatal("swap from absent succeeded")
	}
	scribble(&current)
	loaded := s.token(t, key)
	scribble(&loaded)
	same(t, "token after a conflict", s.token(t, key), fullToken(key, record.Leased))

	done := []record.Token{fullToken(key, record.Done)}
	if err := s.MarkDone(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	scribble(&done)
	same(t, "token after it was marked", s.token(t, key), fullToken(key, record.Done))
}

// scribble overwrites all memory that is reachable from v.
func scribble(v any) { scribbleOn(reflect.ValueOf(v).Elem()) }

func scribbleOn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				scribbleOn(field)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			scribbleOn(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			scribbleOn(v.Index(i))
		}
	case reflect.Map:
		scribbleOnMap(v)
	default:
		v.SetZero()
	}
}

// scribbleOnMap also overwrites the memory of the values, which may be shared.
func scribbleOnMap(m reflect.Value) {
	for _, key := range m.MapKeys() {
		value := reflect.New(m.Type().Elem()).Elem()
		value.Set(m.MapIndex(key))
		scribbleOn(value)
		m.SetMapIndex(key, value)
	}
	if m.Len() > 0 {
		m.SetMapIndex(reflect.Zero(m.Type().Key()), reflect.Zero(m.Type().Elem()))
	}
}
