package file

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
)

// A stored record of a file, and how it is read.
type stored struct {
	name string
	key  []byte
	read func(s *Sender) (found bool, err error)
}

// records lists the records of a file to which the deliveries a/1 and single were written.
func records(s *Sender) []stored {
	numbered, single := named("a/1"), named("single")
	covers := func(d *record.Delivery) (mark, func(s *Sender) (bool, error)) {
		m := s.mark(d)
		return m, func(s *Sender) (bool, error) { return s.marks.covers(&m, time.Now()) }
	}
	group, readGroup := covers(&numbered)
	identity, readIdentity := covers(&single)
	return []stored{
		{"length", s.marks.lengthKey(), func(s *Sender) (bool, error) {
			_, known, err := s.marks.length()
			return known, err
		}},
		{"group", group.key, readGroup},
		{"identity", identity.key, readIdentity},
		{"owner", s.marks.prefix(owners), func(s *Sender) (bool, error) {
			name, err := s.ownName()
			return name != "", err
		}},
	}
}

func (b *bench) get(key []byte) []byte {
	b.t.Helper()
	value, closer, err := b.db.Get(key)
	if err != nil {
		b.t.Fatal(err)
	}
	defer closer.Close()
	return bytes.Clone(value)
}

func (b *bench) set(key, value []byte) {
	b.t.Helper()
	if err := b.db.Set(key, value, pebble.NoSync); err != nil {
		b.t.Fatal(err)
	}
}

func TestADamagedRecordIsAnErrorWhereverItIsDamaged(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"), named("single"))
	for _, r := range records(s) {
		good := b.get(r.key)
		check := func(what string, value []byte) {
			t.Helper()
			b.set(r.key, value)
			if found, err := r.read(s); !errors.Is(err, record.ErrCorrupt) || found {
				t.Errorf("%s, %s: found %t, %v", r.name, what, found, err)
			}
		}
		for i := range good {
			damaged := bytes.Clone(good)
			damaged[i] ^= 0x10
			check("a flipped bit", damaged)
			check("cut short", good[:i])
		}
		check("too long", append(bytes.Clone(good), 0))
		b.set(r.key, good)
		if found, err := r.read(s); err != nil || !found {
			t.Errorf("%s: found %t, %v", r.name, found, err)
		}
	}
}

func TestARecordUnderAnotherKeyIsAnError(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"), named("single"))
	all := records(s)
	b.set(all[1].key, b.get(all[2].key))
	if found, err := all[1].read(s); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("found %t, %v", found, err)
	}
}

func TestARecordOfANewerVersionIsAnErrorThatNamesTheVersion(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"), named("single"))
	for _, r := range records(s) {
		value := b.get(r.key)
		value[0]++
		b.set(r.key, value)
		if _, err := r.read(s); !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), "format 2") {
			t.Errorf("%s: %v", r.name, err)
		}
	}
}

func TestACorruptMarkBlocksOnlyItsOwnDeliveries(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"))
	key := s.marks.groupKey(&record.Delivery{Stream: "s", Group: "a", Incarnation: 1})
	damaged := b.get(key)
	damaged[3] ^= 1 // in the expiry
	b.set(key, damaged)
	errs := s.Send(t.Context(), []record.Delivery{named("a/1"), named("b/1"), named("a/2")})
	if !errors.Is(errs[0], record.ErrCorrupt) || errs[1] != nil || !errors.Is(errs[2], record.ErrCorrupt) {
		t.Errorf("%v", errs)
	}
	b.want("a/1", "b/1")
}

func TestACorruptLengthCutsNothingOff(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"))
	b.close(s)
	length := b.get(s.marks.lengthKey())
	length[len(length)-5] = 0 // the lowest byte of the number, or of the sealed content
	b.set(s.marks.lengthKey(), length)
	if _, err := Open(b.db, b.path, Options{}); !errors.Is(err, record.ErrCorrupt) {
		t.Error(err)
	}
	b.want("a/1")
}

func TestAFileWithACorruptRecordCanBeMovedAwayAsItsErrorSays(t *testing.T) {
	for _, name := range []string{"length", "owner"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			s := b.open(Options{})
			b.send(s, named("a/1"), named("x"))
			all := records(s)
			b.close(s)
			r := all[slices.IndexFunc(all, func(r stored) bool { return r.name == name })]
			damaged := b.get(r.key)
			damaged[2] ^= 1
			b.set(r.key, damaged)
			if _, err := Open(b.db, b.path, Options{}); err == nil || !strings.Contains(err.Error(), "move the file away") || !strings.Contains(err.Error(), b.path) {
				t.Fatal(err)
			}
			b.want("a/1", "x")
			if err := os.Rename(b.path, b.path+".old"); err != nil {
				t.Fatal(err)
			}
			for range 2 { // recorded lines are not written again, not even after the next start
				s = b.open(Options{})
				b.send(s, named("a/1"), named("x"), named("a/2"))
				b.close(s)
			}
			b.want("a/2")
		})
	}
}

