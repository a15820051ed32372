package encoding_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// encoded returns the bytes that write appends.
func encoded(write func(e *encoding.Encoder)) []byte {
	e := &encoding.Encoder{}
	write(e)
	return e.B
}

// A form is one kind of record: bytes that it reads are corrupt, or equal the decoded form of their
// encoding.
type form[T any] struct {
	read  func(d *encoding.Decoder) T
	write func(e *encoding.Encoder, x T)
}

func (f form[T]) fuzz(t *testing.T, b []byte) {
	t.Helper()
	d := encoding.NewDecoder(b)
	first := f.read(d)
	if err := d.End(); err != nil {
		if !errors.Is(err, record.ErrCorrupt) {
			t.Fatalf("got %v, want %v", err, record.ErrCorrupt)
		}
		return
	}
	d = encoding.NewDecoder(encoded(func(e *encoding.Encoder) { f.write(e, first) }))
	again := f.read(d)
	if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); d.End() != nil || diff != "" {
		t.Fatalf("read, written and read again: %v (-first +again):\n%s", d.End(), diff)
	}
}

// pointer returns a form for functions that read into a pointer and write from one.
func pointer[T any](read func(*encoding.Decoder, *T), write func(*encoding.Encoder, *T)) form[T] {
	return form[T]{
		read:  func(d *encoding.Decoder) (x T) { read(d, &x); return x },
		write: func(e *encoding.Encoder, x T) { write(e, &x) },
	}
}

func message() record.Message {
	return record.Message{
		Principal: "tenant", Stream: "orders", ID: "id", Group: "customer", Source: "s", Epoch: 1, Sequence: 5, DependsOn: map[string]uint64{"t": 4},
		ContentType: "text/plain", Headers: map[string]string{"a": "1"}, Body: []byte("body"), Route: "POST /x", Accepted: time.UnixMicro(1), Content: [32]byte{1},
	}
}

func pending() record.Pending {
	return record.Pending{
		Number: 6, Identity: "id", Principal: "tenant", Token: record.TokenKey{1}, Fingerprint: record.Fingerprint{2}, Attempt: "attempt",
		Effects: []record.Effect{{To: []string{"ledger"}, Body: []byte("body"), Chain: map[string]uint64{"next": 9}, DependsOn: map[string]uint64{"chat/a": 2}}, {Blob: &record.Blob{Key: "k", Staged: "staged"}}},
		Sent:    []record.Sent{{To: "ledger"}}, Reply: &record.Reply{Status: 201, Header: map[string][]string{"Etag": {"x"}}}, Marks: true, Retention: time.Hour,
	}
}

func FuzzHeld(f *testing.F) {
	h := record.Held{Message: message(), At: time.UnixMicro(-1)}
	f.Add(encoded(func(e *encoding.Encoder) { encoding.WriteHeld(e, &h) }))
	f.Fuzz(pointer(encoding.ReadHeld, encoding.WriteHeld).fuzz)
}

func FuzzMessage(f *testing.F) {
	m := message()
	f.Add(encoded(func(e *encoding.Encoder) { encoding.WriteMessage(e, &m) }))
	f.Fuzz(pointer(encoding.ReadMessage, encoding.WriteMessage).fuzz)
}

func FuzzPending(f *testing.F) {
	p := pending()
	f.Add(encoded(func(e *encoding.Encoder) { encoding.WritePending(e, &p) }))
	f.Fuzz(pointer(encoding.ReadPending, encoding.WritePending).fuzz)
}

func FuzzReply(f *testing.F) {
	f.Add(encoded(func(e *encoding.Encoder) { encoding.WriteReply(e, pending().Reply) }))
	f.Fuzz(form[*record.Reply]{encoding.ReadReply, encoding.WriteReply}.fuzz)
}

func FuzzSources(f *testing.F) {
	sources := map[string]record.Source{"s": {
		Epoch: 1, Next: 3, Held: record.Ranges{{First: 5, Last: 6}, {First: 8, Last: 8}}, Skipped: record.Ranges{{First: 0, Last: 2}}, HeldBytes: 10, GapSince: time.UnixMicro(9),
	}}
	f.Add(encoded(func(e *encoding.Encoder) { encoding.Map(e, sources, encoding.WriteSource) }))
	f.Fuzz(func(t *testing.T, b []byte) {
		form[map[string]record.Source]{
			read:  func(d *encoding.Decoder) map[string]record.Source { return encoding.MapOf(d, encoding.ReadSource) },
			write: func(e *encoding.Encoder, x map[string]record.Source) { encoding.Map(e, x, encoding.WriteSource) },
		}.fuzz(t, b)
		d := encoding.NewDecoder(b)
		for name, s := range encoding.MapOf(d, encoding.ReadSource) {
			if d.End() == nil && (!sorted(s.Held) || !sorted(s.Skipped)) {
				t.Errorf("source %q has numbers that are no set: %v, %v", name, s.Held, s.Skipped)
			}
		}
	})
}

// sorted reports whether ranges satisfy [record.Ranges]: sorted, neither overlapping nor touching.
func sorted(r record.Ranges) bool {
	for i, x := range r {
		if x.Last < x.First || i > 0 && (x.First <= r[i-1].Last || x.First-r[i-1].Last == 1) {
			return false
		}
	}
	return true
}
