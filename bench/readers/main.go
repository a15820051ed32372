// Command readers measures readers of logs of the embedded server, which runs in a process of its
// own: how fast one reads a log over loopback, how long an idle reader waits for a new entry, and
// how much memory idle followers take.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/embedded"
)

const configuration = `
streams:
  chat: {log: {retain: 1h}, destinations: []}
`

func main() {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		exit(serve(os.Args[2]))
		return
	}
	entries := flag.Int("entries", 200_000, "entries of the log that is read")
	followers := flag.Int("followers", 5000, "idle followers, half of them by events and half by long poll")
	appends := flag.Int("appends", 300, "appends whose way to a waiting reader is timed")
	durable := flag.Bool("durable", false, "let the idle followers speak the Durable Streams protocol")
	flag.Parse()
	exit(measure(*entries, *followers, *appends, *durable))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(dir string) error {
	sys, err := embedded.Open(dir, embedded.Options{Config: configuration, Listen: "127.0.0.1:0", Ready: func(a string) { fmt.Println(a) }})
	if err != nil {
		return err
	}
	return errors.Join(sys.Run(context.Background()), sys.Close())
}

// A bench is a server and its address.
type bench struct {
	base    string
	pid     int
	client  *client.Client
	durable bool
}

func measure(entries, followers, appends int, durable bool) error {
	dir, err := os.MkdirTemp("", "readers")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.CommandContext(context.Background(), os.Args[0], "serve", dir) //nolint:gosec // this program itself
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	b := &bench{base: "http://" + strings.TrimSpace(address), pid: cmd.Process.Pid, durable: durable}
	if b.client, err = client.New(b.base, client.Options{}); err != nil {
		return err
	}
	if err := b.fill(entries); err != nil {
		return err
	}
	for _, format := range []string{"application/cbor-seq", "application/x-ndjson", "application/json"} {
		if err := b.read(format, entries); err != nil {
			return err
		}
	}
	if err := b.tail(entries); err != nil {
		return err
	}
	if err := b.latency(appends); err != nil {
		return err
	}
	return b.follow(followers)
}

// fill appends entries of 100 bytes, as batches of 1,000.
func (b *bench) fill(entries int) error {
	began := time.Now()
	body := []byte(`{"text":"` + strings.Repeat("x", 89) + `"}`)
	for n := 0; n < entries; {
		var batch []client.Message
		for ; n < entries && len(batch) < 1000; n++ {
			batch = append(batch, client.Message{Stream: "chat", Group: "lobby", Key: strconv.Itoa(n), ContentType: "application/json", Body: body})
		}
		for _, r := range b.client.SendBatch(context.Background(), batch) {
			if r.Err != nil {
				return r.Err
			}
		}
	}
	tail := b.client.Tail("chat", "lobby", client.TailOptions{Max: 10_000})
	for range entries {
		if _, err := tail.Next(context.Background()); err != nil {
			return err
		}
	}
	fmt.Printf("%-40s %10.0f entries/s\n", "append, in batches", float64(entries)/time.Since(began).Seconds())
	return nil
}

const limits = "?max=10000&after="

// read reads the whole log three times, without decoding it, and reports the fastest.
func (b *bench) read(format string, entries int) error {
	best, size := time.Duration(0), 0
	for range 3 {
		began := time.Now()
		n, s, err := b.readOnce(format)
		if err != nil || n != entries {
			return fmt.Errorf("read %d of %d entries as %s: %w", n, entries, format, err)
		}
		if took := time.Since(began); best == 0 || took < best {
			best, size = took, s
		}
	}
	fmt.Printf("%-40s %10.0f entries/s %6d bytes each\n", "read as "+format, float64(entries)/best.Seconds(), size/entries)
	return nil
}

// readOnce reads the whole log. It asks for the next page as soon as the headers of a page have
// told it where that begins.
func (b *bench) readOnce(format string) (entries, size int, err error) {
	var buffer bytes.Buffer
	for page := b.page(format, ""); ; {
		p := <-page
		if p.err != nil || p.answer.StatusCode != http.StatusOK {
			return 0, 0, fmt.Errorf("read page: %w", p.err)
		}
		next := p.answer.Header.Get("Once-Next")
		if next != p.after {
			page = b.page(format, next)
		}
		buffer.Reset()
		_, err = buffer.ReadFrom(p.answer.Body)
		_ = p.answer.Body.Close()
		if err != nil || next == p.after {
			return entries, size, err
		}
		if entries, err = strconv.Atoi(next[strings.Index(next, "_")+1:]); err != nil {
			return 0, 0, err
		}
		size += buffer.Len()
	}
}

// A page is an answer whose headers have arrived.
type page struct {
	after  string
	answer *http.Response
	err    error
}

