package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/shell"
)

// workerGrace is how long a command may run on after its standard input was closed because consume
// was interrupted.
const workerGrace = 10 * time.Second

// leftTime is how long the outputs of a command are read after its end: a process that it has left
// running may keep them open.
const leftTime = time.Second

// maxReport is the longest line that a command may print on its standard output, in bytes.
const maxReport = 64 << 10

// A worker is a command that gets entries as JSON lines on its standard input, and reports on its
// standard output which of them are processed. Its methods are for one goroutine.
type worker struct {
	cmd     *exec.Cmd
	in, out *os.File
	input   chan [][]byte // lines, to the goroutine that writes the standard input
	ending  chan struct{} // closed when no further line is to be written
	written chan struct{}
	reports chan report // closed when the standard output ends
	read    chan struct{}
	exited  chan struct{} // closed when the command has ended, and all its reports were received
	// acked is the number up to which everything is acknowledged, and last the last number that the
	// command got.
	acked, last uint64
}

// A numbered line is an entry for a command.
type numbered struct {
	number uint64
	line   []byte
}

// A report is one line of a command's standard output.
type report struct {
	number uint64
	failed bool   // the entry with the number was not processed, because of detail
	detail string // the command's reason
	err    error  // the line is no report
}

// A triedError says that an entry was not processed, and why. If the command has reported so, it is
// certain; if the command ended or was silent, it may have done the work without reporting it.
type triedError struct {
	number   uint64
	detail   string
	reported bool
}

func (e *triedError) Error() string { return fmt.Sprintf("entry %d: %s", e.number, e.detail) }

// A reportError says that a command broke the protocol. To try it again would not help.
type reportError struct{ text string }

func (e *reportError) Error() string { return e.text }

// startWorker runs a command line in a shell. The command is the leader of a process group, so that
// an interrupt of the terminal does not end it in the middle of an entry.
func startWorker(ctx context.Context, line string, env []string, stderr io.Writer) (*worker, error) {
	w := &worker{
		input: make(chan [][]byte), ending: make(chan struct{}), written: make(chan struct{}),
		reports: make(chan report), read: make(chan struct{}), exited: make(chan struct{}),
	}
	// It outlives the context: stop decides when it ends.
	w.cmd = shell.Command(context.WithoutCancel(ctx), line)
	w.cmd.Env = append(os.Environ(), env...)
	w.cmd.Stderr, w.cmd.WaitDelay = stderr, leftTime
	in, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start command: %w", err)
	}
	reader, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start command: %w", err), in.Close(), writer.Close())
	}
	w.cmd.Stdin, w.cmd.Stdout, w.in, w.out = in, out, writer, reader
	err = w.cmd.Start()
	_, _ = in.Close(), out.Close() // the command has its own
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start command: %w", err), reader.Close(), writer.Close())
	}
	go w.write()
	go w.readReports()
	go w.wait()
	return w, nil
}

// write writes the entries, and closes the standard input between two lines when the worker is
// ending. The command may end before it has read them all.
func (w *worker) write() {
	defer close(w.written)
	defer func() { _ = w.in.Close() }()
	for {
		select {
		case <-w.ending:
			return
		case lines := <-w.input:
			for _, line := range lines {
				if w.isEnding() {
					return
				}
				if _, err := w.in.Write(line); err != nil {
					<-w.ending
					return
				}
			}
		}
	}
}

func (w *worker) isEnding() bool {
	select {
	case <-w.ending:
		return true
	default:
		return false
	}
}

// readReports reads the reports until the standard output ends.
func (w *worker) readReports() {
	defer close(w.read)
	defer close(w.reports)
	lines := bufio.NewScanner(w.out)
	lines.Buffer(nil, maxReport)
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); text != "" {
			w.reports <- parseReport(text)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		w.reports <- report{err: &reportError{fmt.Sprintf("the command printed a line of more than %d bytes", maxReport)}}
	}
	_ = w.out.Close() // a process that still writes gets SIGPIPE
}

// wait waits for the end of the command.
func (w *worker) wait() {
	_ = w.cmd.Wait() // the process state has the result
	_ = w.out.SetReadDeadline(time.Now().Add(leftTime))
	<-w.read
	close(w.exited)
}

// parseReport parses "N" or "fail N [TEXT]".
func parseReport(text string) report {
	rest, failed := strings.CutPrefix(text, "fail ")
	number, detail, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || !failed && detail != "" {
		if len(text) > 100 {
			text = text[:100] + "…"
		}
		return report{err: &reportError{fmt.Sprintf("the command printed %q on its standard output, which is only for lines with the number of an entry, or: fail NUMBER TEXT", text)}}
	}
	if failed && detail == "" {
		detail = "the command reported no reason"
	}
	return report{number: n, failed: failed, detail: strings.TrimSpace(detail)}
}

