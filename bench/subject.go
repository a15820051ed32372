package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// A subject is measured: a case of once, a floor or a peer. Each has a process of its own,
// which is stopped by a signal while others are measured. So a subject pays for its own garbage and
// its own work in the background, and for nothing else.
type subject struct {
	name string
	open func(ctx context.Context, dir string) (*worker, error)
}

// A worker is an open subject. Its folder is empty at the start.
type worker struct {
	// run processes messages for about d.
	run   func(ctx context.Context, d time.Duration) (load, error)
	close func() error
}

// A load is the number of messages that were processed, and the CPU time of clients in other
// processes.
type load struct {
	messages int
	client   time.Duration
}

// A sample is one round of a subject.
type sample struct {
	Rate   float64 `json:"messages_per_second"`
	CPU    float64 `json:"cpu_us"`        // a message, user and kernel
	Client float64 `json:"client_cpu_us"` // a message, 0 if the client is part of the process
	Allocs float64 `json:"allocations"`   // a message
	Heap   float64 `json:"allocated_bytes"`
	Disk   float64 `json:"written_bytes"` // a message, to the device; 0 if the system does not say
}

// The garbage collector of every subject, floors and peers too, runs as that of once dev does.
const (
	// reserveSize is the memory that once dev allocates and never touches, so that the garbage
	// collector runs less often.
	reserveSize = 128 << 20
	// collectAt is its GOGC.
	collectAt = 50
)

// serve is the process of a subject: for each line of the input, a duration, it prints a sample.
func serve(ctx context.Context, s subject, dir string, in io.Reader, out io.Writer) error {
	debug.SetGCPercent(collectAt)
	reserve := make([]byte, reserveSize)
	defer runtime.KeepAlive(reserve)
	w, err := s.open(ctx, dir)
	if err != nil {
		return err
	}
	answers := json.NewEncoder(out)
	err = answers.Encode(sample{}) // it is ready
	for lines := bufio.NewScanner(in); err == nil && lines.Scan(); {
		var d time.Duration
		var took sample
		if d, err = time.ParseDuration(lines.Text()); err == nil {
			if took, err = measured(ctx, w, d); err == nil {
				err = answers.Encode(took)
			}
		}
	}
	return errors.Join(err, w.close())
}

// measured runs a worker once, and returns the figures of a message.
func measured(ctx context.Context, w *worker, d time.Duration) (sample, error) {
	runtime.GC()
	before, start := used(), time.Now()
	done, err := w.run(ctx, d)
	took, after := time.Since(start), used()
	if err != nil || done.messages == 0 {
		return sample{}, cmp.Or(err, errors.New("no message was processed"))
	}
	n := float64(done.messages)
	return sample{
		Rate: n / took.Seconds(), CPU: micros(after.cpu-before.cpu) / n, Client: micros(done.client) / n,
		Allocs: float64(after.allocs-before.allocs) / n, Heap: float64(after.heap-before.heap) / n, Disk: float64(after.disk-before.disk) / n,
	}, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// usage is what this process has used since it started.
type usage struct {
	cpu                time.Duration
	allocs, heap, disk uint64
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // it never fails with these arguments
	return usage{cpu: time.Duration(r.Utime.Nano() + r.Stime.Nano()), allocs: m.Mallocs, heap: m.TotalAlloc, disk: field("/proc/self/io", "write_bytes:")}
}

// field returns a number of a file of /proc, or 0 if there is none. Linux counts a page as
// written when a process makes it dirty, so a synced append of a few bytes is a page.
func field(path, name string) (n uint64) {
	text, err := os.ReadFile(path) //nolint:gosec // of /proc
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), name)
	_, _ = fmt.Sscan(rest, &n) // 0 if it is not there
	return n
}

// A child is the process of a running subject, stopped unless it is measured.
type child struct {
	subject
	command  *exec.Cmd
	commands io.WriteCloser
	answers  *json.Decoder
}

// start starts a subject in a new folder below dir.
func start(ctx context.Context, s subject, dir string) (*child, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(dir, "once-bench-")
	if err != nil {
		return nil, err
	}
	p := &child{subject: s, command: exec.CommandContext(ctx, own, "-subject", s.name, "-dir", folder)} //nolint:gosec // this program
	p.command.Stderr = os.Stderr
	commands, err1 := p.command.StdinPipe()
	answers, err2 := p.command.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	p.commands, p.answers = commands, json.NewDecoder(answers)
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	if _, err = p.answer(); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

// measure runs the subject for about d.
func (p *child) measure(d time.Duration) (sample, error) {
	if err := p.command.Process.Signal(syscall.SIGCONT); err != nil {
		return sample{}, fmt.Errorf("%s: %w", p.name, err)
	}
	if _, err := fmt.Fprintln(p.commands, d); err != nil {
		return sample{}, fmt.Errorf("%s: %w", p.name, err)
	}
	return p.answer()
}

// answer reads a sample, and stops the process.
func (p *child) answer() (s sample, err error) {
	if err = errors.Join(p.answers.Decode(&s), p.command.Process.Signal(syscall.SIGSTOP)); err != nil {
		err = fmt.Errorf("%s: %w", p.name, err)
	}
	return s, err
}

// end lets the process end and removes its folder.
func (p *child) end() error {
	err := errors.Join(p.command.Process.Signal(syscall.SIGCONT), p.commands.Close(), p.command.Wait())
	if err != nil {
		err = fmt.Errorf("end %s: %w", p.name, err)
	}
	return errors.Join(err, os.RemoveAll(p.command.Args[len(p.command.Args)-1]))
}
