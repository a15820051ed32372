package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/effectively-once/once/client"
)

var pictures = flag.String("pictures", "", "folder for new pictures of docs/console.md; they take ten minutes more, so set -timeout 20m")

// shopBinary is a system with a handler that fails.
var shopBinary = sync.OnceValues(func() (string, error) { return build("console-shop", "./internal/front/console/testdata/shop") })

const consoleStreams = `
streams:
  orders: {destinations: [shop]}
  bookings: {retry: {first: 50ms, max: 200ms}}
  chat: {admission: sequence, destinations: [ledger]}
  room: {log: {retain: 1h}}
  work: {pool: {partitions: 1}}
destinations:
  shop: {webhook: %s, retry: {first: 50ms, max: 200ms}}
  ledger: {file: ledger.jsonl}
`

// A consoleWorld is a system in which several things do not move, with its console in a browser.
type consoleWorld struct {
	consolePage
	server *server
	shop   *shop
	client *client.Client
}

// pages are the pages that have something to show in a consoleWorld.
func (w *consoleWorld) pages() []string {
	return []string{
		"", "/streams", "/groups?stream=room", "/group?stream=orders&group=customer-7", "/group?stream=chat&group=lobby", "/message?stream=orders&id=order-1", "/letters", "/log?stream=room&group=lobby",
		"/sessions?stream=work", "/find", "/totals", "/send",
	}
}

func newConsoleWorld(t *testing.T) *consoleWorld {
	t.Helper()
	findBrowser(t)
	w := &consoleWorld{shop: newShop(t)}
	w.server = newServer(t, shopBinary, fmt.Sprintf(consoleStreams, w.shop.URL))
	w.server.program = w.server.program[:1]
	w.server.args = []string{"--console", "write"}
	must(t, w.server.start())
	var err error
	w.client, err = client.New(w.server.url(), client.Options{})
	must(t, err)
	w.consolePage = consolePage{openPage(t, w.server.url()+"/console")}
	return w
}

// on returns the world for a subtest: its failures are those of the subtest.
func (w *consoleWorld) on(t *testing.T) *consoleWorld {
	out := *w
	out.consolePage = consolePage{&browserPage{t, w.ctx}}
	return &out
}

func (w *consoleWorld) send(m client.Message) {
	w.t.Helper()
	_, err := w.client.Send(w.t.Context(), m)
	must(w.t, err)
}

// open opens a page of the console.
func (w *consoleWorld) open(path string) {
	w.t.Helper()
	w.do(chromedp.Navigate(w.server.url() + "/console" + path))
}

