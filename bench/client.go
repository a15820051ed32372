package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"
)

const (
	connections = 64
	bodyBytes   = 1 << 10
)

// A client sends messages by HTTP over connections that it keeps open. It runs in a process of its
// own, so that its CPU time is not counted as the server's.
type client struct {
	URL         string
	Connections int
	Groups      int // of each connection; 0 sends messages without a group
	Batch       int // messages of a request; 0 sends each by itself, without the route of batches
	Time        time.Duration
}

// posts returns a run that starts the client for a server.
func (c client) posts(url string) func(context.Context, time.Duration) (load, error) {
	return func(ctx context.Context, d time.Duration) (done load, err error) {
		c.URL, c.Time = url+"/v1/streams/messages/messages", d
		if c.Batch > 0 {
			c.URL = url + "/v1/streams/messages/batch"
		}
		text, err1 := json.Marshal(c)
		own, err2 := os.Executable()
		if err := errors.Join(err1, err2); err != nil {
			return load{}, err
		}
		command := exec.CommandContext(ctx, own, "-client", string(text)) //nolint:gosec // this program
		command.Stderr = os.Stderr
		out, err := command.Output()
		if err != nil {
			return load{}, fmt.Errorf("client: %w", err)
		}
		done.client = command.ProcessState.UserTime() + command.ProcessState.SystemTime()
		_, err = fmt.Sscan(string(out), &done.messages)
		return done, err
	}
}

// send is the process of a client: it sends for its time, and prints the number of messages.
func send(ctx context.Context, arguments string, out io.Writer) error {
	var c client
	if err := json.Unmarshal([]byte(arguments), &c); err != nil {
		return err
	}
	done, err := c.send(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, done.messages)
	return err
}

func (c client) send(ctx context.Context) (load, error) {
	body := fmt.Appendf(nil, `{"text":"%s"}`, bytes.Repeat([]byte("x"), bodyBytes-11))
	transport := &http.Transport{MaxIdleConns: c.Connections, MaxIdleConnsPerHost: c.Connections}
	web := &http.Client{Transport: transport}
	round := time.Now().UnixNano()
	if c.Batch > 0 {
		return c.sendBatches(ctx, web, body, round)
	}
	return hammer(ctx, c.Connections, c.Time, func(ctx context.Context, caller int, i uint64) (int, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Idempotency-Key", fmt.Sprintf("%d-%d-%d", round, caller, i))
		r.Header.Set("Content-Type", "application/json")
		if c.Groups > 0 {
			r.Header.Set("Once-Group", fmt.Sprintf("g-%d-%d", caller, i%uint64(c.Groups)))
		}
		response, err := web.Do(r)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, response.Body)
		if err = errors.Join(err, response.Body.Close()); err == nil && response.StatusCode != http.StatusAccepted {
			err = errors.New(response.Status)
		}
		return 1, err
	})
}
