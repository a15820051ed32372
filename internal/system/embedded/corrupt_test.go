package embedded

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// writeGarbage writes an unreadable record.
func (s *System) writeGarbage(t *testing.T, key []byte) {
	t.Helper()
	batch := s.db.NewBatch()
	if err := errors.Join(batch.Set(key, []byte("garbage"), nil), s.keys.Commit(batch, pebble.Sync), batch.Close()); err != nil {
		t.Fatal(err)
	}
}

// garbage overwrites a group's record with unreadable bytes.
func (s *System) garbage(t *testing.T, group string) {
	t.Helper()
	s.writeGarbage(t, append([]byte{pebbledb.Groups}, "messages\x00"+group...))
	if _, _, err := s.store.Load(t.Context(), []record.GroupKey{{Stream: "messages", Group: group}}, nil); !errors.Is(err, record.ErrCorrupt) {
		t.Fatalf("the record of group %s is not corrupt: %v", group, err)
	}
}

func started(t *testing.T, o Options) *System {
	t.Helper()
	dir := t.TempDir()
	c, err := config.Parse("test", []byte("streams:\n  messages: {destinations: [out]}\ndestinations:\n  out: {file: "+filepath.Join(dir, "out.jsonl")+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	o.DataDir, o.Config = filepath.Join(dir, "data"), c
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Start(nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestACorruptGroupDoesNotKeepASystemFromStarting(t *testing.T) {
	for _, places := range []string{"a", "b", "c", "ac", "abc"} {
		t.Run(places, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ready := false
			s := started(t, Options{Listen: "127.0.0.1:0", Ready: func(string) { ready = true; cancel() }})
			for _, group := range []string{"a", "b", "c"} {
				k := record.GroupKey{Stream: "messages", Group: group}
				c := record.Commit{Loaded: record.Group{Key: k}, Next: record.Group{Key: k, Incarnation: 1, Version: 1, State: []byte("x")}}
				if err := s.store.Commit(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			for _, group := range places {
				s.garbage(t, string(group))
			}
			if err := s.Run(ctx); err != nil || !ready {
				t.Errorf("ready %v, %v", ready, err)
			}
		})
	}
}

func TestACorruptGroupDoesNotKeepTheOthersOfItsBatch(t *testing.T) {
	s := started(t, Options{})
	s.garbage(t, "bad")
	out := s.engine.Process(t.Context(), []record.Message{
		{Stream: "messages", Group: "bad", ID: "1", Body: []byte("x")}, {Stream: "messages", Group: "good", ID: "2", Body: []byte("x")},
	})
	if out[0].Kind != record.Retry || !errors.Is(out[0].Err, record.ErrCorrupt) || out[1].Kind != record.Processed {
		t.Errorf("the corrupt group's message is %s: %v; the other's is %s: %v", out[0].Kind, out[0].Err, out[1].Kind, out[1].Err)
	}
}

func TestACorruptRecordDoesNotHideTheOthers(t *testing.T) {
	s := started(t, Options{})
	for _, group := range []string{"a", "b", "c"} {
		k := record.GroupKey{Stream: "messages", Group: group}
		if err := s.store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: k}, Next: record.Group{Key: k, Incarnation: 1, Version: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	token := record.Token{Key: record.TokenKey{9}, State: record.Issued, Stream: "messages"}
	if _, err := s.store.SwapToken(t.Context(), record.Token{Key: token.Key}, token); err != nil {
		t.Fatal(err)
	}
	s.garbage(t, "a")
	s.writeGarbage(t, append([]byte{pebbledb.Tokens}, make([]byte, len(token.Key))...))

	stats, err := s.Stats(t.Context())
	want := []admin.StreamStats{{Stream: "messages", Groups: 2, TokenStats: admin.TokenStats{Issued: 1}}}
	if d := cmp.Diff(want, stats.Streams); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	groups, err := s.Groups(t.Context(), admin.GroupsOptions{Stream: "messages"})
	if err != nil || len(groups) != 2 || groups[0].Group != "b" || groups[1].Group != "c" {
		t.Errorf("%+v, %v", groups, err)
	}
}