func (b *bench) page(format, after string) <-chan page {
	result := make(chan page, 1)
	go func() {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, b.base+"/v1/streams/chat/groups/lobby/log"+limits+after, nil)
		if err != nil {
			result <- page{err: err}
			return
		}
		r.Header.Set("Accept", format)
		answer, err := http.DefaultClient.Do(r) //nolint:bodyclose // by read
		result <- page{after, answer, err}
	}()
	return result
}

// tail reads the log with the Go client, which decodes each entry.
func (b *bench) tail(entries int) error {
	began := time.Now()
	tail := b.client.Tail("chat", "lobby", client.TailOptions{Max: 10_000})
	for n := range entries {
		if e, err := tail.Next(context.Background()); err != nil || e.Number != uint64(n)+1 {
			return fmt.Errorf("entry %d: %+v %w", n+1, e, err)
		}
	}
	fmt.Printf("%-40s %10.0f entries/s\n", "read with client.Tail", float64(entries)/time.Since(began).Seconds())
	return nil
}

// latency times the way of an entry from the acknowledgement of its message, which is after its
// commit, to an idle reader.
func (b *bench) latency(appends int) error {
	tail := b.client.Tail("chat", "quiet", client.TailOptions{After: client.FromNow})
	arrived := make(chan time.Time)
	go func() {
		for range appends {
			if _, err := tail.Next(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			arrived <- time.Now()
		}
	}()
	time.Sleep(time.Second) // until the reader waits
	var afterSend, afterAck []time.Duration
	for i := range appends {
		began := time.Now()
		if _, err := b.client.Send(context.Background(), client.Message{Stream: "chat", Group: "quiet", Key: "quiet-" + strconv.Itoa(i)}); err != nil {
			return err
		}
		acknowledged := time.Now()
		at := <-arrived
		afterSend, afterAck = append(afterSend, at.Sub(began)), append(afterAck, max(0, at.Sub(acknowledged)))
		time.Sleep(5 * time.Millisecond) // until the reader waits again
	}
	slices.Sort(afterSend)
	slices.Sort(afterAck)
	fmt.Printf("%-40s median %v, p99 %v\n", "from sending to a waiting reader", afterSend[appends/2].Round(time.Microsecond), afterSend[appends*99/100].Round(time.Microsecond))
	fmt.Printf("%-40s median %v, p99 %v\n", "from the 202 to a waiting reader", afterAck[appends/2].Round(time.Microsecond), afterAck[appends*99/100].Round(time.Microsecond))
	return nil
}

// followed is how many groups the idle followers read.
const followed = 100

// follow opens idle followers, and prints the memory of the server before and with them.
func (b *bench) follow(n int) error {
	for i := range followed { // a stream of the Durable Streams protocol has to exist
		m := client.Message{Stream: "chat", Group: fmt.Sprint("follower-", i), Key: fmt.Sprint("first-", i)}
		if _, err := b.client.Send(context.Background(), m); err != nil {
			return err
		}
	}
	before := b.memory()
	var open sync.WaitGroup
	limit := make(chan struct{}, 100)
	errs := make(chan error, n)
	for i := range n {
		limit <- struct{}{}
		open.Go(func() {
			defer func() { <-limit }()
			errs <- b.connect(i)
		})
	}
	open.Wait()
	for range n {
		if err := <-errs; err != nil {
			return err
		}
	}
	time.Sleep(6 * time.Second) // each has looked again at least once
	what := "memory (RSS) of the server, followers"
	if b.durable {
		what = "memory (RSS), followers of /v1/stream"
	}
	fmt.Printf("%-40s %d MB before, %d MB with %d\n", what, before, b.memory(), n)
	return nil
}

// connect sends the request of one follower. It stays open until the process ends.
func (b *bench) connect(i int) error {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", strings.TrimPrefix(b.base, "http://"))
	if err != nil {
		return err
	}
	events := i%2 == 0
	if _, err := io.WriteString(conn, b.request(i%followed, events)); err != nil {
		return err
	}
	answer := bufio.NewReaderSize(conn, 512)
	if events { // a long poll is answered after its wait
		status, err := answer.ReadString('\n')
		if err != nil || !strings.Contains(status, " 200 ") {
			return fmt.Errorf("follow by events: %q %w", status, err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, answer) }()
	return nil
}

// request returns the request of a follower of a group, by events or long poll.
func (b *bench) request(group int, events bool) string {
	path, accept := fmt.Sprintf("/v1/streams/chat/groups/follower-%d/log?after=now&wait=20", group), "application/json"
	if events {
		accept = "text/event-stream"
	}
	if b.durable {
		path = fmt.Sprintf("/v1/stream/chat/follower-%d?offset=now&live=long-poll", group)
		if events {
			path = strings.Replace(path, "long-poll", "sse", 1)
		}
	}
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: %s\r\n\r\n", path, accept)
}

// memory returns the resident memory of the server in MB.
func (b *bench) memory() int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.pid))
	_, text, _ := strings.Cut(string(data), "VmRSS:")
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return 0
	}
	kb, _ := strconv.Atoi(fields[0])
	return kb / 1024
}
