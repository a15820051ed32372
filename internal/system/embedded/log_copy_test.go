package embedded_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/effectively-once/once/client"
)

// TestACopyOfTheDataFolderHasItsLogs copies a stopped system's folder, goes on, and restores the
// copy. A reader continues where the copy knows it, with the entries that are written after it; a
// reader that is ahead of the copy gets an error.
func TestACopyOfTheDataFolderHasItsLogs(t *testing.T) {
	p := &place{t: t, dir: t.TempDir(), config: "streams: {chat: {log: {}}}"}
	say := func(r *running, ids ...string) {
		for _, id := range ids {
			r.send(t, client.Message{Stream: "chat", Group: "g", Key: id, Body: []byte(id)})
		}
	}
	r := p.start()
	say(r, "a", "b")
	tail := r.client.Tail("chat", "g", client.TailOptions{})
	if _, err := tail.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	known := tail.Offset()
	r.stop()
	data, copied := filepath.Join(p.dir, "data"), filepath.Join(p.dir, "copy")
	if err := os.CopyFS(copied, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	r = p.start()
	say(r, "c")
	tail = r.client.Tail("chat", "g", client.TailOptions{After: known})
	for range 2 {
		if _, err := tail.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ahead := tail.Offset()
	r.stop()
	if err := errors.Join(os.RemoveAll(data), os.Rename(copied, data)); err != nil {
		t.Fatal(err)
	}

	r = p.start()
	defer r.stop()
	if _, err := r.client.Tail("chat", "g", client.TailOptions{After: ahead}).Next(t.Context()); err == nil {
		t.Error("a reader that is ahead of the copy continues")
	}
	say(r, "d")
	if got := fmt.Sprint(r.read(t, "chat", 3)); got != "[a b d]" {
		t.Errorf("the log of the copy is %s", got)
	}
	tail = r.client.Tail("chat", "g", client.TailOptions{After: known})
	for _, want := range []string{"b", "d"} {
		if e, err := tail.Next(t.Context()); err != nil || e.ID != want {
			t.Errorf("got %s, %v, where %s follows", e.ID, err, want)
		}
	}
}