// posts returns the status of a form that a script of the page posts. The body is an expression.
func (w *consoleWorld) posts(path, body string) string {
	w.t.Helper()
	script := fmt.Sprintf(`fetch("/console%s", {method: "POST", headers: {"Content-Type": "application/x-www-form-urlencoded"}, body: %s}).then((r) => String(r.status))`, path, body)
	status, err := chromedp.Run(w.ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	must(w.t, err)
	return status
}

// tabTo presses the tab key until an element has the focus.
func (w *consoleWorld) tabTo(selector string) {
	w.t.Helper()
	for range 60 {
		w.do(chromedp.KeyEvent(kb.Tab))
		if w.value(fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) == "true" {
			return
		}
	}
	w.t.Fatalf("60 tabs do not reach %s; the page shows\n%s", selector, w.text())
}

// dark makes the browser prefer dark pages, or light ones.
func (w *consoleWorld) dark(on bool) {
	w.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[on]
	w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// contrast returns the least ratio of the luminances of texts and their backgrounds on the page.
const contrast = `(() => {
	const channels = (text) => text.match(/[\d.]+/g).map(Number);
	const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
	const behind = (e) => { for (; e; e = e.parentElement) { const c = channels(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c; } return [255, 255, 255]; };
	let least = 100;
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
		const [a, b] = [light(channels(getComputedStyle(e).color)), light(behind(e))];
		least = Math.min(least, (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
	}
	return least.toFixed(2);
})()`

// TestConsoleTasks does in a browser what people come to the console for. The tasks build on each
// other: first people look, and then they repair.
func TestConsoleTasks(t *testing.T) {
	w := newConsoleWorld(t)
	task := func(name string, do func(t *testing.T, w *consoleWorld)) {
		t.Helper()
		if t.Failed() {
			return // the later ones would fail because of it
		}
		t.Run(name, func(t *testing.T) { do(t, w.on(t)) })
	}
	task("see that nothing is stuck", func(_ *testing.T, w *consoleWorld) {
		w.shows("Nothing waits, and there are no dead letters.")
	})
	task("find the stuck group and read why", func(_ *testing.T, w *consoleWorld) {
		w.send(client.Message{Stream: "orders", Key: "order-1", Group: "customer-7", Body: []byte(`{"note":"<script>document.title='taken'</script>"}`)})
		w.send(client.Message{Stream: "orders", Key: "order-2", Group: "customer-7", Body: []byte(`2`)})
		// the page renews itself
		w.shows("Destination shop did not take effect 1 of message order-1")
		w.press(`.card a[href*="group=customer-7"]`)
		w.shows("Group orders/customer-7")
		w.shows("destination shop to take effect 1, of message order-1; failed")
		w.shows("orders/customer-7/2 shop not sent") // the effect behind it
	})
	task("see a failing handler with its last error and next try", func(_ *testing.T, w *consoleWorld) {
		w.send(client.Message{Stream: "bookings", Key: "booking-1", Group: "room-1", Body: []byte("busy")})
		w.open("")
		w.shows("message fails bookings/room-1")
		w.shows("Message booking-1 failed")
		w.shows("next try at 20")
		w.shows("database is restarting")
	})
	task("see a destination that fails, and its answer", func(_ *testing.T, w *consoleWorld) {
		w.open("")
		w.shows("destination fails orders/customer-7")
		w.shows("status 400")
		w.shows("field x missing")
	})
	task("see a missing number and since when", func(_ *testing.T, w *consoleWorld) {
		w.send(client.Message{Stream: "chat", Source: "bob", Sequence: 1, Group: "lobby", Body: []byte("1")})
		w.send(client.Message{Stream: "chat", Source: "bob", Sequence: 3, Group: "lobby", Body: []byte("3")})
		w.open("")
		w.shows("Waits for bob=2, missing since 20")
		w.press(`.card a[href*="stream=chat"]`)
		w.shows("number 2 of source bob, missing since 20")
	})
	task("see a session that nobody holds", func(t *testing.T, w *consoleWorld) {
		w.send(client.Message{Stream: "work", Key: "job-1", Body: []byte("1")})
		s, err := w.client.OpenSession(t.Context(), client.SessionOptions{Stream: "work", Name: "reader", Holder: "laptop"})
		must(t, err)
		_, err = s.Next(t.Context())
		must(t, err, s.Release(t.Context()))
		s.Close()
		w.open("")
		w.shows("no holder work: reader")
		w.shows("1 entry waits for a consumer")
		w.shows("last holder laptop")
	})
	task("list the sessions of a stream", func(_ *testing.T, w *consoleWorld) {
		w.press(`nav a[href="/console/sessions"]`)
		w.press(`main a[href*="stream=work"]`)
		w.shows("Sessions of work")
		w.shows("reader free, behind")
	})
	task("see that a log waits for a parent", func(_ *testing.T, w *consoleWorld) {
		w.send(client.Message{Stream: "room", Key: "answer", Group: "lobby", Parents: []uint64{2}, Body: []byte("yes")})
		w.open("")
		w.shows("Message answer answers entry 2 of the log, which is not there yet")
		w.press(`.card a[href*="/log?"]`)
		w.shows("Waits for entry 2 of the log, which message answer answers")
	})
	task("follow a log live", func(_ *testing.T, w *consoleWorld) {
		w.shows("There are no entries yet.")
		w.send(client.Message{Stream: "room", Key: "said-1", Group: "lobby", Body: []byte("hello")})
		w.shows("said-1 hello")
		w.send(client.Message{Stream: "room", Key: "said-2", Group: "lobby", Body: []byte("is it true?")})
		w.shows("said-2 is it true?")
		w.shows("answer yes") // its parent is there
	})
	task("find a message by its id and follow its life", func(_ *testing.T, w *consoleWorld) {
		w.press(`nav a[href="/console/find"]`)
		w.shows("Find a message")
		w.do(chromedp.SendKeys(chromedp.CSS(`select[name=stream]`), "bookings"), chromedp.SendKeys(chromedp.CSS(`input[name=id]`), "booking-1"))
		w.press(`form[action="/console/message"] button`)
		w.shows("Message booking-1")
		w.shows("Waits for the next try of message booking-1; failed")
		w.value(`document.marked = true`) // it is the same page until the end
		must(w.t, os.WriteFile(w.server.path("healed"), nil, 0o600))
		w.shows("Status done")
		if w.value(`document.marked`) != "true" {
			w.t.Error("the page was loaded again")
		}
		must(w.t, os.Remove(w.server.path("healed")))
	})
	task("look at the rates of a stream", func(_ *testing.T, w *consoleWorld) {
		w.press(`nav a[href="/console/streams"]`)
		w.press(`main a[href="/console/groups?stream=bookings"]`)
		w.shows("The last 10 minutes as a table")
		w.wait("the chart has a rate of done messages", `[...document.querySelectorAll(".charts svg")].some((s) => /^done .* 0\.\d+\/s at most/.test(s.getAttribute("aria-label")))`)
		w.press(`#values summary`)
		w.shows("Minutes ago accepted done failed dead letters handler p50 handler p99")
	})
	task("page through groups", func(t *testing.T, w *consoleWorld) {
		var messages []client.Message
		for i := range 250 {
			messages = append(messages, client.Message{Stream: "bookings", Key: fmt.Sprint("b-", i), Group: fmt.Sprintf("table-%03d", i), Body: []byte("1")})
		}
		for _, r := range w.client.SendBatch(t.Context(), messages) {
			must(t, r.Err)
		}
		w.open("/groups?stream=bookings")
		w.shows("table-000")
		w.press("#next")
		w.shows("table-150")
		w.press("#next")
		w.shows("table-249")
		if w.value(`document.querySelector("#next")`) != "null" {
			t.Error("there is a page after the last one")
		}
		w.press("#first")
		w.shows("table-000")
	})
	task("show the body of a dead letter, which is hidden before", func(t *testing.T, w *consoleWorld) {
		for i := range 4 {
			w.send(client.Message{Stream: "bookings", Key: fmt.Sprint("full-", i), Body: []byte("full")})
		}
		w.press(`nav a[href="/console/letters"]`)
		w.shows("full-3")
		w.press(`.card a[href*="/console/letter?"]`)
		w.shows("no room is left")
		w.shows("Show headers and body")
		if w.value(`document.querySelector("#body")`) != "null" {
			t.Error("the body is in the page before it was asked for")
		}
		w.press(`#show-body`)
		w.shows("Hide the body")
		if got := w.value(`document.querySelector("#body").innerText.trim()`); got != "full" {
			t.Errorf("the body is %q, want full", got)
		}
	})
	task("drop a dead letter", func(_ *testing.T, w *consoleWorld) {
		w.press(`#drop-it summary`)
		w.press(`#drop`)
		w.shows("Dropped 1 dead letter.")
	})
	task("put one dead letter back", func(t *testing.T, w *consoleWorld) {
		must(t, os.WriteFile(w.server.path("healed"), nil, 0o600))
		w.press(`nav a[href="/console/letters"]`)
		w.press(`.card a[href*="/console/letter?"]`)
		w.mark(`input[name=answered]`) // it was rejected
		w.press(`#redrive`)
		w.shows("Put back 1 dead letter.")
		w.open("/letters")
		w.wait("two dead letters are left", `document.querySelectorAll(".card").length === 2`)
	})
	task("put all dead letters of a reason back", func(_ *testing.T, w *consoleWorld) {
		w.press(`a.tag.dead`)
		w.shows("Only with reason rejected")
		w.press(`#redrive-all summary`)
		w.mark(`input[name=answered]`)
		w.press(`#do-redrive-all`)
		w.shows("Put back 2 dead letters.")
		w.open("/letters?reason=rejected")
		w.shows("There are no such dead letters.")
	})
	task("skip the effect that blocks a group", func(t *testing.T, w *consoleWorld) {
		w.open("/group?stream=orders&group=customer-7")
		w.press(`#skip-1-shop summary`)
		w.press(`#do-skip-1`)
		w.shows("Effect 1 is a dead letter for shop.")
		w.shop.healed.Store(true)
		if got := <-w.shop.got; got != "2" {
			t.Errorf("the shop got %q first, want 2", got)
		}
		w.open("/letters")
		w.shows("undeliverable orders")
	})
	task("read a body with a script, which does not run", func(t *testing.T, w *consoleWorld) {
		w.press(`.card a[href*="/console/letter?"]`)
		w.press(`#show-body`)
		w.shows(`"note": "<script>document.title='taken'</script>"`)
		if title := w.value(`document.title`); title == "taken" {
			t.Error("a script of a message has run")
		}
	})
	task("send a message by the form", func(_ *testing.T, w *consoleWorld) {
		w.press(`nav a[href="/console/send"]`)
		w.shows("Send a message")
		w.do(
			chromedp.SendKeys(chromedp.CSS(`select[name=stream]`), "bookings"), chromedp.SendKeys(chromedp.CSS(`input[name=key]`), "by-hand"),
			chromedp.SendKeys(chromedp.CSS(`input[name=group]`), "room-9"), chromedp.SendKeys(chromedp.CSS(`textarea`), "please"),
		)
		w.press(`#send`)
		w.shows("The message was")
		w.press(`.notice a`) // which follows it
		w.shows("Status done")
		w.press(`#show-reply`)
		w.shows(`"bookings": 1`)
	})
	task("use only the keyboard", func(t *testing.T, w *consoleWorld) {
		w.open("")
		w.shows("live")
		w.do(chromedp.KeyEvent(kb.Tab)) // the skip link is first, and leads to the content
		if got := w.value(`document.activeElement.className`); got != "skip" {
			t.Errorf("the first element is %q", got)
		}
		w.do(chromedp.KeyEvent(kb.Enter))
		if got := w.value(`document.activeElement.id`); got != "main" {
			t.Errorf("the skip link leads to %q", got)
		}
		w.tabTo(`.card a[href*="stream=chat"]`)
		if got := w.value(`getComputedStyle(document.activeElement).outlineStyle`); got != "solid" {
			t.Errorf("the focus is shown by an outline that is %s", got)
		}
		w.do(chromedp.KeyEvent(kb.Enter))
		w.shows("Group chat/lobby")
		w.tabTo(`nav a[href="/console/letters"]`)
		w.do(chromedp.KeyEvent(kb.Enter))
		w.shows("undeliverable orders")
		w.tabTo(`.card a[href*="/console/letter?"]`)
		w.do(chromedp.KeyEvent(kb.Enter))
		w.shows("Show headers and body")
		w.tabTo(`#redrive`)
		w.do(chromedp.KeyEvent(kb.Enter))
		w.shows("Put back 1 dead letter.")
		if got := <-w.shop.got; !strings.Contains(got, "note") {
			t.Errorf("the shop got %q", got)
		}
	})
	task("read it in the dark", func(t *testing.T, w *consoleWorld) {
		defer w.dark(false)
		for _, on := range []bool{true, false} {
			w.dark(on)
			for _, path := range w.pages() {
				w.open(path)
				if dark := w.value(`matchMedia("(prefers-color-scheme: dark)").matches && getComputedStyle(document.body).backgroundColor !== "rgb(255, 255, 255)"`); dark != strconv.FormatBool(on) {
					t.Errorf("%s: dark is %s, want %t", path, dark, on)
				}
				// Web Content Accessibility Guidelines, level AA
				if least, err := strconv.ParseFloat(w.value(contrast), 64); err != nil || least < 4.5 {
					t.Errorf("%s: the least contrast of a text is %v (%v), want 4.5 (dark: %t)", path, least, err, on)
				}
			}
		}
	})
	task("read it on a screen of 400 pixels", func(t *testing.T, w *consoleWorld) {
		defer w.do(chromedp.EmulateViewport(1600, 900))
		for _, path := range w.pages() {
			w.do(chromedp.EmulateViewport(400, 800))
			w.open(path)
			if got := w.value(`document.documentElement.scrollWidth`); got != "400" {
				t.Errorf("%s is %s px wide, want 400", path, got)
			}
		}
	})
	task("be kept from writing by another site", func(t *testing.T, w *consoleWorld) {
		w.send(client.Message{Stream: "orders", Key: "order-9", Body: []byte("1")})
		<-w.shop.got
		token := `document.querySelector("[name=token]").value`
		post := func(body string) string { return w.posts("/redrive", body) }
		w.open("/send")
		if got := post(`"token="`); got != "403" {
			t.Errorf("a form without the token: %s, want 403", got)
		}
		if got := post(`"token=" + "x".repeat(` + token + `.length)`); got != "403" {
			t.Errorf("a form with another token: %s, want 403", got)
		}
		if got := post(`"token=" + ` + token); got != "200" {
			t.Errorf("a form with the token: %s, want 200", got)
		}
		// a page of another origin that knows the token is refused, too
		page := fmt.Sprintf(`<!doctype html><form method="post" action="%s/console/redrive"><input name="token" value="%s"></form>`, w.server.url(), w.value(token))
		foreign := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			_, _ = rw.Write([]byte(page))
		}))
		defer foreign.Close()
		w.do(chromedp.Navigate(foreign.URL))
		w.value(`document.querySelector("form").submit()`)
		w.shows("The request comes from a web page of another origin")
	})
	task("keep a page open while the server is killed and started", func(t *testing.T, w *consoleWorld) {
		w.open("/log?stream=room&group=lobby")
		w.shows("live")
		w.value(`document.marked = true`)
		must(t, w.server.kill())
		w.shows("no connection; trying again")
		must(t, w.server.start())
		w.send(client.Message{Stream: "room", Key: "said-3", Group: "lobby", Body: []byte("after the restart")})
		w.shows("said-3 after the restart")
		w.shows("live")
		if w.value(`document.marked`) != "true" {
			t.Error("the page was loaded again")
		}
	})
	task("look at a console that only reads", func(t *testing.T, w *consoleWorld) {
		must(t, w.server.stop())
		w.server.args = []string{"--console", "read"}
		must(t, w.server.start())
		for _, path := range append(w.pages(), "/send") {
			w.open(path)
			if got := w.value(`document.querySelectorAll("form[method=post], main button:not([form]) ~ [name=token], [name=token]").length`); got != "0" {
				t.Errorf("%s has %s forms that write", path, got)
			}
		}
		for _, path := range []string{"/send", "/redrive", "/drop", "/skip"} {
			if got := w.posts(path, `"id=x"`); got != "403" {
				t.Errorf("a post to %s: %s, want 403", path, got)
			}
		}
	})
	if *pictures != "" && !t.Failed() {
		takePictures(t, w)
	}
}

