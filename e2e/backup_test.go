package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A backedUp is a system that is backed up while it works and is killed.
type backedUp struct {
	*server
	r       *receiver
	backups []string // the complete ones
	cut     int      // how many were not completed
	tried   atomic.Int64
}

// backUp makes backups until the context ends. It kills the server during every third one, and
// restarts it after that: without a server, the command opens the data folder itself.
func (b *backedUp) backUp(ctx context.Context, t *testing.T, random *rand.Rand) error {
	for n := 1; ctx.Err() == nil; n++ {
		name, made := "backup"+strconv.Itoa(n), make(chan error, 1)
		go func() {
			_, err := b.once("backup", name)
			made <- err
		}()
		kill := n%3 == 0
		if kill {
			_ = sleep(ctx, time.Duration(random.IntN(100))*time.Millisecond) // the server is killed in any case
			if err := b.kill(); err != nil {
				return err
			}
		}
		err := <-made
		b.tried.Add(1)
		switch {
		case err == nil:
			b.backups = append(b.backups, name)
		case !kill:
			return err
		default:
			b.cut++
			t.Logf("cut: %v", err)
		}
		if kill {
			if err := b.start(); err != nil {
				return err
			}
		}
		_ = sleep(ctx, 20*time.Millisecond) // the loop looks at the context
	}
	return nil
}

// lines counts the lines of an output file by the keys of their messages.
func (b *backedUp) lines(t *testing.T, name string) map[string]int {
	t.Helper()
	list, err := readLines(b.path(name))
	must(t, err)
	counts := map[string]int{}
	for _, l := range list {
		counts[l.ID]++
	}
	return counts
}

// TestABackupOfABusySystemIsTheSystemAtOneMoment backs a system up while it works and is killed,
// restores a backup, and sends everything again. The output file of the backup then gets exactly
// the lines that it lacks, and the webhook of no message that the backup knew comes under another
// identity.
func TestABackupOfABusySystemIsTheSystemAtOneMoment(t *testing.T) {
	random := newRandom(t)
	r := newReceiver(t, 0.05)
	config := fmt.Sprintf("streams:\n  orders: {destinations: [out, hook]}\ndestinations:\n  out: {file: out.jsonl}\n  hook: {webhook: %q, secret: env:E2E_WEBHOOK_SECRET, %s}\n", r.url, quickRetry)
	b := &backedUp{server: newServer(t, onceBinary, config), r: r}
	b.env = []string{r.env()}
	must(t, b.start())
	load := make([]sent, *messages)
	for i := range load {
		load[i] = sent{id: fmt.Sprint("m", i), group: fmt.Sprint("g", random.IntN(20)), contentType: "text/plain", body: []byte(strconv.Itoa(i))}
	}
	sender := newHTTPSender(t, b.url(), "orders")
	busy, idle := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- b.backUp(busy, t, rand.New(rand.NewPCG(random.Uint64(), 0))) }()
	for part := range slices.Chunk(load, max(1, len(load)/10)) { // on a fast machine, too, backups are made in between
		concurrently(busy, t, 16, part, sender.send)
		before := b.tried.Load()
		await(t, "a backup", func() (bool, error) { return b.tried.Load() > before || len(failed) > 0, nil })
	}
	idle()
	must(t, <-failed)
	if len(b.backups) < 3 {
		t.Fatalf("%d backups", len(b.backups))
	}
	for _, name := range b.backups {
		if out, err := b.once("verify", name); err != nil {
			t.Errorf("%s: %s %v", name, out, err)
		}
	}

	which := b.backups[len(b.backups)/2]
	must(t, b.stop(), os.RemoveAll(b.path(".once")), os.Remove(b.path("out.jsonl")), os.Remove(b.path(".out.jsonl.owner")))
	before, _ := r.seen()
	_, err := b.once("restore", which)
	must(t, err)
	known := b.lines(t, "out.jsonl")
	must(t, b.start())
	concurrently(t.Context(), t, 16, load, sender.send)
	await(t, "an idle system", func() (bool, error) {
		s, err := b.stats()
		return s.Idle, err
	})
	lines := b.lines(t, "out.jsonl")
	for _, m := range load {
		if n := lines[m.id]; n != 1 {
			t.Errorf("%s has %d lines", m.id, n)
		}
	}
	b.judge(t, known, before)
	t.Logf("%d messages, %d in the backup, %d backups, %d cut", len(load), len(known), len(b.backups), b.cut)
	if len(known) == 0 || len(known) == len(load) {
		t.Errorf("the backup has %d of %d messages: nothing was restored in the middle", len(known), len(load))
	}
}

