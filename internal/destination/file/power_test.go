package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// A machine loses its power at a chosen step. The synced data of the database and of the file
// remains, and any part of the rest.
type machine struct {
	t       *testing.T
	random  *rand.Rand
	path    string
	disk    *vfs.MemFS
	synced  []byte // the synced content of the file
	cut     int    // steps until the power fails
	remains *remains
}

type remains struct {
	disk  *vfs.MemFS
	file  []byte
	owner []byte // nil if it is not there
}

// step is a moment at which the power can fail.
func (m *machine) step() {
	if m.cut--; m.cut != 0 {
		return
	}
	file := m.read()
	if keep := len(m.synced); len(file) > keep {
		file = file[:keep+m.random.IntN(len(file)-keep+1)]
		for i := keep; i < len(file); i++ {
			if m.random.IntN(4) == 0 {
				file[i] = 0 // a page that was not written
			}
		}
	} else {
		file = m.synced // the truncation may not have been written
	}
	clone := m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: m.random.IntN(101), RNG: m.random})
	owner, err := os.ReadFile(signatureOf(m.path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	m.remains = &remains{clone, file, owner}
}

func (m *machine) read() []byte {
	content, err := os.ReadFile(m.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	return content
}

func (m *machine) open(path string, flag int) (handle, error) {
	h, err := openFile(path, flag)
	if err != nil {
		return nil, err
	}
	return &faulty{
		handle: h,
		writeAt: func(h handle, p []byte, at int64) (int, error) {
			m.step()
			n, err := h.WriteAt(p, at)
			m.step()
			return n, err
		},
		sync: func(h handle) error {
			m.step()
			err := h.Sync()
			m.synced = m.read()
			m.step()
			return err
		},
	}, nil
}

// run publishes numbers until all are written or the power fails. It reports whether all are.
func (m *machine) run(numbers uint64) bool {
	db, err := pebbledb.Open("db", &pebble.Options{FS: m.disk})
	if err != nil {
		m.t.Fatal(err)
	}
	now := time.Now()
	hastening := func() time.Time { now = now.Add(noteEvery / 3); return now }
	s, err := Open(db, m.path, Options{open: m.open, Now: hastening})
	if err != nil {
		m.t.Fatal(err)
	}
	key := []byte{pebbledb.Groups}
	done, err := load(db, key)
	for done < numbers && err == nil && m.remains == nil {
		batch := []record.Delivery{named(fmt.Sprintf("g/%d", done+1)), named(fmt.Sprintf("x%d", done+1))}
		err = errors.Join(s.Send(m.t.Context(), batch)...)
		m.step()
		if err == nil {
			done++
			err = db.Set(key, binary.BigEndian.AppendUint64(nil, done), &pebble.WriteOptions{Sync: m.random.IntN(3) == 0})
		}
		m.step()
	}
	if err = errors.Join(err, s.Close(), db.Close()); err != nil {
		m.t.Fatal(err)
	}
	return done == numbers && m.remains == nil
}

// reboot restarts the machine with the remaining data.
func (m *machine) reboot() {
	err := os.RemoveAll(signatureOf(m.path))
	if owner := m.remains.owner; owner != nil {
		err = os.WriteFile(signatureOf(m.path), owner, 0o644)
	}
	m.disk, m.synced, m.remains = m.remains.disk, m.remains.file, nil
	if err = errors.Join(err, os.WriteFile(m.path, m.synced, 0o644)); err != nil {
		m.t.Fatal(err)
	}
}

func TestEachLineIsThereOnceAfterPowerFailures(t *testing.T) {
	const numbers = 60
	for seed := range uint64(10) {
		m := &machine{
			t: t, random: rand.New(rand.NewPCG(seed, 1)), disk: vfs.NewCrashableMem(),
			path: filepath.Join(t.TempDir(), "out.jsonl"),
		}
		// a file's name is durable before anything is written to it
		if err := os.WriteFile(m.path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		m.cut = 1 + m.random.IntN(20)
		for !m.run(numbers) {
			m.reboot()
			m.cut = 1 + m.random.IntN(60)
		}
		want := ""
		for n := range numbers {
			want += line(fmt.Sprintf("g/%d", n+1)) + line(fmt.Sprintf("x%d", n+1))
		}
		if got := string(m.read()); got != want {
			t.Errorf("seed %d: got %d bytes, want %d", seed, len(got), len(want))
		}
	}
}
