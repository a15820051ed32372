package filecursor

import (
	"bytes"
	"errors"
	"testing"

	"github.com/effectively-once/once/client"
)

var errDisk = errors.New("input/output error")

// A memoryDisk keeps the written bytes and the durable ones. Its operations fail if they are among
// failing.
type memoryDisk struct {
	content, durable []byte
	failing          map[string]bool
	half             bool // a write that fails writes the first half
	synced           int
}

func (d *memoryDisk) ReadAt(b []byte, at int64) (int, error) {
	return bytes.NewReader(d.content).ReadAt(b, at)
}

func (d *memoryDisk) WriteAt(b []byte, at int64) (int, error) {
	failed := d.failing["write"]
	if failed && d.half {
		b = b[:len(b)/2]
	} else if failed {
		return 0, errDisk
	}
	d.content = append(d.content[:at:at], b...)
	if failed {
		return len(b), errDisk
	}
	return len(b), nil
}

func (d *memoryDisk) Truncate(size int64) error {
	if d.failing["truncate"] {
		return errDisk
	}
	d.content = d.content[:size:size]
	return nil
}

func (d *memoryDisk) Sync() error {
	if d.failing["sync"] {
		return errDisk
	}
	d.durable = bytes.Clone(d.content)
	d.synced++
	return nil
}

func (d *memoryDisk) Size() (int64, error) { return int64(len(d.content)), nil }
func (d *memoryDisk) Close() error         { return nil }

// opened is the session of the tests.
func opened() client.Opened {
	return client.Opened{Stream: "work", Name: "a", Life: 7, Fence: 8}
}

// load loads a file of the session from a disk.
func load(t *testing.T, d disk, o client.Opened, options Options) (*File, error) {
	t.Helper()
	f := &File{disk: d, path: t.TempDir() + "/out", options: options, opened: o}
	return f, f.load()
}

// loaded is load for a file that must be right.
func loaded(t *testing.T, d disk, o client.Opened) *File {
	t.Helper()
	f, err := load(t, d, o, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// entries returns entries with the numbers from first to last.
func entries(first, last uint64) (list []client.Entry) {
	for n := first; n <= last; n++ {
		list = append(list, client.Entry{Number: n, Body: []byte{'a' + byte(n%26)}})
	}
	return list
}

func body(b []byte, e *client.Entry) ([]byte, error) { return append(b, e.Body...), nil }
