package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
)

func TestAFileThatIsRenamedWithItsRecordsGetsNoLineTwice(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	names := []string{"single"}
	for g := range 20_000 { // more than one batch
		names = append(names, fmt.Sprintf("group%d/1", g))
	}
	deliveries := make([]record.Delivery, len(names))
	for i, name := range names {
		deliveries[i] = named(name)
	}
	b.send(s, deliveries...)
	b.close(s)
	b.append("an interrupted round")
	other := filepath.Join(t.TempDir(), "other.jsonl")
	for _, name := range []string{"", ".owner"} {
		from, to := b.path, other
		if name != "" {
			from, to = (&Sender{path: b.path}).signature(), (&Sender{path: other}).signature()
		}
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := Rename(b.db, b.path, other); err != nil {
		t.Fatal(err)
	}
	if err := Rename(b.db, other, other); err != nil { // changes nothing
		t.Fatal(err)
	}
	lengths, others, err := Committed(b.db, []string{b.path, other})
	if err != nil || lengths[0] != -1 || lengths[1] <= 0 || others != 0 {
		t.Errorf("lengths %v, %d others, %v; want none at the old path and no other file", lengths, others, err)
	}
	b.path = other
	s = b.open(Options{})
	b.send(s, append(deliveries, named("group7/2"))...)
	b.want(append(names, "group7/2")...)
}

func TestACorruptRecordIsNotRenamed(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("g/1"))
	b.close(s)
	key := s.marks.lengthKey()
	if err := b.db.Set(key, []byte("damaged"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := Rename(b.db, b.path, b.path+"2"); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("%v, want a corrupt record", err)
	}
}
