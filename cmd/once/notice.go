package main

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/effectively-once/once/client"
)

// notice prints that a call is retried: the first time, and then every ten seconds.
type notice struct {
	app  *app
	text string // what happens; default that a message is not acknowledged
	lost string // what happens if the server does not answer; default text
	self string // the holder of the session, if there is one
	mu   sync.Mutex
	next time.Time
}

const noticeEvery = 10 * time.Second

func (n *notice) retry(err error, wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	p, answered := errors.AsType[*client.Problem](err)
	replaced := answered && p.Type == client.Fenced && p.Holder != "" && p.Holder != n.self // which happens once
	if now.Before(n.next) && !replaced {
		return
	}
	n.next = now.Add(noticeEvery)
	if n.app.terminal {
		_, _ = fmt.Fprint(n.app.err, "\r\x1b[K") // the line of the progress bar, which draws itself again
	}
	switch {
	case replaced:
		_, _ = fmt.Fprintf(n.app.err, "replaced by %q; waiting until the session is free\n", p.Holder)
		return
	case answered && p.Type == client.Fenced: // a restored server may have forgotten this open
		_, _ = fmt.Fprintln(n.app.err, "opening the session again:", p.Detail)
		return
	case answered && p.Type == client.Held:
		_, _ = fmt.Fprintf(n.app.err, "the session is held by %q; waiting until it is free%s\n", p.Holder, leaseEnds(p.RetryAfter))
		return
	}
	if unknown, ok := errors.AsType[*client.UnknownError](err); ok {
		err = unknown.Err
	}
	text := n.text
	if !answered {
		text = cmp.Or(n.lost, text)
	}
	_, _ = fmt.Fprintf(n.app.err, "%s %v: %v\n", cmp.Or(text, "not acknowledged yet, trying again in"), wait.Round(100*time.Millisecond), err)
}

// leaseEnds says how long the lease of a session's holder runs.
func leaseEnds(d time.Duration) string {
	if d <= 0 {
		return "; --take now does not wait"
	}
	return fmt.Sprintf(": its lease ends in %s, unless the holder renews it; --take now does not wait", max(d, time.Second).Round(time.Second))
}
