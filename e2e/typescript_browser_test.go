package e2e

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// The page of these checks has two senders of the client for TypeScript, with their messages in
// IndexedDB. It is open in two tabs, which share both senders.
//
//go:embed testdata/outbox.html
var outboxPage string

const (
	outboxKeyed    = 50  // messages with keys of each tab
	outboxNumbered = 100 // messages of one source, by both tabs
	outboxConfig   = `
streams:
  orders: {destinations: [orders]}
  numbered: {admission: sequence, destinations: [numbered]}
destinations:
  orders: {file: out/orders.jsonl}
  numbered: {file: out/numbered.jsonl}
`
)

// typescriptClient compiles the client for TypeScript and returns the folder of its modules.
var typescriptClient = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(bin, "typescript")
	if err := os.CopyFS(filepath.Join(dir, "src"), os.DirFS("../clients/typescript/src")); err != nil {
		return "", fmt.Errorf("copy client: %w", err)
	}
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json"} {
		text, err := os.ReadFile(filepath.Join("../clients/typescript", name))
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o600)); err != nil {
			return "", fmt.Errorf("copy client: %w", err)
		}
	}
	for _, command := range [][]string{
		{"npm", "ci", "--prefer-offline", "--loglevel=error", "--no-audit", "--no-fund", "--no-update-notifier"},
		{"npm", "run", "--silent", "build"},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", command, err, out)
		}
	}
	return filepath.Join(dir, "dist"), nil
})

func TestThePageOfTwoTabsSendsEachMessageOnceWhateverIsKilled(t *testing.T) {
	random := newRandom(t)
	modules, err := typescriptClient()
	must(t, err)
	s := newServer(t, onceBinary, outboxConfig)
	must(t, s.start())
	site := httptest.NewServer(outboxSite(modules, s.url(), random))
	t.Cleanup(site.Close)

	data := chromedp.UserDataDir(t.TempDir())
	b := &outboxBrowser{t: t, site: site.URL, data: data}
	b.open()
	for range 10 {
		must(t, sleep(t.Context(), time.Duration(20+random.IntN(150))*time.Millisecond))
		switch random.IntN(5) {
		case 0:
			must(t, s.kill(), s.start())
		case 1:
			b.kill()
		case 2:
			b.crash(random.IntN(2))
		default:
			b.tabs[random.IntN(2)].do(chromedp.Reload())
		}
	}
	for _, tab := range b.tabs {
		tab.wait("all messages are acknowledged", `document.body.dataset.done`)
	}

	want := func(count int) (numbers []string) {
		for n := range count {
			numbers = append(numbers, strconv.Itoa(n+1))
		}
		return numbers
	}
	orders, numbered := outboxEffects(t, s, "orders"), outboxEffects(t, s, "numbered")
	for _, tab := range []string{"0", "1"} {
		if !slices.Equal(orders[tab], want(outboxKeyed)) {
			t.Errorf("the effects of tab %s are %v, want 1 to %d, each once and in order", tab, orders[tab], outboxKeyed)
		}
	}
	if !slices.Equal(numbered["page"], want(outboxNumbered)) {
		t.Errorf("the numbered effects are %v, want 1 to %d, each once and in order", numbered["page"], outboxNumbered)
	}
	if len(orders) != 2 || len(numbered) != 1 {
		t.Errorf("effects of %d groups and %d sources, want 2 and 1", len(orders), len(numbered))
	}
}

// outboxEffects waits until the acknowledged messages of a stream are in its file, and returns
// their bodies, by group.
func outboxEffects(t *testing.T, s *server, stream string) map[string][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drainTime)
	defer cancel()
	effects := map[string][]string{}
	err := poll(ctx, 20*time.Millisecond, func() (bool, error) {
		lines, err := readLines(s.path("out/" + stream + ".jsonl"))
		clear(effects)
		for _, l := range lines {
			effects[l.Group] = append(effects[l.Group], string(l.Body))
		}
		return len(lines) >= 100, ignoreMissing(err)
	})
	if err != nil {
		t.Errorf("the file of %s has %v: %v", stream, effects, err)
	}
	return effects
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// outboxSite serves the page, the modules of the client, and at the same origin the server. Of the
// answers of the server it loses a fifth. While the server is down, a request gets no answer.
func outboxSite(modules, server string, random *rand.Rand) http.Handler {
	target, err := url.Parse(server)
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	lost := errors.New("the answer is lost")
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(*http.Response) error {
			mu.Lock()
			defer mu.Unlock()
			if random.IntN(5) == 0 {
				return lost
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", proxy)
	mux.Handle("/client/", http.StripPrefix("/client/", http.FileServer(http.Dir(modules))))
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, outboxPage) // the browser may have left
	})
	mux.HandleFunc("/favicon.ico", http.NotFound)
	return mux
}

// An outboxBrowser has the page in two tabs, and keeps its data when it is killed.
type outboxBrowser struct {
	t    *testing.T
	site string
	data chromedp.ExecAllocatorOption
	tabs [2]*browserPage
}

func (b *outboxBrowser) address(tab int) string {
	return fmt.Sprintf("%s/?tab=%d&keyed=%d&numbered=%d", b.site, tab, outboxKeyed, outboxNumbered)
}

// open starts the browser.
func (b *outboxBrowser) open() {
	b.t.Helper()
	b.tabs[0] = openTab(startBrowser(b.t, b.data), b.t)
	b.tabs[0].do(chromedp.Navigate(b.address(0)))
	b.tabs[1] = openTab(b.tabs[0].ctx, b.t)
	b.tabs[1].do(chromedp.Navigate(b.address(1)))
}

// kill kills the browser by SIGKILL, and starts it again with the same data.
func (b *outboxBrowser) kill() {
	b.t.Helper()
	c := chromedp.FromContext(b.tabs[0].ctx)
	must(b.t, c.Browser.Process().Kill())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.tabs[0].ctx), 10*time.Second)
	defer cancel()
	_ = chromedp.Cancel(ctx) // the browser is dead; this waits for its end
	b.open()
}

// crash ends the process of a tab, and opens the page again.
func (b *outboxBrowser) crash(tab int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.tabs[tab].ctx, time.Minute)
	defer cancel()
	must(b.t, chromedp.Listen(ctx, func(event any) {
		if _, ok := event.(*inspector.EventTargetCrashed); ok {
			cancel()
		}
	}))
	_ = chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.Crash, cdp.Empty{}) // no answer comes, but the event
		return err
	}))
	b.tabs[tab].do(chromedp.Navigate(b.address(tab)))
}
