package consumertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	return Place{Consume: ConsumeState, Rows: func(t *testing.T, state State) (rows []string) {
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

// ConsumeState keeps the rows in the state of the session.
func ConsumeState(ctx context.Context, c *client.Client, o client.SessionOptions, _ *uint64, w Work) error {
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

// decode reads a state of a session.
func decode(state json.RawMessage) (list []string, err error) {
	if len(state) > 0 {
		err = json.Unmarshal(state, &list)
	}
	return list, err
}

// ConsumeIn keeps the rows in files of a folder, which are named after the sessions.
func ConsumeIn(dir string) Consume {
	return func(ctx context.Context, c *client.Client, o client.SessionOptions, from *uint64, w Work) error {
		return filecursor.Consume(ctx, c, o, filepath.Join(dir, o.Name), filecursor.Options{From: from}, func(b []byte, e *client.Entry) ([]byte, error) {
			w.before(e)
			defer w.after(e)
			return append(b, e.ID...), nil
		})
	}
}

// File returns a place in files of a folder.
func File(t *testing.T) Place {
	t.Helper()
	return FileIn(t.TempDir())
}

// FileIn returns a place in files of a folder.
func FileIn(dir string) Place {
	name := func(session string) string { return filepath.Join(dir, session) }
	return Place{
		Locks:   true,
		Consume: ConsumeIn(dir),
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
		Tear: func(t *testing.T, number uint64) {
			t.Helper()
			tear(t, name("a"), number)
		},
	}
}

// tear appends the lines up to the one of a number, which has its text and a part of its number.
func tear(t *testing.T, path string, number uint64) {
	t.Helper()
	text, err := os.ReadFile(path) //nolint:gosec // a file of the test
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	_, mark, _ := strings.Cut(lines[len(lines)-1], "\t")
	life, last, _ := strings.Cut(mark, "/")
	next, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for next++; next < number; next++ {
		text = fmt.Appendf(text, "m%02d\t%s/%d\n", next, life, next)
	}
	text = fmt.Appendf(text, "m%02d\t%s/", number, life)
	if err := os.WriteFile(path, text, 0o600); err != nil { //nolint:gosec // a file of the test
		t.Fatal(err)
	}
}

// A receiver is another system. It remembers the identities of calls, the ids of their messages and
// the highest fence of each session.
type receiver struct {
	mu     sync.Mutex
	rows   []string
	fences map[string]uint64
	known  map[string]bool
}

// ServeHTTP takes a call.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	session, id, identity := q.URL.Path, q.Header.Get("Once-Id"), q.Header.Get("Idempotency-Key")
	fence, err := strconv.ParseUint(q.Header.Get("Once-Fence"), 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || fence < r.fences[session] {
		w.WriteHeader(http.StatusConflict)
		return
	}
	r.fences[session] = fence
	if !r.known[identity] && !r.known[id] {
		r.rows = append(r.rows, id)
	}
	r.known[identity], r.known[id] = true, true
}

func (r *receiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows, r.fences, r.known = nil, map[string]uint64{}, map[string]bool{}
}

// ConsumeCalls calls a system for each entry.
func ConsumeCalls(url string) Consume {
	return func(ctx context.Context, c *client.Client, o client.SessionOptions, _ *uint64, w Work) error {
		return c.Consume(ctx, o, func(ctx context.Context, b *client.Batch) error {
			return w.Around(b.Entries, func(e *client.Entry) error {
				q, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, url+"/"+o.Name, http.NoBody)
				if err != nil {
					return err
				}
				b.SetHeaders(q.Header, e)
				resp, err := http.DefaultClient.Do(q)
				if err != nil {
					return err
				}
				if err := resp.Body.Close(); err != nil {
					return err
				}
				if resp.StatusCode != http.StatusOK {
					return errors.New("the receiver refuses the call: " + resp.Status)
				}
				return nil
			})
		})
	}
}

// Calls returns a place in another system.
func Calls(t *testing.T) Place {
	t.Helper()
	place, _ := CallsTo(t)
	return place
}

// CallsTo returns a place in another system, and its URL.
func CallsTo(t *testing.T) (Place, string) {
	t.Helper()
	r := &receiver{}
	r.forget()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return Place{
		Consume: ConsumeCalls(server.URL),
		Rows: func(*testing.T, State) []string {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Clone(r.rows)
		},
		Lose: func(*testing.T) { r.forget() },
	}, server.URL
}
