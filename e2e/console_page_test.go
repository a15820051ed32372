package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/effectively-once/once/client"
)

// A consolePage is the console of a server, used by the keyboard.
type consolePage struct{ *browserPage }

// value returns the value of an expression on a page that is loaded. It repeats it while the browser
// changes the page.
func (p consolePage) value(expression string) string {
	p.t.Helper()
	var text string
	p.until(func() (ok bool, why string) {
		got, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.readyState === "complete" ? "loaded " + (`+expression+`) : ""`))
		text, ok = strings.CutPrefix(got, "loaded ")
		return ok, fmt.Sprintf("%s: the page is not loaded, or: %v", expression, err)
	})
	return text
}

// until waits for a condition, and otherwise fails with its reason.
func (p consolePage) until(ok func() (ok bool, why string)) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	var why string
	err := poll(ctx, 20*time.Millisecond, func() (yes bool, _ error) {
		yes, why = ok()
		return yes, nil
	})
	if err != nil {
		p.t.Fatalf("%v: %s; the page shows\n%s", err, why, p.text())
	}
}

// shows waits until the page shows a text.
func (p consolePage) shows(text string) {
	p.t.Helper()
	p.until(func() (bool, string) {
		shown := strings.Join(strings.Fields(p.value(`document.body?.innerText`)), " ")
		return strings.Contains(shown, text), fmt.Sprintf("the page does not show %q:\n%s", text, shown)
	})
}

// press moves the focus to an element and presses Enter.
func (p consolePage) press(selector string) { p.t.Helper(); p.key(selector, kb.Enter) }

// mark moves the focus to a check box and presses the space bar.
func (p consolePage) mark(selector string) { p.t.Helper(); p.key(selector, " ") }

func (p consolePage) key(selector, key string) {
	p.t.Helper()
	p.until(func() (bool, string) {
		focused := p.value(fmt.Sprintf(`(document.querySelector(%q)?.focus(), document.activeElement?.matches(%[1]q))`, selector))
		return focused == "true", "there is no " + selector
	})
	p.do(chromedp.KeyEvent(key))
}

// A shop is a webhook that refuses what it gets until it is healed.
type shop struct {
	*httptest.Server
	healed atomic.Bool
	got    chan string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{got: make(chan string, 100)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !s.healed.Load() {
			http.Error(w, "field x missing", http.StatusBadRequest)
			return
		}
		s.got <- string(body)
	}))
	t.Cleanup(s.Close)
	return s
}

// A followed passes requests on to a server, and counts those that renew a page.
type followed struct {
	*httptest.Server
	open, opened atomic.Int64
}

func newFollowed(t *testing.T, s *server) *followed {
	t.Helper()
	target, err := url.Parse(s.url())
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	f := &followed{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "text/event-stream" {
			f.opened.Add(1)
			f.open.Add(1)
			defer f.open.Add(-1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// renewed waits until a page that is followed, as a browser does it, is renewed with a text.
func renewed(t *testing.T, page, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	must(t, err)
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("%s is not renewed with %q: %v", page, text, lines.Err())
}

// TestConsolePageInTheBackgroundKeepsNoConnection: a browser makes six connections to a server, so
// that six pages in the background would leave none for the next page.
func TestConsolePageInTheBackgroundKeepsNoConnection(t *testing.T) {
	findBrowser(t)
	s := newServer(t, onceBinary, "streams: {room: {log: {retain: 1h}}}\n")
	must(t, s.start())
	c, err := client.New(s.url(), client.Options{})
	must(t, err)
	send := func(key string) {
		t.Helper()
		_, err := c.Send(t.Context(), client.Message{Stream: "room", Key: key, Group: "lobby", Body: []byte(key)})
		must(t, err)
	}
	send("said-1")
	const log = "/console/log?stream=room&group=lobby"
	front := newFollowed(t, s)
	p := consolePage{openPage(t, front.URL+log)}
	p.shows("live")
	turn := func(hidden bool) {
		p.value(fmt.Sprintf(`(Object.defineProperty(document, "hidden", {value: %t, configurable: true}), document.dispatchEvent(new Event("visibilitychange")))`, hidden))
	}
	turn(true)
	await(t, "the end of the page's connection", func() (bool, error) { return front.open.Load() == 0, nil })
	connections := front.opened.Load()
	send("said-2")
	renewed(t, s.url()+log, "said-2")
	if text := p.text(); strings.Contains(text, "said-2") || front.opened.Load() != connections {
		t.Errorf("the page in the background is renewed, or has connected again:\n%s", text)
	}
	turn(false)
	p.shows("said-2")
	send("said-3")
	p.shows("said-3")
}
