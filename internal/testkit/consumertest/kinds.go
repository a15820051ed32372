package consumertest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/filecursor"
)

func (w *Work) before(e *client.Entry) {
	if w.Before != nil {
		w.Before(e)
	}
}

func (w *Work) after(e *client.Entry) {
	if w.After != nil {
		w.After(e)
	}
}

// Around calls work between Before and After of each entry.
func (w *Work) Around(entries []client.Entry, work func(e *client.Entry) error) error {
	for i := range entries {
		w.before(&entries[i])
		if err := work(&entries[i]); err != nil {
			return err
		}
		w.after(&entries[i])
	}
	return nil
}

// Engine returns a place in the state of the session.
func Engine(*testing.T) Place {
	consume := func(ctx context.Context, c *client.Client, o client.SessionOptions, _ *uint64, w Work) error {
		return c.Consume(ctx, o, func(_ context.Context, b *client.Batch) error {
			list, err := decode(b.State)
			if err != nil {
				return err
			}
			err = w.Around(b.Entries, func(e *client.Entry) error {
				list = append(list, e.ID)
				return nil
			})
			if err == nil {
				b.State, err = json.Marshal(list)
			}
			return err
		})
	}
	return Place{Consume: consume, Rows: func(t *testing.T, state State) (rows []string) {
		t.Helper()
		for _, session := range []string{"a", "b"} {
			list, err := decode(state(session))
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, list...)
		}
		return rows
	}}
}

// decode reads a state of a session.
func decode(state json.RawMessage) (list []string, err error) {
	if len(state) > 0 {
		err = json.Unmarshal(state, &list)
	}
	return list, err
}

// File returns a place in a file.
func File(t *testing.T) Place {
	t.Helper()
	dir := t.TempDir()
	name := func(session string) string { return filepath.Join(dir, session) }
	return Place{
		Locks: true,
		Consume: func(ctx context.Context, c *client.Client, o client.SessionOptions, from *uint64, w Work) error {
			return filecursor.Consume(ctx, c, o, name(o.Name), filecursor.Options{From: from}, func(b []byte, e *client.Entry) ([]byte, error) {
				w.before(e)
				defer w.after(e)
				return append(b, e.ID...), nil
			})
		},
		Rows: func(t *testing.T, _ State) (rows []string) {
			t.Helper()
			for _, session := range []string{"a", "b"} {
				text, err := os.ReadFile(name(session))
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				for line := range strings.Lines(string(text)) {
					if id, _, _ := strings.Cut(line, "\t"); id != "" {
						rows = append(rows, id)
					}
				}
			}
			return rows
		},
		Raise: func(ctx context.Context, o client.Opened) (uint64, error) {
			f, err := filecursor.Open(ctx, name(o.Name), o, filecursor.Options{})
			if err != nil {
				return 0, err
			}
			return f.Number(), f.Close()
		},
		Lose: func(t *testing.T) {
			t.Helper()
			if err := os.Remove(name("a")); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// Calls returns a place in another system, which remembers the identities of calls, the ids of their
// messages and the highest fence of each session.
func Calls(*testing.T) Place {
	var mu sync.Mutex
	var rows []string
	fences, known := map[string]uint64{}, map[string]bool{}
	receive := func(session, id string, h http.Header) error {
		fence, err := strconv.ParseUint(h.Get("Once-Fence"), 10, 64)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if fence < fences[session] {
			return errors.New("the fence is too low")
		}
		fences[session] = fence
		identity := h.Get("Idempotency-Key")
		if !known[identity] && !known[id] {
			rows = append(rows, id)
		}
		known[identity], known[id] = true, true
		return nil
	}
	return Place{
		Consume: func(ctx context.Context, c *client.Client, o client.SessionOptions, _ *uint64, w Work) error {
			return c.Consume(ctx, o, func(_ context.Context, b *client.Batch) error {
				return w.Around(b.Entries, func(e *client.Entry) error {
					h := http.Header{}
					b.SetHeaders(h, e)
					return receive(o.Name, h.Get("Once-Id"), h)
				})
			})
		},
		Rows: func(*testing.T, State) []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(rows)
		},
	}
}
