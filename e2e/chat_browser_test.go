package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browserTime is how long a test in a browser may take: the deadline of everything it waits for.
const browserTime = 5 * time.Minute

var chatBinary = sync.OnceValues(func() (string, error) { return buildIn("../examples", "chat", "./chat") })

// startChat starts the chat room on a free port, and returns the address of its page.
func startChat(t *testing.T) string {
	t.Helper()
	path, err := chatBinary()
	must(t, err)
	cmd := exec.Command(path, "-listen", "127.0.0.1:0", "-latency", "1ms", "-data", t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	lines := bufio.NewScanner(out)
	t.Cleanup(func() {
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		for lines.Scan() { // the report, until the program ends
			continue
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the chat ended with %v: %s", err, &stderr)
		}
	})
	lines.Scan()
	address, ok := strings.CutPrefix(lines.Text(), "the room is at http://")
	if !ok {
		t.Fatalf("the chat printed %q (%v): %s", lines.Text(), lines.Err(), &stderr)
	}
	return address
}

// findBrowser returns the path of Chromium or Chrome, and skips the test if there is none.
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-headless-shell", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no browser is in PATH: install chromium, chromium-headless-shell or google-chrome")
	return ""
}

// A browserPage is a page in a browser of its own. An exception in a script of the page fails the
// test.
type browserPage struct {
	t   *testing.T
	ctx context.Context
}

func openPage(t *testing.T, url string) *browserPage {
	t.Helper()
	p := openTab(startBrowser(t), t)
	p.do(chromedp.Navigate(url))
	return p
}

// startBrowser prepares a browser with further options. Its first tab starts it. Without
// [chromedp.UserDataDir] it gets a new folder for its data, which is removed at the end.
func startBrowser(t *testing.T, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	options = append(options, chromedp.ExecPath(findBrowser(t)), chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.WindowSize(1600, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		// Chromium drops keys that are pressed before a page is painted; a person would press again.
		chromedp.Flag("allow-pre-commit-input", true))
	// It outlives the deadline, so that the page can be read then.
	allocator, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(end)
	return allocator
}

// openTab opens a tab: the first one of a browser, or a further one beside a tab.
func openTab(parent context.Context, t *testing.T) *browserPage {
	t.Helper()
	tab, closeTab := chromedp.NewContext(parent)
	t.Cleanup(closeTab)
	must(t, chromedp.Listen(tab, func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			t.Errorf("a script of the page failed: %v", (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
		}
	}))
	ctx, cancel := context.WithTimeout(tab, browserTime)
	t.Cleanup(cancel)
	return &browserPage{t, ctx}
}

// do does what a person does, in order. Elements are waited for.
func (p *browserPage) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatalf("%v; the page shows\n%s", err, p.text())
	}
}

// wait waits until an expression of JavaScript is true. It is evaluated after each change of the
// document.
func (p *browserPage) wait(what, expression string) {
	p.t.Helper()
	script := fmt.Sprintf(`new Promise(resolve => {
		const check = () => { if (%s) { observer.disconnect(); resolve(true); } };
		const observer = new MutationObserver(check);
		observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
		check();
	})`, expression)
	if err := chromedp.Do(p.ctx, chromedp.Evaluate[chromedp.Void](script, chromedp.EvalAwaitPromise)); err != nil {
		p.t.Fatalf("waited for: %s: %v; the page shows\n%s", what, err, p.text())
	}
}

// text returns what the page shows, or why it can't be read. It works after the deadline too.
func (p *browserPage) text() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), time.Minute)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}
