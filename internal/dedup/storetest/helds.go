package storetest

import (
	"errors"
	"math"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func heldCases() []testCase {
	return []testCase{
		{name: "held messages appear and disappear with the commit", run: testHoldUnhold},
		{name: "a commit that conflicts holds and unholds nothing", run: testHoldConflict},
		{name: "one commit holds and unholds as much as may be", run: testHoldMany},
		{name: "held messages come in number order, from a number on, up to the limit", run: testHeldOrder},
		{name: "sources, epochs and groups do not see one another's held messages", run: testHeldIsolation},
		{name: "a hold that is repeated replaces, an unhold of nothing is fine", run: testHoldAgain},
	}
}

func hold(held ...record.Held) func(c *record.Commit) {
	return func(c *record.Commit) { c.Hold = held }
}

func testHoldUnhold(t *testing.T, s *suite) {
	two, three := fullHeld(2), fullHeld(3)
	g := s.commit(t, s.group(t, groupA()), hold(two, three))
	same(t, "held", s.held(t, keyOf(fullHeld(1)), 10), []record.Held{two, three})

	s.commit(t, g, func(c *record.Commit) { c.Unhold = []record.HeldKey{keyOf(two)} })
	same(t, "held after the unhold", s.held(t, keyOf(fullHeld(1)), 10), []record.Held{three})
}

func testHoldConflict(t *testing.T, s *suite) {
	stale := s.group(t, groupA())
	s.commit(t, stale, hold(fullHeld(2)))
	c := following(stale, func(c *record.Commit) {
		c.Hold, c.Unhold = []record.Held{fullHeld(3)}, []record.HeldKey{keyOf(fullHeld(2))}
	})
	if err := s.Commit(t.Context(), c); !errors.Is(err, record.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	same(t, "held", s.held(t, keyOf(fullHeld(1)), 10), []record.Held{fullHeld(2)})
}

func testHoldMany(t *testing.T, s *suite) {
	var held []record.Held
	var keys []record.HeldKey
	for i := range record.MaxCommitItems {
		held = append(held, fullHeld(uint64(i+2)))
		keys = append(keys, keyOf(held[i]))
	}
	g := s.commit(t, s.group(t, groupA()), hold(held...))
	same(t, "held", s.held(t, keyOf(fullHeld(1)), 1000), held)
	s.commit(t, g, func(c *record.Commit) { c.Unhold = keys })
	same(t, "held after the unhold", s.held(t, keyOf(fullHeld(1)), 1000), []record.Held(nil))
}

func testHeldOrder(t *testing.T, s *suite) {
	ordered := []record.Held{fullHeld(2), fullHeld(9), fullHeld(10), fullHeld(255), fullHeld(256), fullHeld(math.MaxUint64)}
	s.commit(t, s.group(t, groupA()), hold(ordered[3], ordered[1], ordered[5], ordered[0], ordered[4], ordered[2]))
	for _, c := range []struct {
		from  uint64
		limit int
		want  []record.Held
	}{
		{0, 100, ordered},
		{9, 100, ordered[1:]},
		{11, 2, ordered[3:5]},
		{257, 1, ordered[5:]},
		{math.MaxUint64, 1, ordered[5:]},
		{0, 1, ordered[:1]},
		{0, 0, nil},
	} {
		same(t, "held", s.held(t, keyOf(fullHeld(c.from)), c.limit), c.want)
	}
}

func testHeldIsolation(t *testing.T, s *suite) {
	mine := fullHeld(2)
	older, newer, colleague, stranger := mine, mine, mine, mine
	older.Message.Epoch--
	newer.Message.Epoch++
	colleague.Message.Source += "x"
	stranger.Message.Principal = ""
	s.commit(t, s.group(t, groupA()), hold(mine, older, newer, colleague, stranger))
	elsewhere := mine
	elsewhere.Message.Group = "a2"
	s.commit(t, s.group(t, elsewhere.Message.GroupKey()), hold(elsewhere))
	for name, h := range map[string]record.Held{
		"mine": mine, "older epoch": older, "newer epoch": newer, "longer source": colleague, "no principal": stranger, "longer group": elsewhere,
	} {
		from := keyOf(h)
		from.Sequence = 0
		same(t, name, s.held(t, from, 10), []record.Held{h})
	}
}

func testHoldAgain(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), hold(fullHeld(2)))
	again := fullHeld(2)
	again.Message.Body = []byte("again")
	s.commit(t, g, func(c *record.Commit) {
		c.Hold, c.Unhold = []record.Held{again}, []record.HeldKey{keyOf(fullHeld(5))}
	})
	same(t, "held", s.held(t, keyOf(fullHeld(1)), 10), []record.Held{again})
}
