package embedded

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// onDisk opens a system, closes it when the test ends, and returns its disk.
func onDisk(t *testing.T) (*vfs.MemFS, *System, system.Engine) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	s, engine := powered(t, disk, t.TempDir())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return disk, s, engine
}

// afterPowerFailure opens the disk of a system after a power failure, and calls look with the new
// system.
func afterPowerFailure(t *testing.T, disk *vfs.MemFS, of *System, look func(*System)) {
	t.Helper()
	s, _ := powered(t, synced(disk), of.options.DataDir)
	look(s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// replyOf returns the stored reply to the message x, or "".
func replyOf(t *testing.T, s *System) string {
	t.Helper()
	state, err := s.engine.Status(t.Context(), message("x"))
	if err != nil {
		t.Fatal(err)
	}
	if state.Reply == nil {
		return ""
	}
	return string(state.Reply.Body)
}

func TestAnAcceptedMessageOutlivesAPowerFailure(t *testing.T) {
	disk, s, _ := onDisk(t)
	if w := post(s.Handler(), "a", ""); w.Code != http.StatusAccepted {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	afterPowerFailure(t, disk, s, func(s *System) {
		if !waiting(t, s)["a"] {
			t.Error("it is gone")
		}
	})
}

func TestAProcessedMessageOutlivesAPowerFailure(t *testing.T) {
	disk, s, engine := onDisk(t)
	if o := engine.Process(t.Context(), []record.Message{message("x")})[0]; o.Kind != record.Processed {
		t.Fatalf("%+v", o)
	}
	afterPowerFailure(t, disk, s, func(s *System) {
		if got := replyOf(t, s); got != "echo x" {
			t.Errorf("reply %q", got)
		}
	})
}

func TestACalledMessageOutlivesAPowerFailure(t *testing.T) {
	disk, s, engine := onDisk(t)
	if o := engine.Call(t.Context(), message("x")); o.Kind != record.Processed {
		t.Fatalf("%+v", o)
	}
	afterPowerFailure(t, disk, s, func(s *System) {
		if got := replyOf(t, s); got != "echo x" {
			t.Errorf("reply %q", got)
		}
	})
}

// TestAReturnedReplyOutlivesAPowerFailure reads replies that a queue's worker wrote without
// waiting for the disk.
func TestAReturnedReplyOutlivesAPowerFailure(t *testing.T) {
	find := map[string]func(durable) *record.Reply{
		"by status": func(d durable) *record.Reply {
			state, err := d.Status(t.Context(), message("x"))
			if err != nil {
				t.Fatal(err)
			}
			return state.Reply
		},
		"by issue": func(d durable) *record.Reply {
			token, _, err := d.Issue(t.Context(), message("x"))
			if err != nil {
				t.Fatal(err)
			}
			return token.Reply
		},
	}
	for name, found := range find {
		t.Run(name, func(t *testing.T) {
			disk, s, _ := onDisk(t)
			if o := s.engine.Call(t.Context(), message("x")); o.Kind != record.Processed {
				t.Fatalf("%+v", o)
			}
			afterPowerFailure(t, disk, s, func(s *System) {
				if got := replyOf(t, s); got != "" {
					t.Fatalf("the engine waits for the disk by itself: reply %q", got)
				}
			})
			if r := found(durable{s.engine, s}); r == nil || string(r.Body) != "echo x" {
				t.Fatalf("found %+v", r)
			}
			afterPowerFailure(t, disk, s, func(s *System) {
				if got := replyOf(t, s); got != "echo x" {
					t.Errorf("reply %q", got)
				}
			})
		})
	}
}

func TestAFlushSyncsUnsyncedWrites(t *testing.T) {
	disk, s, _ := onDisk(t)
	key := []byte{pebbledb.Groups + 100}
	if err := s.db.Set(key, []byte("x"), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	there := func() (found bool) {
		afterPowerFailure(t, disk, s, func(s *System) {
			if _, closer, err := s.db.Get(key); err == nil {
				found = closer.Close() == nil
			}
		})
		return found
	}
	s.flush()
	if there() {
		t.Fatal("durable although nothing was said to be written")
	}
	s.dirty.Store(true)
	s.flush()
	if !there() {
		t.Error("gone after a power failure")
	}
}

func TestAGroupWithHeldMessagesIsDueAfterARestart(t *testing.T) {
	dir := t.TempDir()
	start := func() *System {
		s, err := Open(Options{DataDir: dir, Config: &config.Config{}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start([]system.Stream{{Stream: record.Stream{Name: "chat", Admission: record.BySequence, Handler: counting, LogRetention: time.Hour}}}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start()
	m := record.Message{Stream: "chat", Group: "ann", Source: "ann", Sequence: 2, Body: []byte("2")}
	if o := (durable{s.engine, s}).Process(t.Context(), []record.Message{m})[0]; o.Kind != record.HeldBack {
		t.Fatalf("%+v", o)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = start()
	if err := s.recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held := s.watch.held(); len(held) != 1 || held[0] != m.GroupKey() {
		t.Errorf("groups with held messages: %v", held)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestABatchEndsBeforeItsMessagesAreVisibleAgain(t *testing.T) {
	if pollTimeout >= pollVisibility {
		t.Errorf("a batch may take %s, and its messages are visible to another worker after %s", pollTimeout, pollVisibility)
	}
}

// A slowBody is a request's body that ends a moment after the system has begun to end.
type slowBody struct {
	io.Reader
	begun chan struct{}
	end   <-chan struct{}
	pause func() // the duration of the request: Run must not return before
}

func (b slowBody) Read(p []byte) (int, error) {
	select {
	case <-b.begun:
	default:
		close(b.begun)
		<-b.end
		b.pause()
	}
	return b.Reader.Read(p)
}

func TestRunReturnsAfterTheRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := powered(t, vfs.NewMem(), filepath.Join(t.TempDir(), strings.Repeat("-", 120))) // too long for a socket
		ctx, stop := context.WithCancel(t.Context())
		done, ready := make(chan error, 1), make(chan struct{})
		s.options.Ready = func(string) { close(ready) }
		go func() { done <- s.Run(ctx) }()
		<-ready
		body := slowBody{strings.NewReader("a"), make(chan struct{}), s.draining, func() { time.Sleep(drainTime / 2) }}
		var answered atomic.Bool
		go func() {
			r := httptest.NewRequest(http.MethodPost, "/v1/streams/orders/messages", body)
			r.Header.Set("Idempotency-Key", "a")
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if w.Code != http.StatusAccepted {
				t.Error(fmt.Sprint(w.Code, w.Body))
			}
			answered.Store(true)
		}()
		<-body.begun
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !answered.Load() {
			t.Error("Run returned while a request was under way")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
