package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

var long = flag.Bool("long", false, "cut the power more often")

// counting counts the messages of a group in its state. It replies with the number of each, and
// appends the reply to the log.
func counting(_ context.Context, a *record.Attempt, m record.Message) error {
	n := uint64(1)
	if len(a.State) > 0 {
		n += binary.BigEndian.Uint64(a.State)
	}
	a.State = binary.BigEndian.AppendUint64(nil, n)
	body := fmt.Appendf(nil, "%s %s/%d", m.ID, m.Group, n)
	a.Reply(record.Reply{Status: http.StatusOK, Body: body})
	a.Append(record.Entry{Body: body})
	return nil
}

// echo replies without state: only the token of its message stores the reply.
func echo(_ context.Context, a *record.Attempt, m record.Message) error {
	a.Reply(record.Reply{Status: http.StatusOK, Body: fmt.Append(nil, "echo ", m.ID)})
	return nil
}

// powered opens a system whose database is on a file system that can lose its power.
func powered(t *testing.T, disk vfs.FS, dir string) (*System, system.Engine) {
	t.Helper()
	s, err := Open(Options{DataDir: dir, Config: &config.Config{}, fs: disk})
	if err != nil {
		t.Fatalf("not opened after a power failure: %v", err)
	}
	engine, err := s.Start([]system.Stream{
		{Stream: record.Stream{Name: "orders", Handler: counting, LogRetention: time.Hour}}, {Stream: record.Stream{Name: "echo", Stateless: true, Unordered: true, Handler: echo}},
	})
	if err != nil {
		t.Fatal(errors.Join(err, s.Close()))
	}
	return s, engine
}

// synced returns the disk after a power failure at this moment.
func synced(disk *vfs.MemFS) *vfs.MemFS { return disk.CrashClone(vfs.CrashCloneCfg{}) }

func post(h http.Handler, key, prefer string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/streams/"+message(key).Stream+"/messages", strings.NewReader(key))
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Once-Group", key[:1])
	if prefer != "" {
		r.Header.Set("Prefer", prefer)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// message returns the message of a key: those of a and b go to orders, the others to echo.
func message(key string) record.Message {
	stream := "echo"
	if key[0] <= 'b' {
		stream = "orders"
	}
	return record.Message{Stream: stream, ID: key, Group: key[:1], Body: []byte(key)}
}

// The kinds of answers.
const (
	replied = 1 << iota
	accepted
	listed  // an entry of a log
	anyKind = replied | accepted | listed
)

// A client records its answers.
type told struct {
	kinds   atomic.Uint32 // of answers, in this life
	mu      sync.Mutex
	replies map[string]string // by key; empty after a 202
	entries map[string]string // that a reader was given of the log of group a: bodies, by offset
}

// read reads the log of group a once, from its beginning or after the entry with an offset, and
// waits for an entry if there is none. It returns the last offset that it has.
func (c *told) read(ctx context.Context, t *testing.T, h http.Handler, after, wait string) (last string) {
	t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/streams/orders/groups/a/log?max=1000&wait="+wait+"&after="+after, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var page struct {
		Entries []struct{ Offset, Body string }
	}
	if w.Code != http.StatusOK {
		return after
	}
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range page.Entries {
		c.entries[e.Offset], after = e.Body, e.Offset
		c.kinds.Or(listed)
	}
	return after
}

func (c *told) hear(key string, w *httptest.ResponseRecorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch w.Code {
	case http.StatusOK:
		c.replies[key] = w.Body.String()
		c.kinds.Or(replied)
	case http.StatusAccepted:
		c.kinds.Or(accepted)
		if _, known := c.replies[key]; !known {
			c.replies[key] = ""
		}
	}
}

// A failure cuts the power at one operation of the disk.
type failure struct {
	disk *vfs.MemFS
	rng  *rand.Rand
	told *told
	late bool // do not count operations before there is an answer of each kind
	left atomic.Int64
	off  chan struct{}

	once  sync.Once
	after *vfs.MemFS
	sure  map[string]string // answers before the failure
	seen  map[string]string // entries that were read before it
}

// MaybeError is called before each operation on the disk.
func (f *failure) MaybeError(errorfs.Op) error {
	if f.late && f.told.kinds.Load() != anyKind {
		return nil
	}
	if f.left.Add(-1) < 0 {
		f.once.Do(func() {
			f.told.mu.Lock()
			f.sure, f.seen = maps.Clone(f.told.replies), maps.Clone(f.told.entries)
			f.told.mu.Unlock()
			f.after = f.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: f.rng.IntN(3) * 50, RNG: f.rng})
			close(f.off)
		})
	}
	return nil
}

