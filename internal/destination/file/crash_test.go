package file

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/pebbledb/presence"
	"github.com/effectively-once/once/internal/record"
)

// The deliveries that the killed process writes: groups of numbered ones and as many without a
// number.
const (
	crashFolder  = "ONCE_TEST_CRASH_FOLDER"
	crashGroups  = 8
	crashNumbers = 250
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashFolder); dir != "" {
		if err := publishUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestEachLineIsThereOnceAfterKillsAtRandomMoments(t *testing.T) {
	dir := t.TempDir()
	kills := 0
	for killed(t, dir) {
		kills++
	}
	t.Logf("killed %d times", kills)
	if kills < 10 {
		t.Errorf("killed only %d times", kills)
	}
	content, err := os.ReadFile(filepath.Join(dir, "out.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(content), "\n")
	if got, want := len(lines)-1, 2*crashGroups*crashNumbers; got != want {
		t.Errorf("%d lines, want %d", got, want)
	}
	count := map[string]int{}
	next := map[int]int{}
	for _, l := range lines {
		count[l]++
		for g := range crashGroups {
			if l == line(fmt.Sprintf("g%d/%d", g, next[g]+1)) {
				next[g]++
			}
		}
	}
	for g := range crashGroups {
		if next[g] != crashNumbers {
			t.Errorf("group %d is in order up to number %d", g, next[g])
		}
		for n := range crashNumbers {
			if c := count[line(fmt.Sprintf("x%d-%d", g, n+1))]; c != 1 {
				t.Errorf("x%d-%d is there %d times", g, n+1, c)
			}
		}
	}
}

// killed runs the publisher, kills it after some of its steps, and reports false when it had
// finished before.
func killed(t *testing.T, dir string) bool {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", crashFolder+"="+dir)
	c.Stderr = os.Stderr
	steps, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = io.CopyN(io.Discard, steps, rand.Int64N(100))
	if errors.Is(err, io.EOF) {
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		return false
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // "signal: killed"
	return true
}

// publishUntilKilled sends the deliveries that the database does not mark as done, and, like the
// engine, marks them without syncing. It prints a byte after each step.
func publishUntilKilled(dir string) error {
	db, err := pebbledb.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		return err
	}
	known := presence.New(db, pebbledb.Files)
	s, err := Open(db, filepath.Join(dir, "out.jsonl"), Options{Presence: known})
	if err != nil {
		return err
	}
	var groups sync.WaitGroup
	filled := make(chan error, 1)
	go func() { filled <- known.Fill(context.Background()) }()
	failed := make(chan error, crashGroups)
	for g := range crashGroups {
		groups.Go(func() { failed <- publishGroup(db, s, g) })
	}
	groups.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	return errors.Join(err, <-filled, s.Close(), db.Close())
}

func publishGroup(db *pebble.DB, s *Sender, g int) error {
	key := append([]byte{pebbledb.Groups}, byte(g))
	steps := bufio.NewWriterSize(os.Stdout, 1)
	done, err := load(db, key)
	for n := done + 1; n <= crashNumbers && err == nil; {
		batch := []record.Delivery{}
		last := min(n+rand.Uint64N(4), crashNumbers)
		for ; n <= last; n++ {
			batch = append(batch, named(fmt.Sprintf("g%d/%d", g, n)), named(fmt.Sprintf("x%d-%d", g, n)))
		}
		err = errors.Join(s.Send(context.Background(), batch)...)
		if err == nil {
			err = db.Set(key, binary.BigEndian.AppendUint64(nil, last), &pebble.WriteOptions{Sync: rand.IntN(10) == 0})
		}
		if err == nil {
			_, err = steps.WriteString("..")
		}
	}
	return err
}

func load(db *pebble.DB, key []byte) (uint64, error) {
	value, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer closer.Close()
	return binary.BigEndian.Uint64(value), nil
}
