package filecursor

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/effectively-once/once/client"
)

func TestABatchIsDurableBeforeItIsProcessed(t *testing.T) {
	d := &memoryDisk{}
	f := loaded(t, d, opened())
	before := d.synced
	if err := f.Append(4, entries(1, 3), body); err != nil {
		t.Fatal(err)
	}
	want := first + "b\t7/1\nc\t7/2\nd\t7/3\n\t7/4\n"
	if string(d.durable) != want || d.synced != before+1 || f.Number() != 4 {
		t.Errorf("%q is durable after %d syncs, number %d", d.durable, d.synced-before, f.Number())
	}
	if err := f.Append(4, nil, body); err == nil {
		t.Error("the number was moved to where it is")
	}
}

func TestABatchWithoutSyncsIsWritten(t *testing.T) {
	d := &memoryDisk{}
	f, err := load(t, d, opened(), Options{NoSync: true})
	if err == nil {
		err = f.Append(1, entries(1, 1), body)
	}
	if err != nil || string(d.content) != first+"b\t7/1\n" || d.synced != 0 {
		t.Errorf("%v; %q after %d syncs", err, d.content, d.synced)
	}
}

func TestALargeBatchIsWrittenInParts(t *testing.T) {
	d := &memoryDisk{}
	f := loaded(t, d, opened())
	before := d.synced
	large := bytes.Repeat([]byte{'x'}, maxLine)
	list := entries(1, 9)
	text := func(b []byte, e *client.Entry) ([]byte, error) {
		if e.Number == 18 {
			return nil, errors.New("bad entry")
		}
		return append(b, large...), nil
	}
	if err := f.Append(9, list, text); err != nil || d.synced-before != 3 || bytes.Count(d.durable, []byte{'\n'}) != 10 {
		t.Errorf("%v after %d syncs, %d lines", err, d.synced-before, bytes.Count(d.durable, []byte{'\n'}))
	}
	// The first parts of a batch that fails later are removed.
	size := len(d.durable)
	if err := f.Append(18, entries(10, 18), text); err == nil || len(d.durable) != size || f.Number() != 9 {
		t.Errorf("%v, %d bytes are durable, want %d; number %d", err, len(d.durable), size, f.Number())
	}
}

func TestATextThatIsNoLineIsAnError(t *testing.T) {
	for _, text := range []string{"a\nb", "a\x00b", strings.Repeat("x", maxLine+1)} {
		d := &memoryDisk{}
		f := loaded(t, d, opened())
		err := f.Append(1, entries(1, 1), func(b []byte, _ *client.Entry) ([]byte, error) { return append(b, text...), nil })
		if !errors.Is(err, ErrText) || string(d.content) != first {
			t.Errorf("%v; the file has %q", err, d.content)
		}
	}
}

// Each operation fails, and afterwards the machine crashes: bytes that are not durable are lost.
func TestAFileIsAsBeforeAfterAnErrorOfItsDisk(t *testing.T) {
	for _, failing := range []string{"write", "half a write", "sync", "write truncate", "half a write truncate", "half a write sync", "sync truncate"} {
		t.Run(failing, func(t *testing.T) {
			d := &memoryDisk{failing: map[string]bool{}}
			f := loaded(t, d, opened())
			if err := f.Append(2, entries(1, 2), body); err != nil {
				t.Fatal(err)
			}
			before := string(d.durable)
			d.half = strings.Contains(failing, "half")
			for _, op := range []string{"write", "sync", "truncate"} {
				d.failing[op] = strings.Contains(failing, op)
			}
			err := f.Append(4, entries(3, 4), body)
			written := string(d.content) != before
			_, unknown := errors.AsType[*client.UnknownError](err)
			if broken := errors.Is(err, ErrBroken); !errors.Is(err, errDisk) || broken == unknown || written && !broken || f.Number() != 2 {
				t.Errorf("%v; broken %v, unknown %v, number %d; the file has %q", err, broken, unknown, f.Number(), d.content)
			}
			clear(d.failing)
			for _, content := range [][]byte{d.content, d.durable} { // a crash of the process, and of the machine
				d.content = bytes.Clone(content)
				f := loaded(t, d, opened())
				if n := f.Number(); n < 4 {
					if err := f.Append(4, entries(n+1, 4), body); err != nil {
						t.Fatal(err)
					}
				}
				if want := before + "d\t7/3\ne\t7/4\n"; string(d.content) != want {
					t.Errorf("in the end the file has %q, want %q", d.content, want)
				}
			}
		})
	}
}

func TestAConsumerOfABrokenFileStops(t *testing.T) {
	d := &memoryDisk{failing: map[string]bool{}}
	w := &worker{path: t.TempDir() + "/out", text: body, file: loaded(t, d, opened())}
	d.failing["sync"] = true
	err := w.Do(t.Context(), &client.Batch{To: 1, Entries: entries(1, 1)})
	if _, final := errors.AsType[*client.FinalError](err); !final || !errors.Is(err, ErrBroken) {
		t.Error(err)
	}
}

func TestAnErrorOfATextIsAFailedTryWhateverItIs(t *testing.T) {
	held := &client.Problem{Type: client.Fenced, Status: http.StatusConflict}
	for _, c := range []struct {
		err  error
		want any
	}{
		{held, new(*client.TryError)}, {fmt.Errorf("look up: %w", held), new(*client.TryError)}, {&client.UnknownError{Err: held}, new(*client.UnknownError)},
	} {
		w := &worker{file: loaded(t, &memoryDisk{}, opened()), text: func([]byte, *client.Entry) ([]byte, error) { return nil, c.err }}
		err := w.Do(t.Context(), &client.Batch{To: 1, Entries: entries(1, 1)})
		if !errors.As(err, c.want) {
			t.Errorf("%v: %#v", c.err, err)
		}
	}
}