// process passes lines to the command, and waits until it has acknowledged an entry. It returns a
// *triedError if the command reports a failure, ends, or is silent for the given time; 0 waits for
// ever. Afterwards the command can only be stopped.
func (w *worker) process(ctx context.Context, lines []numbered, silence time.Duration) error {
	var timeout <-chan time.Time
	timer := time.NewTimer(silence)
	defer timer.Stop()
	if silence > 0 {
		timeout = timer.C
	}
	texts := make([][]byte, len(lines))
	for i := range lines {
		texts[i] = lines[i].line
	}
	input := w.input
	if len(lines) == 0 {
		input = nil
	}
	for before := w.acked; w.acked == before; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case input <- texts:
			input, w.last = nil, lines[len(lines)-1].number
		case r, ok := <-w.reports:
			if !ok {
				return w.died()
			}
			timer.Reset(silence)
			if err := w.takeAll(r); err != nil {
				return err
			}
		case <-timeout:
			return w.tried(fmt.Sprintf("the command acknowledged nothing for %v", silence))
		}
	}
	return nil
}

// takeAll notes a report, and those that already follow it.
func (w *worker) takeAll(r report) error {
	err := w.take(r)
	for err == nil && w.acked < w.last {
		select {
		case next, ok := <-w.reports:
			if !ok {
				return w.died()
			}
			err = w.take(next)
		default:
			return nil
		}
	}
	return err
}

// take notes one report.
func (w *worker) take(r report) error {
	switch {
	case r.err != nil:
		return r.err
	case r.number > w.last:
		return &reportError{fmt.Sprintf("the command reported entry %d, and has got none after %d", r.number, w.last)}
	case !r.failed:
		w.acked = max(w.acked, r.number)
		return nil
	case r.number <= w.acked:
		return &reportError{fmt.Sprintf("the command reported that entry %d failed after it had acknowledged %d", r.number, w.acked)}
	}
	w.acked = r.number - 1
	return &triedError{number: r.number, detail: r.detail, reported: true}
}

// tried returns the error of the first entry that is not acknowledged.
func (w *worker) tried(detail string) error { return &triedError{number: w.acked + 1, detail: detail} }

// died returns the error of a command that ended before it had acknowledged all entries. The shell
// exits with 126 or 127 if there is no such command.
func (w *worker) died() error {
	select {
	case <-w.exited:
	case <-time.After(workerGrace):
		w.kill()
		<-w.exited
	}
	state := w.cmd.ProcessState
	if code := state.ExitCode(); code == 126 || code == 127 {
		return &reportError{fmt.Sprintf("the shell can't run the command: exit status %d", code)}
	}
	return w.tried("the command ended: " + state.String())
}

// running reports whether a command that has acknowledged everything still runs. It returns an
// error if the command has broken the protocol since.
func (w *worker) running() (bool, error) {
	for {
		select {
		case r, ok := <-w.reports:
			if !ok {
				return false, nil
			}
			if err := w.take(r); err != nil {
				return true, err
			}
		default:
			return true, nil
		}
	}
}

// first returns the first number that the command prints: that of its own store.
func (w *worker) first(ctx context.Context, silence time.Duration) (uint64, error) {
	var timeout <-chan time.Time
	if silence > 0 {
		timeout = time.After(silence)
	}
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-timeout:
		return 0, &reportError{fmt.Sprintf("the command printed no number within %v; with --own-cursor it begins with the number of the last entry in its store", silence)}
	case r, ok := <-w.reports:
		switch {
		case !ok:
			err := w.died()
			if tried, ok := errors.AsType[*triedError](err); ok {
				err = errors.New(tried.detail + " before it printed the number of its store")
			}
			return 0, err
		case r.failed:
			return 0, &reportError{"the command reported a failure before it got an entry: " + r.detail}
		}
		return r.number, r.err
	}
}

// stop closes the standard input, and notes the reports of the command until it ends. It kills the
// command after the given time, 0 waits for ever, or if the context ends.
func (w *worker) stop(ctx context.Context, grace time.Duration) error {
	close(w.ending)
	var timeout <-chan time.Time
	if grace > 0 {
		timeout = time.After(grace)
	}
	var err error
	reports, done := w.reports, ctx.Done()
	for open := true; open; {
		select {
		case r, ok := <-reports:
			if !ok {
				reports = nil
				continue
			}
			if err == nil {
				err = w.take(r)
			}
		case <-w.exited:
			open = false
		case <-timeout:
			w.kill()
			timeout = nil
		case <-done:
			w.kill()
			done = nil
		}
	}
	w.kill() // processes that the command has left running
	<-w.written
	return err
}

// end kills the command. Its further reports are dropped.
func (w *worker) end() {
	close(w.ending)
	w.kill()
	for range w.reports {
	}
	<-w.exited
	<-w.written
}

// kill kills the command's process group. A process that has left the group may keep the standard
// input and output open: nothing is written to them any more, and they are read for a second.
func (w *worker) kill() {
	shell.Kill(w.cmd.Process)
	_ = w.in.SetWriteDeadline(time.Now())
	_ = w.out.SetReadDeadline(time.Now().Add(leftTime))
}
