package pebbledb_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/record"
)

// commits writes versions 1 to n of one group, each durable when the next begins.
func commits(t *testing.T, store record.Store, n int) {
	t.Helper()
	g := record.Group{Key: record.GroupKey{Stream: "s", Group: "g"}, Incarnation: 1}
	for range n {
		next := g
		next.Version++
		if err := store.Commit(t.Context(), record.Commit{Loaded: g, Next: next}); err != nil {
			t.Fatal(err)
		}
		g = next
	}
}

// TestALogThatLostItsEndIsAnErrorOrAnEarlierState damages synced data, as no disk
// should. If the database can still be opened, it is in a state that existed before.
func TestALogThatLostItsEndIsAnErrorOrAnEarlierState(t *testing.T) {
	const versions = 30
	fs := vfs.NewCrashableMem()
	db, err := pebbledb.Open("data", &pebble.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	commits(t, pebblestore.New(db, pebblestore.Options{}), versions)
	rng := rand.New(rand.NewPCG(5, 6))
	refused, whole, cut := 0, 0, 0
	for range 60 {
		disk := fs.CrashClone(vfs.CrashCloneCfg{})
		log := lastLog(t, disk)
		data := read(t, disk, log)
		at := rng.IntN(len(data))
		switch rng.IntN(3) {
		case 0:
			data = data[:at]
		case 1:
			data[at] ^= 1 << rng.IntN(8)
		default:
			clear(data[at:])
		}
		write(t, disk, log, data)
		version, err := reopened(t, disk)
		switch {
		case err != nil && !errors.Is(err, pebble.ErrCorruption):
			t.Errorf("not said to be corrupt: %v", err)
		case err != nil:
			refused++
		case version == versions:
			whole++
		default:
			cut++
		}
	}
	t.Logf("%d refused, %d whole, %d of an earlier version", refused, whole, cut)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func reopened(t *testing.T, fs vfs.FS) (version uint64, err error) {
	t.Helper()
	db, err := pebbledb.Open("data", &pebble.Options{FS: fs})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	groups, _, err := pebblestore.New(db, pebblestore.Options{}).Load(t.Context(), []record.GroupKey{{Stream: "s", Group: "g"}}, nil)
	if err != nil {
		return 0, err
	}
	return groups[0].Version, nil
}

// refusing returns a file system that fails every write.
func refusing(with error) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return with
		}
		return nil
	}))
}

func TestAnUnwritableFolderIsAnErrorThatNamesIt(t *testing.T) {
	for _, refusal := range []error{syscall.EROFS, syscall.EACCES, syscall.ENOSPC} {
		_, err := pebbledb.Open("data", &pebble.Options{FS: refusing(refusal)})
		if !errors.Is(err, refusal) || !strings.HasPrefix(err.Error(), "open database data: ") {
			t.Errorf("%v: got %v", refusal, err)
		}
	}
}

func TestADatabaseThatBecameReadOnlyIsAnErrorAndIsNotChanged(t *testing.T) {
	fs := vfs.NewMem()
	db, err := pebbledb.Open("data", &pebble.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	commits(t, pebblestore.New(db, pebblestore.Options{}), 3)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	locked := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
			return syscall.EROFS
		}
		return nil
	}))
	if _, err := pebbledb.Open("data", &pebble.Options{FS: locked}); !errors.Is(err, syscall.EROFS) {
		t.Errorf("opened for writing: %v", err)
	}
	if version, err := reopened(t, fs); version != 3 || err != nil {
		t.Errorf("version %d, %v", version, err)
	}
}

// A quota is a disk with a limited number of operations that take space.
type quota struct {
	left atomic.Int64
	full error
}

// MaybeError is called by errorfs before each operation. It counts the operations that take space.
func (q *quota) MaybeError(op errorfs.Op) error {
	space := []errorfs.OpKind{errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpReuseForWrite, errorfs.OpMkdirAll, errorfs.OpFilePreallocate}
	if slices.Contains(space, op.Kind) && q.left.Add(-1) < 0 {
		return q.full
	}
	return nil
}

const fullDisk = "ONCE_TEST_FULL_DISK"

// fill writes to a database until its disk is full, and prints the acknowledged versions and
// messages.
func fill(dir, left string) {
	n, err := strconv.ParseInt(left, 10, 64)
	if err != nil {
		panic(err)
	}
	q := &quota{full: &os.PathError{Op: "write", Path: dir, Err: syscall.ENOSPC}}
	q.left.Store(n)
	db, err := pebbledb.Open(dir, &pebble.Options{FS: errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(q.MaybeError)), MemTableSize: 64 << 10})
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	store := pebblestore.New(db, pebblestore.Options{})
	in, err := pebblequeue.Open(db, "in", pebblequeue.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() { fillOne(store, in, fmt.Sprint(w)) })
	}
	writers.Wait()
	os.Exit(1)
}

