package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/testkit/consumertest"
)

// A role is the work of a client process, which may be killed and started again at any time. The
// test binary runs it in place of its tests if [roleVariable] holds one as JSON.
type role struct {
	// Kind is shuffle, send, read or consume.
	Kind   string
	URL    string
	Folder string // of this process alone
	// Sources are the names of the numbered senders, and Each is how many messages each has.
	Sources []string
	Each    int
	// Window is how many messages of a source are shuffled together. Paced clients send the next one
	// when the last message of the window is processed, as senders do that bound what is in flight.
	Window int
	Paced  bool
	Seed   uint64
	// Total is how many entries a reader reads.
	Total int
	// Hold makes the process wait before its last step, until it is killed.
	Hold bool
	// Consumer is a consumer that kills itself. Its work goes to Place, which is a driver of a
	// database, file, calls or state, and Source.
	Consumer      consumertest.Child
	Place, Source string
}

const (
	roleVariable = "ONCE_E2E_ROLE"
	offlineRoom  = "room"
	offlineGroup = "lobby"
	partSize     = 100 // the mean size of a batch of shuffled messages
)

// play runs a role to its end.
func play(text string) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	c, err := client.New(r.URL, client.Options{MinBackoff: 20 * time.Millisecond, MaxBackoff: time.Second, TryTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	switch ctx := context.Background(); r.Kind {
	case "shuffle":
		return r.shuffle(ctx, c)
	case "send":
		return r.send(ctx, c)
	case "read":
		return r.read(ctx, c)
	case "consume":
		return r.consume(ctx)
	}
	return fmt.Errorf("no role %q", r.Kind)
}

func offlineBody(source string, n uint64) []byte { return fmt.Appendf(nil, "%s %d", source, n) }

// shuffle sends the messages of its sources in shuffled windows, some of them twice, some in two
// batches. It notes the windows that are acknowledged, and continues after them.
func (r *role) shuffle(ctx context.Context, c *client.Client) error {
	note := filepath.Join(r.Folder, "window")
	text, err := os.ReadFile(note)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	first, _ := strconv.Atoi(string(text)) // 0 if there is none
	random := rand.New(rand.NewPCG(r.Seed, uint64(os.Getpid())))
	for from := first; from < r.Each; from += r.Window {
		if err := r.sendWindow(ctx, c, random, from); err != nil {
			return err
		}
		if last := min(from+r.Window, r.Each); r.Paced && last < r.Each {
			if err := r.awaitWindow(ctx, c, uint64(last)); err != nil {
				return err
			}
		}
		if err := os.WriteFile(note+".new", fmt.Append(nil, from+r.Window), 0o600); err != nil {
			return err
		}
		if err := os.Rename(note+".new", note); err != nil {
			return err
		}
	}
	return nil
}

func (r *role) sendWindow(ctx context.Context, c *client.Client, random *rand.Rand, from int) error {
	var window []client.Message
	for _, source := range r.Sources {
		for n := from + 1; n <= min(from+r.Window, r.Each); n++ {
			m := r.message(source, uint64(n))
			window = append(window, m)
			if random.IntN(5) == 0 {
				window = append(window, m)
			}
		}
	}
	random.Shuffle(len(window), func(i, k int) { window[i], window[k] = window[k], window[i] })
	for len(window) > 0 {
		part := window[:min(len(window), 1+random.IntN(2*partSize))]
		window = window[len(part):]
		if err := r.step(len(window) == 0 && from+r.Window >= r.Each); err != nil {
			return err
		}
		for _, result := range c.SendBatch(ctx, part) {
			if result.Err != nil {
				return result.Err
			}
		}
	}
	return nil
}

// awaitWindow waits until a number of each source is processed. It sends the message again to ask.
func (r *role) awaitWindow(ctx context.Context, c *client.Client, n uint64) error {
	for _, source := range r.Sources {
		m := r.message(source, n)
		m.Wait = 5 * time.Second
		for {
			receipt, err := c.Send(ctx, m)
			if err != nil {
				return err
			}
			if receipt.Status == "done" {
				break
			}
		}
	}
	return nil
}

// message returns a message of a source.
func (r *role) message(source string, n uint64) client.Message {
	return client.Message{Stream: offlineRoom, Group: offlineGroup, Source: source, Sequence: n, ContentType: "text/plain", Body: offlineBody(source, n)}
}

// send sends the messages of one source with a Sender that keeps them in its folder. It notes the
// last number that Send has acknowledged.
func (r *role) send(ctx context.Context, c *client.Client) error {
	s, err := c.Sender(client.SenderOptions{
		Stream: offlineRoom, Group: offlineGroup, Source: r.Sources[0], Folder: filepath.Join(r.Folder, "outbox"), MaxMessages: 200,
	})
	if err != nil {
		return err
	}
	note, err := os.OpenFile(filepath.Join(r.Folder, "sent"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if err := checkNoted(note.Name(), s.Last()); err != nil {
		return err
	}
	for n := s.Last() + 1; n <= uint64(r.Each); n++ {
		if err := r.step(n == uint64(r.Each)); err != nil {
			return err
		}
		if _, err := s.Send(ctx, client.Message{ContentType: "text/plain", Body: offlineBody(r.Sources[0], n)}); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(note, n); err != nil {
			return err
		}
	}
	return s.Close(ctx)
}

// checkNoted returns an error if the folder has lost a message that Send has acknowledged.
func checkNoted(path string, last uint64) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	noted := strings.Fields(string(text[:bytes.LastIndexByte(text, '\n')+1]))
	if len(noted) == 0 {
		return nil
	}
	n, err := strconv.ParseUint(noted[len(noted)-1], 10, 64)
	if err == nil && n > last {
		err = fmt.Errorf("message %d was acknowledged, and the folder ends at %d", n, last)
	}
	return err
}

// read follows the log and appends a line for each entry to its file. Each line ends with the offset,
// so that the file says where to continue.
func (r *role) read(ctx context.Context, c *client.Client) error {
	path := filepath.Join(r.Folder, "read")
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := file.Truncate(int64(len(whole))); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	read, after := bytes.Count(whole, []byte{'\n'}), ""
	if words := bytes.Fields(whole); len(words) > 0 {
		after = string(words[len(words)-1])
	}
	tail := c.Tail(offlineRoom, offlineGroup, client.TailOptions{After: after, Max: 100, Wait: 2 * time.Second})
	for ; read < r.Total; read++ {
		if err := r.step(read == r.Total-1); err != nil {
			return err
		}
		e, err := tail.Next(ctx)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(file, "%d %s %d %s %s\n", e.Number, e.Source, e.Sequence, e.Body, e.Offset); err != nil {
			return err
		}
	}
	return file.Close()
}
