package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/testkit/eventually"
)

// number is the start of a loop of a shell that reads an entry a time, with its number in $n.
const number = `while read -r n; do `

// A working is a command under test, and the numbers that it has acknowledged.
type working struct {
	*worker
	t         *testing.T
	committed []uint64
}

func newWorker(t *testing.T, line string) *working {
	t.Helper()
	w, err := startWorker(t.Context(), line, []string{"ONCE_FENCE=8"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return &working{worker: w, t: t}
}

// give passes the command the entries from a number to another.
func (w *working) give(first, last uint64, silence time.Duration) error {
	w.t.Helper()
	var lines []numbered
	for n := first; n <= last; n++ {
		lines = append(lines, numbered{n, fmt.Appendln(nil, n)})
	}
	for w.acked < last {
		before := w.acked
		if err := w.process(w.t.Context(), lines, silence); err != nil || w.acked > before {
			if w.acked > before {
				w.committed = append(w.committed, w.acked)
			}
			if err != nil {
				return err
			}
		}
		if lines != nil && w.worker.last == last {
			lines = nil
		}
	}
	return nil
}

func (w *working) last() uint64 {
	if len(w.committed) == 0 {
		return 0
	}
	return w.committed[len(w.committed)-1]
}

func TestACommandGetsEntriesAndAcknowledgesThemInOrder(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	w := newWorker(t, number+`echo "$n $ONCE_FENCE" >> `+out+`; echo $n; done; echo end >> `+out)
	for first := uint64(1); first < 100; first += 20 {
		if err := w.give(first, first+19, time.Minute); err != nil || w.last() != first+19 {
			t.Fatalf("%v, committed %v", err, w.committed)
		}
	}
	if err := w.stop(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	if !slices.IsSorted(w.committed) {
		t.Errorf("committed %v", w.committed)
	}
	text, err := os.ReadFile(out)
	if err != nil || !strings.HasPrefix(string(text), "1 8\n2 8\n") || !strings.HasSuffix(string(text), "\n100 8\nend\n") {
		t.Errorf("%v %s", err, text)
	}
}

func TestOneLineAcknowledgesAllEntriesBefore(t *testing.T) {
	w := newWorker(t, number+`[ $n != 50 ] || echo $n; done`)
	if err := w.give(1, 50, time.Minute); err != nil || !slices.Equal(w.committed, []uint64{50}) {
		t.Errorf("%v, committed %v", err, w.committed)
	}
	w.end()
}

func TestAnEntryIsTriedAgainIfItsCommandFailsOrDies(t *testing.T) {
	for line, want := range map[string]triedError{
		number + `if [ $n = 3 ]; then echo fail 3 no stock; else echo $n; fi; done`: {3, "no stock", true},
		number + `echo fail 3; done`:                 {3, "the command reported no reason", true},
		`read -r n; read -r n; echo 2`:               {3, "the command ended: exit status 0", false},
		`read -r n; read -r n; echo 2; exit 7`:       {3, "the command ended: exit status 7", false},
		`read -r n; read -r n; echo 2; kill -9 $$`:   {3, "the command ended: signal: killed", false},
		`read -r n; read -r n; echo 2; exec cat >&-`: {3, "the command ended: exit status 1", false},
	} {
		w := newWorker(t, line)
		err := w.give(1, 9, time.Minute)
		if tried, ok := errors.AsType[*triedError](err); !ok || *tried != want || w.last() != 2 {
			t.Errorf("%s: %v, committed %v, want %v", line, err, w.committed, want)
		}
		w.end()
	}
}

func TestAnEntryIsTriedAgainIfItsCommandIsSilent(t *testing.T) {
	w := newWorker(t, `read -r n; echo $n; exec sleep 1000`)
	if err := w.give(1, 1, time.Minute); err != nil {
		t.Fatal(err)
	}
	err := w.give(2, 9, 50*time.Millisecond)
	if tried, ok := errors.AsType[*triedError](err); !ok || *tried != (triedError{number: 2, detail: "the command acknowledged nothing for 50ms"}) {
		t.Error(err)
	}
	w.end()
}

func TestACommandThatBreaksTheProtocolIsNotTriedAgain(t *testing.T) {
	for line, want := range map[string]string{
		`read -r n; echo 1; echo hello`:                               `the command printed "hello" on its standard output`,
		`read -r n; echo 1; echo 2 apples`:                            `the command printed "2 apples" on its standard output`,
		`read -r n; echo 1; echo -2`:                                  `the command printed "-2" on its standard output`,
		`read -r n; echo 1; echo 10`:                                  `the command reported entry 10, and has got none after 9`,
		`read -r n; echo 1; echo fail 1 no`:                           `entry 1 failed after it had acknowledged 1`,
		`read -r n; echo 1; exec head -c 70000 /dev/zero | tr '\0' 1`: `a line of more than 65536 bytes`,
		`read -r n; echo 1; exec /does/not/exist`:                     `the shell can't run the command: exit status 127`,
	} {
		w := newWorker(t, line)
		err := w.give(1, 9, time.Minute)
		if broken, ok := errors.AsType[*reportError](err); !ok || !strings.Contains(broken.Error(), want) || w.last() != 1 {
			t.Errorf("%s: %v, committed %v", line, err, w.committed)
		}
		w.end()
	}
}

func TestAnInterruptedCommandFinishesTheEntriesThatItHas(t *testing.T) {
	dir := t.TempDir()
	// The command says when it has an entry, and acknowledges it when its input has ended.
	w := newWorker(t, `read -r n; : > `+dir+`/got; while read -r m; do n=$m; done; echo $n`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		eventually.Succeeds(t, func() error { _, err := os.Stat(dir + "/got"); return err })
	}()
	if err := w.process(ctx, []numbered{{1, []byte("1\n")}, {2, []byte("2\n")}}, time.Minute); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := w.stop(t.Context(), time.Minute); err != nil || w.acked == 0 {
		t.Errorf("%v, acknowledged %d", err, w.acked)
	}
}

func TestACommandThatDoesNotEndIsKilledWithAllThatItStarted(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w, err := startWorker(t.Context(), `(trap '' TERM; echo started >&2; sleep 1000) & sleep 1000`, nil, writer)
	if err := errors.Join(err, writer.Close()); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 100)
	if n, err := reader.Read(said); err != nil || string(said[:n]) != "started\n" {
		t.Fatal(err, string(said[:n]))
	}
	if err := w.stop(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
	if n, err := reader.Read(said); n > 0 || !errors.Is(err, io.EOF) { // no process has the other end
		t.Error(n, err)
	}
}

func TestACommandThatDoesNotReadCanBeEnded(t *testing.T) {
	w := newWorker(t, `exec sleep 1000`)
	big := make([]byte, 1<<20) // more than a pipe holds
	err := w.process(t.Context(), []numbered{{1, big}}, 50*time.Millisecond)
	if tried, ok := errors.AsType[*triedError](err); !ok || tried.number != 1 {
		t.Error(err)
	}
	w.end()
}

func TestACommandWithAStoreOfItsOwnBeginsWithItsNumber(t *testing.T) {
	for line, want := range map[string]string{
		`echo 17; cat`: "", `exit 3`: "exit status 3 before it printed the number", `echo hello`: `printed "hello"`,
		`echo fail 3`: "before it got an entry", `exec sleep 1000`: "printed no number within",
	} {
		silence := time.Minute
		if strings.Contains(want, "within") {
			silence = 10 * time.Millisecond
		}
		w := newWorker(t, line)
		n, err := w.first(t.Context(), silence)
		if want == "" && (n != 17 || err != nil) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %d, %v", line, n, err)
		}
		w.end()
	}
}

// A process that has left the group of the command keeps its input, its output and its error output
// open, and reads nothing.
func TestACommandWhoseDescendantsKeepItsPipesOpenIsStopped(t *testing.T) {
	for name, stop := range map[string]func(w *worker) error{
		"killed":           func(w *worker) error { w.end(); return nil },
		"stopped":          func(w *worker) error { return w.stop(t.Context(), time.Millisecond) },
		"stopped for ever": func(w *worker) error { return w.stop(t.Context(), 0) },
		"the context ends": func(w *worker) error { ctx, cancel := context.WithCancel(t.Context()); cancel(); return w.stop(ctx, 0) },
		"ended by itself":  func(w *worker) error { return w.died() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			last := "sleep 1000"
			if name != "killed" && name != "stopped" && name != "the context ends" {
				last = "exit 3"
			}
			var errs strings.Builder // a pipe of exec.Cmd
			w, err := startWorker(t.Context(), `exec 3<&0; setsid sh -c 'echo $$ > `+pid+`; exec sleep 1000' <&3 & while [ ! -s `+pid+` ]; do :; done; `+last, nil, &errs)
			if err != nil {
				t.Fatal(err)
			}
			defer endProcess(t, pid)
			awaitText(t, "\n", func() string { text, _ := os.ReadFile(pid); return string(text) })
			if last != "exit 3" {
				big := make([]byte, 1<<20) // more than a pipe holds
				if err := w.process(t.Context(), []numbered{{1, big}}, 50*time.Millisecond); err == nil {
					t.Fatal("the entry is acknowledged")
				}
			}
			ended := make(chan error, 1)
			go func() { ended <- stop(w) }()
			select {
			case err := <-ended:
				if _, tried := errors.AsType[*triedError](err); err != nil && !tried {
					t.Error(err)
				}
			case <-time.After(30 * time.Second):
				t.Error("it does not end")
			}
		})
	}
}

// endProcess ends the process whose id is in a file.
func endProcess(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Error(err)
	}
}
