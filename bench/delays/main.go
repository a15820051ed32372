// Command delays measures delayed messages of the embedded server, which runs in a process of its
// own: the memory and the disk that a million waiting messages take, and how late messages are
// processed that become due at a steady rate while the others wait.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/embedded"
)

const stream = "work"

func main() {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		exit(serve(os.Args[2]))
		return
	}
	waiting := flag.Int("waiting", 1_000_000, "messages that wait for a month")
	due := flag.Int("due", 10_000, "messages that become due while the others wait")
	rate := flag.Int("rate", 200, "how many of them become due in a second")
	flag.Parse()
	exit(measure(*waiting, *due, *rate))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// lateness collects how late the messages were processed whose body is the time when they are due.
type lateness struct {
	mu   sync.Mutex
	late []time.Duration
}

func (l *lateness) handle(_ context.Context, _ *once.Attempt[struct{}], m once.Message) error {
	due, err := strconv.ParseInt(string(m.Body), 10, 64)
	if err != nil {
		return once.Reject("not a time", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = append(l.late, time.Since(time.Unix(0, due)))
	return nil
}

// serve runs the server until its standard input ends, and then prints how late the messages were.
func serve(dir string) error {
	l := &lateness{}
	sys, err := embedded.Open(dir, embedded.Options{Listen: "127.0.0.1:0", Ready: func(a string) { fmt.Println(a) }})
	if err != nil {
		return err
	}
	once.Handle(sys, stream, l.handle)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the other process
		cancel()
	}()
	err = errors.Join(sys.Run(ctx), sys.Close())
	slices.Sort(l.late)
	if n := len(l.late); n > 0 {
		fmt.Printf("%d messages processed; late by %v (p50), %v (p99), %v at most, %v at least\n", n, l.late[n/2], l.late[n*99/100], l.late[n-1], l.late[0])
	}
	return err
}

func measure(waiting, due, rate int) (err error) {
	dir, err := os.MkdirTemp("", "once-delays-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(context.Background(), self, "serve", dir) //nolint:gosec // this program
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	address, err := lines.ReadString('\n')
	if err != nil {
		return err
	}
	c, err := client.New("http://"+strings.TrimSpace(address), client.Options{})
	if err != nil {
		return err
	}
	if err := report("nothing waits", child.Process.Pid, dir); err != nil {
		return err
	}
	month := time.Now().Add(30 * 24 * time.Hour)
	began := time.Now()
	if err := send(c, waiting, func(i int) time.Time { return month.Add(time.Duration(i) * time.Millisecond) }, "w"); err != nil {
		return err
	}
	fmt.Printf("%d messages sent in %v\n", waiting, time.Since(began).Round(time.Millisecond))
	if err := report("they wait", child.Process.Pid, dir); err != nil {
		return err
	}
	soon := time.Now().Add(10 * time.Second)
	if err := send(c, due, func(i int) time.Time { return soon.Add(time.Duration(i) * time.Second / time.Duration(rate)) }, "d"); err != nil {
		return err
	}
	time.Sleep(time.Until(soon) + time.Duration(due)*time.Second/time.Duration(rate) + 3*time.Second) // until all are due and processed
	if err := report(fmt.Sprintf("after %d became due, %d a second", due, rate), child.Process.Pid, dir); err != nil {
		return err
	}
	if err := in.Close(); err != nil {
		return err
	}
	rest, err := io.ReadAll(lines)
	fmt.Print(string(rest))
	return errors.Join(err, child.Wait())
}

// send sends messages in batches, each with the time when it is due as its body.
func send(c *client.Client, n int, due func(int) time.Time, prefix string) error {
	for from := 0; from < n; from += 1000 {
		var list []client.Message
		for i := from; i < min(n, from+1000); i++ {
			at := due(i)
			list = append(list, client.Message{Stream: stream, Key: prefix + strconv.Itoa(i), NotBefore: at, ContentType: "text/plain", Body: []byte(strconv.FormatInt(at.UnixNano(), 10))})
		}
		for _, r := range c.SendBatch(context.Background(), list) {
			if r.Err != nil {
				return r.Err
			}
		}
	}
	return nil
}

// report prints the resident memory of a process and the size of a folder.
func report(when string, pid int, dir string) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	memory := ""
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			memory = strings.TrimSpace(string(value))
		}
	}
	var size int64
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a file that was deleted meanwhile
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	fmt.Printf("%s: memory %s, disk %d MB\n", when, memory, size>>20)
	return err
}
