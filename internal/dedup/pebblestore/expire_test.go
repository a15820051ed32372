package pebblestore

import (
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