// takePictures makes the pictures of docs/console.md.
func takePictures(t *testing.T, w *consoleWorld) {
	t.Helper()
	must(t, w.server.stop(), os.Remove(w.server.path("healed")))
	w.server.args = []string{"--console", "read"}
	w.shop.healed.Store(false)
	must(t, w.server.configure(strings.ReplaceAll(fmt.Sprintf(consoleStreams, w.shop.URL), "first: 50ms, max: 200ms", "first: 5s, max: 10m")))
	must(t, w.server.start())
	w.send(client.Message{Stream: "bookings", Key: "full-9", Body: []byte("full")})
	w.send(client.Message{Stream: "orders", Key: "order-21", Group: "customer-7", Body: []byte("21")})
	for i, waited := 0, time.Duration(0); waited < 10*time.Minute; i++ {
		go func() { // more and more of them, in waves
			_, _ = w.client.Send(t.Context(), client.Message{Stream: "bookings", Key: fmt.Sprint("p-", i), Group: fmt.Sprintf("table-%03d", i%200), Body: []byte("1")})
		}()
		pause := time.Duration(float64(time.Second) / (20 + 15*(1+float64(int(waited.Seconds())%40)/20)))
		must(t, sleep(t.Context(), pause))
		waited += pause
	}
	// the time of the other page is over
	w.consolePage = consolePage{openPage(t, w.server.url()+"/console")}
	picture := func(path, name string, width, height int64, dark bool) {
		w.dark(dark)
		w.do(chromedp.EmulateViewport(width, height))
		w.open(path)
		w.shows("live")
		data, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
		must(t, err, os.WriteFile(filepath.Join(*pictures, name), data, 0o600))
	}
	picture("", "console.png", 1100, 860, false)
	picture("/groups?stream=bookings", "console-stream.png", 1100, 860, true)
	picture("/message?stream=orders&id=order-21", "console-dark.png", 400, 800, true)
}
