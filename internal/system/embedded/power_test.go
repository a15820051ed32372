package embedded

import (
	"context"
	"encoding/binary"
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

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

var long = flag.Bool("long", false, "cut the power more often")

// counting counts the messages of a group in its state, and replies with the number of each.
func counting(_ context.Context, a *record.Attempt, m record.Message) error {
	n := uint64(1)
	if len(a.State) > 0 {
		n += binary.BigEndian.Uint64(a.State)
	}
	a.State = binary.BigEndian.AppendUint64(nil, n)
	a.Reply(record.Reply{Status: http.StatusOK, Body: fmt.Appendf(nil, "%s %s/%d", m.ID, m.Group, n)})
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
		{Stream: record.Stream{Name: "orders", Handler: counting}}, {Stream: record.Stream{Name: "echo", Stateless: true, Unordered: true, Handler: echo}},
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

// A client records its answers.
type told struct {
	mu      sync.Mutex
	replies map[string]string // by key; empty after a 202
}

func (c *told) hear(key string, w *httptest.ResponseRecorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch w.Code {
	case http.StatusOK:
		c.replies[key] = w.Body.String()
	case http.StatusAccepted:
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
	left atomic.Int64
	off  chan struct{}

	once  sync.Once
	after *vfs.MemFS
	sure  map[string]string // answers before the failure
}

// MaybeError is called before each operation on the disk.
func (f *failure) MaybeError(errorfs.Op) error {
	if f.left.Add(-1) < 0 {
		f.once.Do(func() {
			f.told.mu.Lock()
			f.sure = maps.Clone(f.told.replies)
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
	for client := range 4 {
		running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-f.off:
					return
				default:
				}
				key := fmt.Sprintf("%c-%d-%d", 'a'+client, life, n)
				prefer := ""
				if n%2 == client%2 {
					prefer = "wait=10"
				}
				f.told.hear(key, post(s.Handler(), key, prefer))
			}
		})
	}
	<-f.off
	stop()
	running.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// check compares a disk with the answers to clients.
func (f *failure) check(t *testing.T, dir string) {
	t.Helper()
	s, _ := powered(t, synced(f.after), dir)
	queued := waiting(t, s)
	for key, reply := range f.sure {
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
	if *long {
		lives = 100
	}
	rng := rand.New(rand.NewPCG(11, 11))
	disk, dir, all := vfs.NewCrashableMem(), t.TempDir(), &told{replies: map[string]string{}}
	for life := range lives {
		f := &failure{disk: disk, rng: rng, told: all, off: make(chan struct{})}
		f.left.Store(rng.Int64N([]int64{100, 1000, 4000}[rng.IntN(3)]))
		f.live(t, dir, life)
		f.check(t, dir)
		if t.Failed() {
			t.Fatalf("in life %d", life)
		}
		disk = f.after
		all.replies = f.sure // later answers came after the power failed
	}
	replies := 0
	for _, reply := range all.replies {
		if reply != "" {
			replies++
		}
	}
	t.Logf("%d power failures, %d messages accepted, %d replies", lives, len(all.replies), replies)
	if replies == 0 || replies == len(all.replies) {
		t.Errorf("%d replies to %d messages", replies, len(all.replies))
	}
}
