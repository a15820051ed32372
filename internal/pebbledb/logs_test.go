package pebbledb_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/effectively-once/once/internal/pebbledb"
)

// An ending is a logger that receives the reason why the process ends. The goroutine that ends it
// blocks.
type ending chan string

func (ending) Infof(string, ...any)  {}
func (ending) Errorf(string, ...any) {}
func (e ending) Fatalf(format string, args ...any) {
	select {
	case e <- fmt.Sprintf(format, args...):
	default: // the first reason counts
	}
	select {}
}

// A brokenFS fails one kind of operation on logs once it is broken. It counts the logs that took
// the file of an older one.
type brokenFS struct {
	vfs.FS
	kind   string
	broken atomic.Bool
	reuses atomic.Int64
}

func (b *brokenFS) fail(kind string) error {
	if b.broken.Load() && kind == b.kind {
		return syscall.EIO
	}
	return nil
}

func (b *brokenFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := b.FS.Create(name, c)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &brokenFile{f, b}, nil
}

func (b *brokenFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	b.reuses.Add(1)
	if err := b.fail("reuse"); err != nil {
		return nil, err
	}
	f, err := b.FS.ReuseForWrite(old, name, c)
	if err != nil {
		return nil, err
	}
	return &brokenFile{f, b}, nil
}

type brokenFile struct {
	vfs.File
	fs *brokenFS
}

func (f *brokenFile) Write(p []byte) (int, error) {
	if err := f.fs.fail("write"); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *brokenFile) SyncData() error { return errors.Join(f.fs.fail("sync"), f.File.SyncData()) }

// TestAnErrorAtALogEndsTheProcessWithAMessage lets one kind of operation fail, on new logs and on
// those that take the file of an older one.
func TestAnErrorAtALogEndsTheProcessWithAMessage(t *testing.T) {
	for kind, want := range map[string]string{"write": "write the log", "sync": "sync the log", "reuse": "create the log"} {
		for _, reused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/reused=%v", kind, reused), func(t *testing.T) {
				fs, end := &brokenFS{FS: vfs.NewMem(), kind: kind}, make(ending, 1)
				db, err := pebbledb.Open("db", &pebble.Options{FS: fs, Logger: end, MemTableSize: 64 << 10})
				if err != nil {
					t.Fatal(err)
				}
				go func() { // it never returns
					for n := int64(0); ; n++ {
						if !reused || fs.reuses.Load() > 0 {
							fs.broken.Store(true)
						}
						_ = db.Set(key(n), make([]byte, 3000), pebble.Sync)
					}
				}()
				select {
				case text := <-end:
					if !strings.HasPrefix(text, want) || !strings.Contains(text, ".log") {
						t.Errorf("the process ends with: %s", text)
					}
				case <-time.After(10 * time.Second):
					t.Error("the process goes on")
				}
			})
		}
	}
}

func TestAnErrorAtALogWhileTheDatabaseIsOpenedIsReturned(t *testing.T) {
	broken := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".log") {
			return syscall.EIO
		}
		return nil
	})
	options := small(errorfs.Wrap(vfs.NewMem(), broken))
	if _, err := pebbledb.Open("db", options); !errors.Is(err, syscall.EIO) {
		t.Errorf("open: %v", err)
	}
	if text := options.Logger.(*survivor).last.Load(); text != nil {
		t.Errorf("the process ends: %s", *text)
	}
}
