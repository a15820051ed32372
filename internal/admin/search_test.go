package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

func TestAMessageOfWhichOnlyTheTokenIsLeftIsFoundByItsHashWithoutItsID(t *testing.T) {
	store := memstore.New(time.Now)
	m := record.Message{Principal: "iam:ann", Stream: "orders", ID: "o-1"}
	key := record.NewTokenKey(m.Principal, m.Stream, m.ID)
	done := record.Token{Key: key, State: record.Done, Stream: "orders", Group: "g", Reply: &record.Reply{Status: 201}, Expires: time.Now().Add(time.Hour)}
	if err := store.MarkDone(t.Context(), []record.Token{done}); err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{m.Hash(), key.String(), m.Hash()[:admin.MinHash]} {
		found, err := admin.Search(t.Context(), store, admin.HashOptions{Hash: hash}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		if info := found.Info(); info.ID != "" || info.Hash != m.Hash() || info.Stream != "orders" || info.Group != "g" || info.Status != "done" || info.Reply == nil || info.Reply.Status != 201 {
			t.Errorf("%s: %+v", hash, info)
		}
	}
	if _, err := admin.Search(t.Context(), store, admin.HashOptions{Stream: "chat", Hash: m.Hash()}, func(error) {}); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("in another stream: %v", err)
	}
}

func TestAHashThatNoLineCouldHaveIsRefused(t *testing.T) {
	for _, hash := range []string{"", "12345", "ABCDEF012345", "order-1", "orders#3f2a9c"} {
		if err := (admin.HashOptions{Hash: hash}).Validate(); err == nil {
			t.Errorf("%q is taken", hash)
		}
	}
}

// vast is a store with more groups than a search reads, and no tokens.
type vast struct{ record.Lister }

func (vast) Groups(_ context.Context, _ string, _ record.GroupKey, limit int) ([]record.Group, error) {
	return make([]record.Group, limit), nil
}

func (vast) Tokens(context.Context, record.TokenKey, int) ([]record.Token, error) { return nil, nil }

func TestASearchThatDidNotReadAllGroupsSaysSo(t *testing.T) {
	_, err := admin.Search(t.Context(), vast{}, admin.HashOptions{Hash: "0a"}, nil)
	if !errors.Is(err, admin.ErrNotFound) || !strings.Contains(err.Error(), "among the first 1000000 groups") {
		t.Errorf("got %v", err)
	}
}
