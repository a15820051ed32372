package pebblestore

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

func TestARecordThatWasRenewedOrDeletedMeanwhileIsNotExpired(t *testing.T) {
	db, err := pebbledb.Open("data", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now := time.Unix(1e9, 0)
	s := New(db, Options{Now: func() time.Time { return now }})
	token := record.Token{Key: record.TokenKey{1}, State: record.Done, Expires: now.Add(time.Second)}
	if n, err := s.expire(tokenKey(token.Key), s.tokens); n != 0 || err != nil {
		t.Errorf("deleted %d that were not there: %v", n, err)
	}
	if err := s.MarkDone(t.Context(), []record.Token{token}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.expire(tokenKey(token.Key), s.tokens); n != 0 || err != nil {
		t.Errorf("deleted %d that live: %v", n, err)
	}
	if _, found, err := s.Load(t.Context(), nil, []record.TokenKey{token.Key}); err != nil || found[0].State != record.Done {
		t.Errorf("%+v, %v", found, err)
	}
	now = token.Expires
	if n, err := s.expire(tokenKey(token.Key), s.tokens); n != 1 || err != nil {
		t.Errorf("deleted %d that have expired: %v", n, err)
	}
}

func TestCorruptChunksAreNotExpiredAndHideNoOthers(t *testing.T) {
	db, err := pebbledb.Open("data", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now := time.Unix(1e9, 0)
	s := New(db, Options{Now: func() time.Time { return now }})
	c := record.Commit{Loaded: record.Group{Key: record.GroupKey{Stream: "chat", Group: "room"}}}
	c.Next = record.Group{Key: c.Loaded.Key, Version: 1, Incarnation: 1, Log: record.Log{Last: 4}}
	for n := uint64(1); n <= 4; n++ {
		c.Append = append(c.Append, record.Chunk{Group: c.Next.Key, Incarnation: 1, First: n, Last: n, Expires: now.Add(time.Second)})
	}
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{1, 3} {
		if err := db.Set(chunkKey(c.Next.Key, 1, n), make([]byte, 20), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Second)
	if n, err := s.Expire(t.Context(), 100); n != 2 || err != nil {
		t.Errorf("deleted %d, %v; want those that are whole", n, err)
	}
	if _, err := s.ReadLog(t.Context(), record.LogRange{Group: c.Next.Key, Incarnation: 1, Last: 4}); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("got %v, want %v", err, record.ErrCorrupt)
	}
}

// The chunks of a log expire in order. So an expiry passes over the rest of a log when it comes to
// a chunk that has not expired: here it misses one that no commit writes.
func TestAnExpiryReadsOneChunkThatIsKeptOfEachLog(t *testing.T) {
	db, err := pebbledb.Open("data", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now := time.Unix(1e9, 0)
	s := New(db, Options{Now: func() time.Time { return now }})
	for _, group := range []string{"a", "b", "bb"} {
		c := record.Commit{Loaded: record.Group{Key: record.GroupKey{Stream: "chat", Group: group}}}
		c.Next = record.Group{Key: c.Loaded.Key, Version: 1, Incarnation: 1, Log: record.Log{Last: 3}}
		for n, expires := range []time.Time{now, now.Add(time.Second), now} {
			c.Append = append(c.Append, record.Chunk{Group: c.Next.Key, Incarnation: 1, First: uint64(n + 1), Last: uint64(n + 1), Expires: expires})
		}
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Expire(t.Context(), 100); n != 3 || err != nil {
		t.Errorf("deleted %d, %v; want the first chunk of each of the three logs", n, err)
	}
}