// fillOne commits to one group and sends to the queue, in turns, until an error.
func fillOne(store record.Store, in *pebblequeue.Queue, name string) {
	key := record.GroupKey{Stream: "s", Group: name}
	groups, _, err := store.Load(context.Background(), []record.GroupKey{key}, nil)
	for err == nil {
		next := groups[0]
		next.Incarnation, next.Version, next.State = 1, next.Version+1, make([]byte, 500)
		if err = store.Commit(context.Background(), record.Commit{Loaded: groups[0], Next: next}); err != nil {
			break
		}
		fmt.Printf("version %s %d\n", name, next.Version)
		groups[0] = next
		body := fmt.Sprint(name, "-", next.Version)
		if err = in.Send(context.Background(), []queue.Message{{Body: body}})[0].Err; err == nil {
			fmt.Printf("sent %s\n", body)
		}
	}
	fmt.Fprintln(os.Stderr, "child:", err)
}

// told is the output of a child process up to the moment when its disk was full.
type told struct {
	versions map[string]uint64
	sent     map[string]bool
}

func (a *told) listen(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var name string
		var version uint64
		if n, _ := fmt.Sscanf(lines.Text(), "version %s %d", &name, &version); n == 2 {
			a.versions[name] = max(a.versions[name], version)
		} else if body, ok := strings.CutPrefix(lines.Text(), "sent "); ok {
			a.sent[body] = true
		}
	}
}

// TestNothingAcknowledgedIsLostWhenTheDiskWasFull runs processes until the disk is full, at any
// operation, and checks their data once there is space again.
func TestNothingAcknowledgedIsLostWhenTheDiskWasFull(t *testing.T) {
	if dir := os.Getenv(fullDisk); dir != "" {
		fill(dir, os.Getenv(fullDisk+"_LEFT"))
	}
	dir := filepath.Join(t.TempDir(), "db")
	a := &told{versions: map[string]uint64{}, sent: map[string]bool{}}
	rng := rand.New(rand.NewPCG(9, 9))
	for run := range 12 {
		// a process that continues silently would not fail by itself
		limit, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		child := exec.CommandContext(limit, os.Args[0], "-test.run=^TestNothingAcknowledged")
		child.Env = append(os.Environ(), fullDisk+"="+dir, fmt.Sprint(fullDisk+"_LEFT=", rng.IntN(20+run*40)))
		var said strings.Builder
		child.Stderr = &said
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		a.listen(out)
		if err := child.Wait(); err == nil {
			t.Fatal("the child ended well")
		}
		if text := said.String(); strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") || !strings.Contains(text, "no space left on device") {
			t.Fatalf("run %d: what it says is not clear: %s", run, text)
		}
	}
	a.check(t, dir)
}

func (a *told) check(t *testing.T, dir string) {
	t.Helper()
	db, err := pebbledb.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := pebblestore.New(db, pebblestore.Options{Now: time.Now})
	for name, version := range a.versions {
		groups, _, err := store.Load(t.Context(), []record.GroupKey{{Stream: "s", Group: name}}, nil)
		if err != nil || groups[0].Version < version {
			t.Errorf("group %s: version %d, %v; %d was acknowledged", name, groups[0].Version, err, version)
		}
	}
	in, err := pebblequeue.Open(db, "in", pebblequeue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	there, err := in.Peek(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d messages and %d groups were acknowledged, %d messages are there", len(a.sent), len(a.versions), len(there))
	for _, d := range there {
		delete(a.sent, d.Body)
	}
	if len(a.sent) > 0 || len(a.versions) == 0 {
		t.Errorf("acknowledged and lost: %v", a.sent)
	}
	if err := errors.Join(in.Close(), db.Close()); err != nil {
		t.Error(err)
	}
}

// TestAStartOnAFullDiskIsAnError starts a database whose logs must be converted to tables, without
// space for them.
func TestAStartOnAFullDiskIsAnError(t *testing.T) {
	disk := vfs.NewCrashableMem()
	db, err := pebbledb.Open("data", &pebble.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	commits(t, pebblestore.New(db, pebblestore.Options{}), 3)
	killed := disk.CrashClone(vfs.CrashCloneCfg{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	full := errorfs.Wrap(killed, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".sst") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	}))
	if _, err := pebbledb.Open("data", &pebble.Options{FS: full}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("opened: %v", err)
	}
	if version, err := reopened(t, killed.CrashClone(vfs.CrashCloneCfg{})); version != 3 || err != nil {
		t.Errorf("with room again: version %d, %v", version, err)
	}
}

func TestADatabaseOpenedReadOnlyIsNotChanged(t *testing.T) {
	disk := vfs.NewCrashableMem()
	if _, err := pebbledb.Open("data", &pebble.Options{FS: disk, ReadOnly: true}); err == nil {
		t.Error("opened where nothing is")
	}
	db, err := pebbledb.Open("data", &pebble.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	commits(t, pebblestore.New(db, pebblestore.Options{}), 3)
	killed := disk.CrashClone(vfs.CrashCloneCfg{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := killed.String()
	readOnly, err := pebbledb.Open("data", &pebble.Options{FS: killed, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	groups, _, err := pebblestore.New(readOnly, pebblestore.Options{}).Load(t.Context(), []record.GroupKey{{Stream: "s", Group: "g"}}, nil)
	if err != nil || groups[0].Version != 3 {
		t.Errorf("version %d, %v", groups[0].Version, err)
	}
	if err := readOnly.Close(); err != nil {
		t.Error(err)
	}
	if after := killed.String(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}
