package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// value returns the value of an expression. It repeats it while the browser changes the page.
func (p consolePage) value(expression string) string {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`String(`+expression+`)`))
		if err == nil {
			return text
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s: %v", expression, err)
		}
	}
}

// shows waits until the page shows a text.
func (p consolePage) shows(text string) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		shown := strings.Join(strings.Fields(p.value(`document.body?.innerText`)), " ")
		if strings.Contains(shown, text) {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("the page does not show %q:\n%s", text, shown)
		}
	}
}

// press moves the focus to an element and presses Enter.
func (p consolePage) press(selector string) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); p.value(fmt.Sprintf(`(document.querySelector(%q)?.focus(), document.activeElement?.matches(%q))`, selector, selector)) != "true"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("there is no %s; the page shows\n%s", selector, p.text())
		}
	}
	p.do(chromedp.KeyEvent(kb.Enter))
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
	p := consolePage{openPage(t, s.url()+"/console/log?stream=room&group=lobby")}
	p.shows("live")
	turn := func(hidden bool) {
		p.value(fmt.Sprintf(`(Object.defineProperty(document, "hidden", {value: %t, configurable: true}), document.dispatchEvent(new Event("visibilitychange")))`, hidden))
	}
	turn(true)
	send("said-2")
	time.Sleep(3 * time.Second) // a page renews itself every second
	if text := p.text(); strings.Contains(text, "said-2") {
		t.Errorf("the page in the background is renewed:\n%s", text)
	}
	turn(false)
	p.shows("said-2")
	send("said-3")
	p.shows("said-3")
}
