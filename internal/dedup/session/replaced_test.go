package session_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/session"
)

func TestReplacedSessionsAreFreed(t *testing.T) {
	store := memstore.New(time.Now)
	newest := session.New(store, session.Config{Now: time.Now, Alone: true})
	first := weak.Make(newest)
	for range 3 {
		newest = session.New(store, session.Config{Now: time.Now, Alone: true, Before: newest})
	}
	runtime.GC()
	if first.Value() != nil {
		t.Error("the first sessions are still in memory, want only the newest")
	}
	runtime.KeepAlive(newest)
}