// live runs a system with clients until its power fails, and returns the disk that is left.
func (f *failure) live(t *testing.T, dir string, life int) {
	t.Helper()
	s, _ := powered(t, errorfs.Wrap(f.disk, errorfs.InjectorFunc(f.MaybeError)), dir)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		// the power may fail early
		if err := s.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	running.Go(func() { f.rounds(s.Handler(), life) })
	running.Go(func() {
		for at := ""; ctx.Err() == nil; {
			at = f.told.read(ctx, t, s.Handler(), at, "20")
		}
	})
	<-f.off
	stop()
	running.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// rounds sends messages of four clients until the power fails, a message of each at the same time.
// Clients of the stateless stream would otherwise cause nearly all operations of the disk: only
// messages of the other stream wait for those before them.
func (f *failure) rounds(h http.Handler, life int) {
	for n := 0; ; n++ {
		select {
		case <-f.off:
			return
		default:
		}
		var round sync.WaitGroup
		for client := range 4 {
			key, prefer := fmt.Sprintf("%c-%d-%d", 'a'+client, life, n), ""
			if n%2 == client%2 {
				prefer = "wait=10"
			}
			round.Go(func() { f.told.hear(key, post(h, key, prefer)) })
		}
		round.Wait()
	}
}

// check compares a disk with the answers to clients, in all lives or in one.
func (f *failure) check(t *testing.T, dir, life string) {
	t.Helper()
	s, _ := powered(t, synced(f.after), dir)
	f.reread(t, s)
	queued := waiting(t, s)
	for key, reply := range f.sure {
		if !strings.Contains(key, life) {
			continue
		}
		state, err := durable{s.engine, s}.Status(t.Context(), message(key))
		switch {
		case err != nil:
			t.Error(err)
		case reply != "" && (state.Reply == nil || string(state.Reply.Body) != reply):
			t.Errorf("%s was answered %q, and is %s after a power failure, with %+v", key, reply, state.Status, state.Reply)
		case state.Status != admission.StatusDone && state.Status != admission.StatusCommitted && !queued[key]:
			t.Errorf("%s was accepted, and is %s in no queue after a power failure", key, state.Status)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// reread compares the log of group a with the entries that a reader had before the failure.
func (f *failure) reread(t *testing.T, s *System) {
	t.Helper()
	now := &told{entries: map[string]string{}}
	for at, last := "", "-"; at != last; {
		last, at = at, now.read(t.Context(), t, s.Handler(), at, "0")
	}
	for offset, body := range f.seen {
		if got, ok := now.entries[offset]; !ok || got != body {
			t.Errorf("a reader had %q at %s, and after a power failure it is %q", body, offset, got)
		}
	}
}

// waiting returns the bodies of the messages in the ingress queues.
func waiting(t *testing.T, s *System) map[string]bool {
	t.Helper()
	bodies := map[string]bool{}
	for _, q := range s.queues.all()[:2] {
		messages, err := q.Peek(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range messages {
			bodies[d.Body] = true
		}
	}
	return bodies
}

// TestEveryAnswerToAClientOutlivesAnyPowerFailure sends over HTTP to the whole system, and cuts its
// power at any operation on the disk: during the start, under load, while tables are written.
func TestEveryAnswerToAClientOutlivesAnyPowerFailure(t *testing.T) {
	lives := 12
	switch {
	case *long:
		lives = 100
	case testing.Short():
		lives = 6
	}
	rng := rand.New(rand.NewPCG(11, 11))
	disk, dir, all := vfs.NewCrashableMem(), t.TempDir(), &told{replies: map[string]string{}, entries: map[string]string{}}
	for life := range lives {
		most := []int64{100, 1000, 4000}[rng.IntN(3)]
		f := &failure{disk: disk, rng: rng, told: all, late: most == 4000, off: make(chan struct{})}
		f.left.Store(rng.Int64N(most))
		all.kinds.Store(0)
		f.live(t, dir, life)
		of := fmt.Sprintf("-%d-", life)
		if life == lives-1 {
			of = "" // of all: a message that was lost before is still lost
		}
		f.check(t, dir, of)
		if t.Failed() {
			t.Fatalf("in life %d", life)
		}
		disk = f.after
		all.replies, all.entries = f.sure, f.seen // later answers came after the power failed
	}
	replies := 0
	for _, reply := range all.replies {
		if reply != "" {
			replies++
		}
	}
	t.Logf("%d power failures, %d messages accepted, %d replies, %d entries read", lives, len(all.replies), replies, len(all.entries))
	if len(all.entries) == 0 {
		t.Error("no entry was read")
	}
	if replies == 0 || replies == len(all.replies) {
		t.Errorf("%d replies to %d messages", replies, len(all.replies))
	}
}