// judge checks that each message that the backup knew has one identity.
func (b *backedUp) judge(t *testing.T, known map[string]int, before []post) {
	t.Helper()
	posts, problems := b.r.seen()
	if len(problems) > 0 {
		t.Errorf("problems of the receiver: %q", problems)
	}
	if len(posts) <= len(before) {
		t.Errorf("%d webhooks before the restore, %d in all", len(before), len(posts))
	}
	ids, all := map[string]map[string]bool{}, map[string]string{}
	for _, p := range posts {
		if ids[p.id] == nil {
			ids[p.id] = map[string]bool{}
		}
		ids[p.id][p.webhookID] = true
		if other := all[p.webhookID]; other != "" && other != p.id {
			t.Errorf("%s is the identity of %s and of %s", p.webhookID, other, p.id)
		}
		all[p.webhookID] = p.id
	}
	for id := range known {
		if len(ids[id]) != 1 {
			t.Errorf("%s was known to the backup, and came under %d identities", id, len(ids[id]))
		}
	}
}

// A cutShort is a backup, and commands that are killed at each of their steps.
type cutShort struct {
	*server
	*testing.T
}

func newCutShort(t *testing.T) *cutShort {
	t.Helper()
	c := &cutShort{newServer(t, crashBinary, "streams: {orders: {}}\n"), t}
	must(t, c.start(), c.stop())
	_, err := c.once("backup", "copy", "--data", ".once")
	must(t, err)
	return c
}

// at runs a command that is killed at a step, and reports whether it came there.
func (c *cutShort) at(step int, args ...string) bool {
	c.Helper()
	c.env = []string{"ONCE_CRASH_RESTORE=" + strconv.Itoa(step)}
	_, err := c.once(args...)
	c.env = nil
	if err != nil && !strings.Contains(err.Error(), "signal: killed") {
		c.Fatal(err)
	}
	return err != nil
}

// opened opens a folder as a repair does, if it is not refused with one of the texts, and reports
// whether it was. It then has one stamp.
func (c *cutShort) opened(dir string, refusals ...string) bool {
	c.Helper()
	if _, err := c.once("sweep", "--data", dir); err != nil {
		if !slices.ContainsFunc(refusals, func(text string) bool { return strings.Contains(err.Error(), text) }) {
			c.Error(err)
		}
		return false
	}
	var origin struct {
		Restores []struct{ Stamped bool }
		Restored string
	}
	text, err := os.ReadFile(c.path(filepath.Join(dir, "restored.json")))
	must(c.T, err, json.Unmarshal(text, &origin))
	if len(origin.Restores) != 1 || !origin.Restores[0].Stamped || origin.Restored != "" {
		c.Errorf("%s was opened with %s", dir, text)
	}
	return true
}

func (c *cutShort) empty(dir string) { c.Helper(); must(c.T, os.RemoveAll(c.path(dir))) }

// TestABackupIsNeverOpenedWithoutAStampWhereverItsRestoreIsKilled also removes the folder
// .unfinished, as somebody may who wants to start.
func TestABackupIsNeverOpenedWithoutAStampWhereverItsRestoreIsKilled(t *testing.T) {
	c := newCutShort(t)
	steps, opened := 0, 0
	for n := 1; c.at(n, "restore", "copy", "--data", "target"); n++ {
		steps++
		again := filepath.Join("again", strconv.Itoa(n))
		must(t, os.CopyFS(c.path(again), os.DirFS(c.path("target"))))
		if c.opened("target", "is not a data folder", "was interrupted") {
			opened++
		}
		must(t, os.RemoveAll(c.path("target/.unfinished")))
		c.opened("target", "is not a data folder")
		if _, err := c.once("restore", "copy", "--data", again); err == nil {
			c.opened(again)
		} else if !strings.Contains(err.Error(), "is not empty") {
			t.Error(err)
		}
		c.empty("target")
	}
	if !c.opened("target") || steps < 20 || opened == steps {
		t.Errorf("%d steps, of which %d left a whole folder", steps, opened)
	}
}

func TestABackupThatWasRestoredHasOneStampWhereverItsFirstStartIsKilled(t *testing.T) {
	c := newCutShort(t)
	steps := 0
	for n := 1; ; n++ {
		_, err := c.once("restore", "copy", "--data", "target")
		must(t, err)
		if !c.at(n, "sweep", "--data", "target") {
			break
		}
		steps++
		c.opened("target")
		c.empty("target")
	}
	if c.opened("target"); steps < 3 {
		t.Errorf("%d steps", steps)
	}
}

func TestABackupThatIsCopiedByHandIsRefusedOrStampedWhereverItsStampIsKilled(t *testing.T) {
	c := newCutShort(t)
	steps := 0
	for n := 1; ; n++ {
		must(t, os.CopyFS(c.path("target"), os.DirFS(c.path("copy/data"))))
		if c.opened("target", "run once restore --stamp target") {
			t.Error("opened without a stamp")
		}
		if !c.at(n, "restore", "--stamp", "target") {
			break
		}
		steps++
		if !c.opened("target", "run once restore --stamp target") {
			_, err := c.once("restore", "--stamp", "target")
			must(t, err)
			c.opened("target")
		}
		c.empty("target")
	}
	if !c.opened("target") || steps < 3 {
		t.Errorf("%d steps", steps)
	}
	if _, err := os.Stat(c.path("target/restored.json.unfinished")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
}
