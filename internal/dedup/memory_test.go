package dedup

import (
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func TestTokensAreFoundByKeyFewOrMany(t *testing.T) {
	for _, n := range []int{1, fewTokens, fewTokens + 1, 10 * fewTokens} {
		var list []record.Token
		for i := range n {
			list = append(list, record.Token{Key: record.TokenKey{byte(i)}, Epoch: uint64(i)})
		}
		all, grown := tokensOf(list), tokens{}
		for _, token := range list {
			grown.put(record.Token{Key: token.Key, Epoch: 1000})
		}
		for _, token := range list {
			grown.put(token)
		}
		for _, set := range []*tokens{&all, &grown} {
			for i := range n {
				if got := set.get(record.TokenKey{byte(i)}); got.Epoch != uint64(i) || got.Key != list[i].Key {
					t.Errorf("token %d of %d: %+v", i, n, got)
				}
			}
			if got := set.get(record.TokenKey{250}); got.Key != (record.TokenKey{}) || set.find(record.TokenKey{250}) != nil {
				t.Errorf("a token that is not among %d: %+v", n, got)
			}
			if len(set.list) != n {
				t.Errorf("%d tokens, not %d", len(set.list), n)
			}
		}
	}
}

// A call must not see anything of the messages of an earlier one.
func TestAMemoryIsEmptyWhenItIsUsedAgain(t *testing.T) {
	e := &Engine{}
	for _, n := range []int{3, 300, 2} {
		m := e.borrow(n)
		for i := range m.items {
			if it := &m.items[i]; it.ID != "" || it.decided || it.out != nil {
				t.Fatalf("item %d of %d: %+v", i, n, it)
			}
			p := m.part(record.GroupKey{Group: "g"}, record.Stream{})
			if len(p.items) != 0 || p.trigger || p.err != nil || p.planned || p.first.changed {
				t.Fatalf("part %d of %d: %+v", i, n, p)
			}
			m.items[i].ID, m.items[i].decided = "old", true
			p.items, p.trigger, p.err = append(p.items, &m.items[i]), true, errReload
			p.newPlan().changed = true
			if second := p.newPlan(); second == &p.first || second.changed {
				t.Fatal("two plans of a part have one memory")
			}
		}
		items := m.parts[0].items[:1]
		e.giveBack(m)
		if len(m.parts) > mostParts || items[0] != nil {
			t.Errorf("%d parts kept, and item %v", len(m.parts), items[0])
		}
	}
}
