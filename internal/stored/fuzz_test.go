package stored_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/stored"
)

// encoded gives what a write appends.
func encoded(write func(e *stored.Encoder)) []byte {
	e := &stored.Encoder{}
	write(e)
	return e.B
}

// A form is one kind of record: bytes that it reads are corrupt, or mean what its own writing of them means.
type form[T any] struct {
	read  func(d *stored.Decoder) T
	write func(e *stored.Encoder, x T)
}

func (f form[T]) fuzz(t *testing.T, b []byte) {
	t.Helper()
	d := stored.NewDecoder(b)
	first := f.read(d)
	if err := d.End(); err != nil {
		if !errors.Is(err, record.ErrCorrupt) {
			t.Fatalf("got %v, want %v", err, record.ErrCorrupt)
		}
		return
	}
	d = stored.NewDecoder(encoded(func(e *stored.Encoder) { f.write(e, first) }))
	again := f.read(d)
	if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); d.End() != nil || diff != "" {
		t.Fatalf("read, written and read again: %v (-first +again):\n%s", d.End(), diff)
	}
}

// pointer makes a form of functions that read into a place and write from one.
func pointer[T any](read func(*stored.Decoder, *T), write func(*stored.Encoder, *T)) form[T] {
	return form[T]{
		read:  func(d *stored.Decoder) (x T) { read(d, &x); return x },
		write: func(e *stored.Encoder, x T) { write(e, &x) },
	}
}

func message() record.Message {
	return record.Message{
		Principal: "tenant", Stream: "orders", ID: "id", Group: "customer", Source: "s", Epoch: 1, Sequence: 5, DependsOn: map[string]uint64{"t": 4},
		ContentType: "text/plain", Headers: map[string]string{"a": "1"}, Body: []byte("body"), Route: "POST /x", Accepted: time.UnixMicro(1),
	}
}

func pending() record.Pending {
	return record.Pending{
		Number: 6, Identity: "id", Principal: "tenant", Token: record.TokenKey{1}, Fingerprint: record.Fingerprint{2}, Attempt: "attempt",
		Effects: []record.Effect{{To: []string{"ledger"}, Body: []byte("body"), Chain: map[string]uint64{"next": 9}}, {Blob: &record.Blob{Key: "k", Staged: "staged"}}},
		Sent:    []record.Sent{{To: "ledger"}}, Reply: &record.Reply{Status: 201, Header: map[string][]string{"Etag": {"x"}}}, Marks: true, Retention: time.Hour,
	}
}

func FuzzHeld(f *testing.F) {
	h := record.Held{Message: message(), At: time.UnixMicro(-1)}
	f.Add(encoded(func(e *stored.Encoder) { stored.WriteHeld(e, &h) }))
	f.Fuzz(pointer(stored.ReadHeld, stored.WriteHeld).fuzz)
}

func FuzzMessage(f *testing.F) {
	m := message()
	f.Add(encoded(func(e *stored.Encoder) { stored.WriteMessage(e, &m) }))
	f.Fuzz(pointer(stored.ReadMessage, stored.WriteMessage).fuzz)
}

func FuzzPending(f *testing.F) {
	p := pending()
	f.Add(encoded(func(e *stored.Encoder) { stored.WritePending(e, &p) }))
	f.Fuzz(pointer(stored.ReadPending, stored.WritePending).fuzz)
}

func FuzzReply(f *testing.F) {
	f.Add(encoded(func(e *stored.Encoder) { stored.WriteReply(e, pending().Reply) }))
	f.Fuzz(form[*record.Reply]{stored.ReadReply, stored.WriteReply}.fuzz)
}

func FuzzSources(f *testing.F) {
	sources := map[string]record.Source{"s": {
		Epoch: 1, Next: 3, Held: record.Ranges{{First: 5, Last: 6}, {First: 8, Last: 8}}, Skipped: record.Ranges{{First: 0, Last: 2}}, HeldBytes: 10, GapSince: time.UnixMicro(9),
	}}
	f.Add(encoded(func(e *stored.Encoder) { stored.Map(e, sources, stored.WriteSource) }))
	f.Fuzz(func(t *testing.T, b []byte) {
		form[map[string]record.Source]{
			read:  func(d *stored.Decoder) map[string]record.Source { return stored.MapOf(d, stored.ReadSource) },
			write: func(e *stored.Encoder, x map[string]record.Source) { stored.Map(e, x, stored.WriteSource) },
		}.fuzz(t, b)
		d := stored.NewDecoder(b)
		for name, s := range stored.MapOf(d, stored.ReadSource) {
			if d.End() == nil && (!sorted(s.Held) || !sorted(s.Skipped)) {
				t.Errorf("source %q has numbers that are no set: %v, %v", name, s.Held, s.Skipped)
			}
		}
	})
}

// sorted reports whether ranges are what [record.Ranges] says: sorted, neither overlapping nor touching.
func sorted(r record.Ranges) bool {
	for i, x := range r {
		if x.Last < x.First || i > 0 && (x.First <= r[i-1].Last || x.First-r[i-1].Last == 1) {
			return false
		}
	}
	return true
}
