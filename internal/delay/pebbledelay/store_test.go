package pebbledelay_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/delay/delaytest"
	"github.com/effectively-once/once/internal/delay/pebbledelay"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

func TestConformance(t *testing.T) {
	delaytest.Run(t, delaytest.Harness{New: func(t *testing.T) delay.Store { return open(t, onFS(t, vfs.NewMem())) }})
}

func onFS(t *testing.T, fs vfs.FS) *pebble.DB {
	t.Helper()
	db, err := pebbledb.Open("db", &pebble.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func open(t *testing.T, db *pebble.DB) *pebbledelay.Store {
	t.Helper()
	s, err := pebbledelay.Open(db)
	if err != nil {
		t.Fatalf("open: got %v, want no error", err)
	}
	return s
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func item(after time.Duration, name string) delay.Item {
	return delay.Item{Key: delay.Key{Due: noon.Add(after), Name: name}, Queue: "ingress", Message: queue.Message{Body: "x"}}
}

func put(t *testing.T, s delay.Store, items ...delay.Item) {
	t.Helper()
	if err := s.Put(t.Context(), items); err != nil {
		t.Fatalf("put: got %v, want no error", err)
	}
}

func names(t *testing.T, s delay.Store) (out []string) {
	t.Helper()
	items, err := s.Due(t.Context(), delay.Key{}, noon.Add(record.MaxDelay), 100)
	if err != nil {
		t.Fatalf("due: got %v, want no error", err)
	}
	for _, i := range items {
		out = append(out, i.Name)
	}
	return out
}

func want(t *testing.T, s delay.Store, why string, wanted ...string) {
	t.Helper()
	if got := names(t, s); fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("%s: got %q, want %q", why, got, wanted)
	}
}

func TestAnItemThatWasPutSurvivesAPowerLoss(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, onFS(t, fs))
	put(t, s, item(1, "a"), item(2, "b"))
	put(t, s.Ordered(), item(3, "not waited for"))
	again := open(t, onFS(t, fs.CrashClone(vfs.CrashCloneCfg{})))
	want(t, again, "after the power loss", "a", "b")
	if got, err := again.Stats(t.Context()); err != nil || got.Waiting != 2 {
		t.Errorf("got %+v and %v, want 2 items counted when it is opened", got, err)
	}
}

func TestAnItemThatIsOnlyOrderedIsDurableWithTheNextSyncedWrite(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, onFS(t, fs))
	put(t, s.Ordered(), item(1, "ordered"))
	put(t, s, item(2, "synced"))
	want(t, open(t, onFS(t, fs.CrashClone(vfs.CrashCloneCfg{}))), "after the power loss", "ordered", "synced")
}

func TestARecordWithAnotherContentIsCorrupt(t *testing.T) {
	db := onFS(t, vfs.NewMem())
	s := open(t, db)
	put(t, s, item(1, "a"))
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{pebbledb.Delays}, UpperBound: []byte{pebbledb.Delays + 1}})
	if err != nil {
		t.Fatal(err)
	}
	it.First()
	key, value := append([]byte(nil), it.Key()...), append([]byte(nil), it.Value()...)
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pebbledelay.CheckRecord(key, value); err != nil {
		t.Errorf("the record as it is: got %v, want no error", err)
	}
	value[3] ^= 1
	for name, err := range map[string]error{
		"changed record": pebbledelay.CheckRecord(key, value), "short key": pebbledelay.CheckRecord(key[:4], value),
	} {
		if !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("%s: got %v, want that it is corrupt", name, err)
		}
	}
	if err := db.Set(key, value, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	put(t, s, item(2, "behind"))
	got, err := s.Due(t.Context(), delay.Key{}, noon.Add(time.Hour), 1)
	if !errors.Is(err, record.ErrCorrupt) || len(got) != 1 || got[0].Name != "behind" {
		t.Errorf("due: got %v and %v, want the item behind the corrupt one, and its error", got, err)
	}
	put(t, s, item(3, "later"))
	if got, err := s.Stats(t.Context()); err != nil || got.Waiting != 3 || !got.Next.Equal(noon.Add(2)) {
		t.Errorf("stats: got %+v (%v), want 3 items, the corrupt one included, and the next one is behind it", got, err)
	}
	for range 2 { // it was reported before, to a caller that may have ignored it
		got, err := s.Due(t.Context(), delay.Key{}, noon.Add(time.Hour), 10)
		if !errors.Is(err, record.ErrCorrupt) || len(got) != 2 || got[1].Name != "later" {
			t.Errorf("due: got %v and %v, want both items, and the error of the corrupt one", got, err)
		}
	}
	put(t, s, item(1, "a"))
	want(t, s, "after the corrupt record was replaced", "a", "behind", "later")
}
