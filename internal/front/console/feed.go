package console

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// renewal is the time between two looks at a page. If pages take long to make, the time grows,
	// so that all pages together take at most a twentieth of a processor.
	renewal = time.Second
	// heartbeat is the time after which a comment shows that the connection is alive.
	heartbeat = 15 * time.Second
	// slowestEvent is how long a write may take.
	slowestEvent = 20 * time.Second
	// maxFollowing is how many pages renew themselves at a time.
	maxFollowing = 100
)

// feeds are the pages that are renewed at the moment. All browsers that show the same page share a
// feed, so that the page is made only one time for all of them.
type feeds struct {
	mu     sync.Mutex
	byPage map[string]*feed
	pages  int // in all browsers
}

// A feed is the content of one page.
type feed struct {
	readers int // guarded by feeds.mu
	stop    context.CancelFunc
	ended   chan struct{} // closed when the page is made no more

	mu      sync.Mutex
	text    string
	changed chan struct{} // closed when text changes
}

// latest returns the content, which is empty before it is made, and a channel that is closed when
// it changes.
func (f *feed) latest() (text string, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text, f.changed
}

func (f *feed) set(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text != f.text {
		f.text = text
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// join returns the feed of a page, and the function that leaves it. It returns nil if too many
// pages are followed. The first reader starts the feed. The last one ends it and waits for its end, so
// that no page is made after the last request has ended: the database may be closed then.
func (c *console) join(r *http.Request, p page) (f *feed, leave func()) {
	// A page names the host in its commands.
	key := r.Host + " " + r.URL.Path + "?" + r.URL.Query().Encode()
	c.feeds.mu.Lock()
	defer c.feeds.mu.Unlock()
	if c.feeds.pages == maxFollowing {
		return nil, nil
	}
	f = c.feeds.byPage[key]
	if f == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		f = &feed{stop: cancel, ended: make(chan struct{}), changed: make(chan struct{})}
		c.feeds.byPage[key] = f
		go c.renew(r.Clone(ctx), p, f)
	}
	c.feeds.pages++
	f.readers++
	return f, func() {
		if c.leave(f, key) {
			<-f.ended
		}
	}
}

// leave leaves a feed, and reports whether this was its last reader.
func (c *console) leave(f *feed, key string) bool {
	c.feeds.mu.Lock()
	defer c.feeds.mu.Unlock()
	c.feeds.pages--
	f.readers--
	if f.readers > 0 {
		return false
	}
	f.stop()
	delete(c.feeds.byPage, key)
	return true
}

// renew makes the content of a page again and again until the context of the request ends.
func (c *console) renew(r *http.Request, p page, f *feed) {
	defer close(f.ended)
	for {
		began := c.Now()
		if text := c.content(r, p); r.Context().Err() == nil {
			f.set(text)
		}
		c.feeds.mu.Lock()
		all := len(c.feeds.byPage)
		c.feeds.mu.Unlock()
		pause := time.NewTimer(max(c.renewal, 20*time.Duration(all)*c.Now().Sub(began)))
		select {
		case <-r.Context().Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// follow sends the content of a page as events, whenever it has changed.
func (c *console) follow(w http.ResponseWriter, r *http.Request, p page) {
	f, leave := c.join(r, p)
	if f == nil {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // which the server has set for the request
	send := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(slowestEvent)) //nolint:forbidigo // the clock of the network
		_, err := w.Write([]byte(text))                            //nolint:gosec // a template has escaped it
		return err == nil && control.Flush() == nil
	}
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	last := ""
	for ok := send("retry: 1000\n\n"); ok; {
		text, changed := f.latest()
		if text != last {
			last = text
			if ok = send(event(text)); !ok {
				return
			}
		}
		select {
		case <-changed:
		case <-alive.C:
			ok = send(": alive\n\n")
		case <-r.Context().Done():
			return
		case <-c.Done:
			return
		}
	}
}

// content returns the renewed part of a page.
func (c *console) content(r *http.Request, p page) string {
	v, err := p(r)
	if err != nil {
		v = view{Template: "failure", Title: "Error", Data: failureOf(err).shown()}
	}
	text, err := c.render(r, &v, "content")
	if err != nil {
		c.Log.Error("console page not rendered", "page", v.Template, "error", err)
	}
	return text
}

// event returns an event with a text of several lines.
func event(text string) string {
	return "data: " + strings.ReplaceAll(text, "\n", "\ndata: ") + "\n\n"
}
