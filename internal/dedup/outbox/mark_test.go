package outbox_test

import (
	"context"
	"testing"

	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// A marker records the tokens of each call.
type marker struct {
	record.Store
	marked []record.Token
}

func (m *marker) MarkDone(_ context.Context, tokens []record.Token) error {
	m.marked = tokens
	return nil
}

func TestMarkDoneWritesTheLastMarkOfEachToken(t *testing.T) {
	a, b := record.NewTokenKey("", "s", "a"), record.NewTokenKey("", "s", "b")
	for name, c := range map[string]struct{ marks, want []record.Token }{
		"one":       {[]record.Token{{Key: a}}, []record.Token{{Key: a}}},
		"one twice": {[]record.Token{{Key: a, Group: "1"}, {Key: a, Group: "2"}}, []record.Token{{Key: a, Group: "2"}}},
		"two, one of them twice": {
			[]record.Token{{Key: a, Group: "1"}, {Key: b, Group: "2"}, {Key: a, Group: "3"}}, []record.Token{{Key: b, Group: "2"}, {Key: a, Group: "3"}},
		},
	} {
		store := &marker{}
		if err := outbox.New(outbox.Config{Store: store}).MarkDone(t.Context(), c.marks); err != nil {
			t.Fatal(err)
		}
		if len(store.marked) != len(c.want) {
			t.Errorf("%s: marked %d tokens, want %d", name, len(store.marked), len(c.want))
			continue
		}
		for i, token := range store.marked {
			if token.Key != c.want[i].Key || token.Group != c.want[i].Group {
				t.Errorf("%s: mark %d is of group %s, want %s", name, i+1, token.Group, c.want[i].Group)
			}
		}
	}
}