func TestAMarkThatIsCorruptWhenItExpiresBlocksNoDelivery(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"))
	key := s.marks.groupKey(&record.Delivery{Stream: "s", Group: "a", Incarnation: 1})
	damaged := b.get(key)
	damaged[3] ^= 1
	b.set(key, damaged)
	expire, send := &request{done: make(chan struct{}), expired: [][]byte{key}}, s.newRequest([]record.Delivery{named("b/1")})
	s.mu.Lock() // in one round
	s.waiting = append(s.waiting, expire, send)
	s.mu.Unlock()
	s.poke()
	<-expire.done
	<-send.done
	if expire.forgot != nil || expire.deleted != 0 || send.errs[0] != nil {
		t.Errorf("forgot %d, %v; sent %v", expire.deleted, expire.forgot, send.errs[0])
	}
	if got := b.get(key); !bytes.Equal(got, damaged) {
		t.Errorf("changed to %x", got)
	}
	b.want("a/1", "b/1")
}

func TestExpireSkipsCorruptMarks(t *testing.T) {
	b := newBench(t)
	now := time.Now()
	s := b.open(Options{Now: func() time.Time { return now }})
	b.send(s, named("a/1"), named("b/1"), named("c/1"))
	key := s.marks.groupKey(&record.Delivery{Stream: "s", Group: "b", Incarnation: 1})
	damaged := b.get(key)
	damaged[len(damaged)-1] ^= 1
	b.set(key, damaged)
	now = now.Add(2 * record.DefaultGroupRetention)
	for range 2 {
		if _, err := s.Expire(t.Context(), 10); err != nil {
			t.Error(err)
		}
	}
	if got := b.get(key); !bytes.Equal(got, damaged) {
		t.Errorf("changed to %x", got)
	}
	if n := b.marks(s); n != 1 {
		t.Errorf("%d marks are left", n)
	}
	errs := s.Send(t.Context(), []record.Delivery{named("b/1")})
	if !errors.Is(errs[0], record.ErrCorrupt) {
		t.Errorf("sent again: %v", errs[0])
	}
	b.want("a/1", "b/1", "c/1")
}

func (b *bench) marks(s *Sender) (n int) {
	b.t.Helper()
	it, err := b.db.NewIter(&pebble.IterOptions{LowerBound: s.marks.prefix(marksFrom), UpperBound: s.marks.prefix(marksTo)})
	if err != nil {
		b.t.Fatal(err)
	}
	defer it.Close()
	for valid := it.First(); valid; valid = it.Next() {
		n++
	}
	return n
}

// FuzzARecordIsReadAsItWasWrittenOrNotAtAll reads any value: the result is the content sealed under
// this key, or an error.
func FuzzARecordIsReadAsItWasWrittenOrNotAtAll(f *testing.F) {
	key := []byte("key")
	good := markValue(key, 7, time.UnixMilli(1767225600000))
	f.Add([]byte{})
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append([]byte{format + 1}, good[1:]...))
	f.Add(lengthValue(key, 1<<40))
	f.Add(seal(key, nil))
	f.Fuzz(func(t *testing.T, value []byte) {
		number, expires, err := parseMark(key, value)
		switch {
		case err != nil && !errors.Is(err, record.ErrCorrupt):
			t.Fatalf("an error of no kind: %v", err)
		case err == nil && !bytes.Equal(markValue(key, number, expires), value):
			t.Fatalf("%x is read as %d until %s", value, number, expires)
		}
		n, err := parseLength(key, value)
		switch {
		case err != nil && !errors.Is(err, record.ErrCorrupt):
			t.Fatalf("an error of no kind: %v", err)
		case err == nil && !bytes.Equal(lengthValue(key, n), value):
			t.Fatalf("%x is read as %d", value, n)
		}
		if len(value) == 0 {
			return
		}
		// Any sealed value can be read, and is refused after a change of any byte.
		sealed := seal(key, value)
		if content, err := open(key, sealed); err != nil || !bytes.Equal(content, value) {
			t.Fatalf("%x came back as %x, %v", value, content, err)
		}
		sealed[int(value[0])%len(sealed)]++
		if _, err := open(key, sealed); !errors.Is(err, record.ErrCorrupt) {
			t.Fatalf("damaged, it is read: %v", err)
		}
	})
}

// TestAMarkThatIsWrittenInTheRoundThatForgetsItsPredecessorIsKept delivers under an identity whose
// mark has expired, in the round in which the expired mark is deleted.
func TestAMarkThatIsWrittenInTheRoundThatForgetsItsPredecessorIsKept(t *testing.T) {
	b := newBench(t)
	now := time.Now()
	s := b.open(Options{Retention: time.Hour, Now: func() time.Time { return now }})
	b.send(s, named("x"))
	now = now.Add(2 * time.Hour)
	send := s.newRequest([]record.Delivery{named("x")})
	expire := &request{done: make(chan struct{}), expired: [][]byte{s.marks.identityKey(named("x").Identity)}}
	s.mu.Lock() // in one round
	s.waiting = append(s.waiting, send, expire)
	s.mu.Unlock()
	s.poke()
	<-send.done
	<-expire.done
	if send.errs[0] != nil || expire.forgot != nil {
		t.Fatalf("sent %v, forgot %v", send.errs[0], expire.forgot)
	}
	b.send(s, named("x")) // delivered again
	b.want("x", "x")
}
