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

func TestConsolePageShowsWhatIsStuckAndRepairsItAndSurvivesARestart(t *testing.T) {
	findBrowser(t)
	receiver := newShop(t)
	s := newServer(t, onceBinary, `
streams:
  orders: {destinations: [shop]}
  room: {log: {retain: 1h}}
destinations:
  shop: {webhook: `+receiver.URL+`, retry: {first: 50ms, max: 200ms}}
`)
	s.args = []string{"--console", "write"}
	must(t, s.start())
	c, err := client.New(s.url(), client.Options{})
	must(t, err)
	send := func(stream, key, group, body string) {
		t.Helper()
		_, err := c.Send(t.Context(), client.Message{Stream: stream, Key: key, Group: group, Body: []byte(body)})
		must(t, err)
	}
	p := consolePage{openPage(t, s.url()+"/console")}
	p.shows("Nothing waits, and there are no dead letters.")

	// the skip link is first, and leads to the content
	p.do(chromedp.KeyEvent(kb.Tab))
	if got := p.value(`document.activeElement.className`); got != "skip" {
		t.Errorf("the first element is %q", got)
	}
	p.do(chromedp.KeyEvent(kb.Enter))
	if got := p.value(`document.activeElement.id`); got != "main" {
		t.Errorf("the skip link leads to %q", got)
	}

	// the page finds the stuck group by itself, and says why
	send("orders", "order-1", "customer-7", `{"note":"<script>document.title='taken'</script>"}`)
	send("orders", "order-2", "customer-7", `2`)
	p.shows("Destination shop did not take effect 1 of message order-1")
	p.shows("field x missing")
	p.press(`.card a[href*="group=customer-7"]`)
	p.shows("Group orders/customer-7")
	p.shows("destination shop to take effect 1, of message order-1; failed")

	// it is skipped, and the next effect is not
	p.press(`#skip-1-shop summary`)
	p.press(`#do-skip-1`)
	p.shows("Effect 1 is a dead letter for shop.")
	receiver.healed.Store(true)
	if got := <-receiver.got; got != "2" {
		t.Errorf("the shop got %q first", got)
	}

	// the letter is looked at, and put back
	p.press(`nav a[href="/console/letters"]`)
	p.shows("undeliverable")
	p.press(`.card a[href*="/console/letter?"]`)
	p.shows("Show headers and body")
	if strings.Contains(p.value(`document.documentElement.outerHTML`), "taken") {
		t.Error("the body is in the page before it was asked for")
	}
	p.press(`#show-body`)
	p.shows(`"note": "<script>document.title='taken'</script>"`)
	p.press(`#redrive`)
	p.shows("Put back 1 dead letter.")
	if got := <-receiver.got; !strings.Contains(got, "note") {
		t.Errorf("the shop got %q", got)
	}

	// a message is sent
	p.press(`nav a[href="/console/send"]`)
	p.shows("Send a message")
	p.do(
		chromedp.SendKeys(chromedp.CSS(`select[name=stream]`), "room"), chromedp.SendKeys(chromedp.CSS(`input[name=key]`), "said-1"),
		chromedp.SendKeys(chromedp.CSS(`input[name=group]`), "lobby"), chromedp.SendKeys(chromedp.CSS(`textarea`), "hello"),
	)
	p.press(`#send`)
	p.shows("The message was done.")

	// a log is followed, also across a kill
	p.do(chromedp.Navigate(s.url() + "/console/log?stream=room&group=lobby"))
	p.shows("said-1")
	send("room", "said-2", "lobby", "again")
	p.shows("said-2")
	must(t, s.kill())
	p.shows("no connection; trying again")
	must(t, s.start())
	send("room", "said-3", "lobby", "after the restart")
	p.shows("said-3")
	p.shows("live")
	if title := p.value(`document.title`); title == "taken" {
		t.Error("a script of a message has run")
	}

	// nothing is wider than a narrow screen
	for _, path := range []string{"", "/streams", "/group?stream=orders&group=customer-7", "/message?stream=room&id=said-1", "/letters", "/log?stream=room&group=lobby", "/send"} {
		p.do(chromedp.EmulateViewport(400, 800), chromedp.Navigate(s.url()+"/console"+path))
		if got := p.value(`document.documentElement.scrollWidth <= 400`); got != "true" {
			t.Errorf("%s is wider than 400 px", path)
		}
	}
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
