package embedded

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// stored returns how many tokens are in the database.
func stored(t *testing.T, s *System) (n int) {
	t.Helper()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{pebbledb.Tokens}, UpperBound: []byte{pebbledb.Tokens + 1}})
	if err != nil {
		t.Fatal(err)
	}
	for it.First(); it.Valid(); it.Next() {
		n++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestExpiredTokensAreDeletedWithoutRunUntilClose(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{DataDir: t.TempDir(), expireEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	store := s.Tokens()
	key := record.NewTokenKey("", "", "a")
	token := record.Token{Key: key, State: record.Done, Expires: time.Now().Add(-time.Second)}
	if _, err := store.SwapToken(t.Context(), record.Token{Key: key}, token); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); stored(t, s) > 0; {
		if time.Now().After(deadline) {
			t.Fatal("the token is still there")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Tokens() // starts nothing on a closed database
}
