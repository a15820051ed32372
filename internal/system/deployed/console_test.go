package deployed_test

import (
	"bytes"
	"context"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/front/console"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/deployed"
	"github.com/effectively-once/once/internal/system/deployed/stacktest"
	"github.com/effectively-once/once/internal/system/embedded"
)

// counted puts a proxy in front of DynamoDB, and returns a function that returns the operations
// since the last call.
func counted(t *testing.T) (operations func() []string) {
	t.Helper()
	endpoint := os.Getenv("AWS_ENDPOINT_URL_DYNAMODB")
	if endpoint == "" {
		return func() []string { return nil } // the test is skipped when it starts the stack
	}
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []string
	next := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		seen = append(seen, operation)
		mu.Unlock()
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", proxy.URL)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		out := seen
		seen = nil
		return out
	}
}

// A viewed is the console of a stack. Its time is set by the test.
type viewed struct {
	*world
	*testing.T
	server *httptest.Server
	now    time.Time
}

// view serves the console of the stack of a world.
func view(t *testing.T, w *world) *viewed {
	t.Helper()
	v := &viewed{world: w, T: t, now: time.Date(2026, 1, 2, 3, 4, 30, 0, time.UTC)}
	now := func() time.Time { return v.now }
	streams, err := w.system.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New("http://127.0.0.1:1", client.Options{MaxElapsed: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := console.Handler(console.Options{
		System: w.system, Streams: func() []record.Stream { return streams }, Rates: w.stack.Rates(now).Of,
		Remote:  &console.Remote{Name: "Once in us-east-1", Flags: []string{"--stack", "Once"}, Client: api},
		Allowed: embedded.AllowedHosts("127.0.0.1:8090", nil), Done: t.Context().Done(), Now: now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	v.server = httptest.NewServer(pages)
	t.Cleanup(v.server.Close)
	return v
}

// do returns a page as text, and its status.
func (v *viewed) do(method, path, host string, header map[string]string) (status int, text, body string) {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), time.Minute) // events would not end
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, v.server.URL+"/console"+path, bytes.NewReader(nil))
	if err != nil {
		v.Fatal(err)
	}
	r.Host = host
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		v.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		v.Fatal(err)
	}
	spaced := regexp.MustCompile(`</?(td|th|dt|dd|p|span|b|title)\b[^>]*>`).ReplaceAllString(string(all), " ")
	text = html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(spaced, ""))
	return resp.StatusCode, strings.Join(strings.Fields(text), " "), string(all)
}

// shows reads a page, which must show the texts.
func (v *viewed) shows(path string, texts ...string) (body string) {
	v.Helper()
	status, text, body := v.do(http.MethodGet, path, "", nil)
	if status != http.StatusOK {
		v.Errorf("%s: status %d: %s", path, status, text)
	}
	for _, want := range texts {
		if !strings.Contains(text, want) {
			v.Errorf("%s does not show %q:\n%s", path, want, text)
		}
	}
	return body
}

func TestTheConsoleShowsAStackWithoutScansThatNobodyAskedFor(t *testing.T) {
	operations := counted(t)
	w := newWorld(t)
	done := order("o-0", ann)
	done.Group = "customer-8"
	w.process(t, done)
	w.publish(t)
	w.process(t, order("o-1", ann), numbered(3))
	w.refuse(t, record.Refused{Message: record.Message{Stream: "orders", ID: "bad", Group: "g", Body: []byte("secret <b>")}, Reason: record.ReasonHandler, Detail: "no <b>"})
	v := view(t, w)
	operations()

	scans := func(path string, most int) {
		t.Helper()
		reads := operations()
		n := 0
		for _, o := range reads {
			if o == "Scan" {
				n++
			}
		}
		if (n > 0) != (most > 0) {
			t.Errorf("%q reads the tables by %v", path, reads)
		}
	}
	v.shows("", "Once in us-east-1", "number missing chat/room", "Waits for ann=1 , missing since", "once show chat/room --stack Once", "1 dead letter", "Handlers and destinations that fail are not listed here", "once logs --stack Once")
	scans("", 0)
	v.shows("/streams", "orders", "chat")
	v.shows("/groups?stream=orders", "List its groups", "scans the table of groups", "once show orders --stack Once")
	scans("/groups", 0)
	v.shows("/group?stream=orders&group=customer-7", "Group orders/customer-7", "destination shop to take effect 1, of message o-1", "not sent")
	v.shows("/group?stream=chat&group=room", "number 1 of source ann")
	v.shows("/message?stream=orders&id=o-0", "Message o-0", "Status done", "once show orders --id o-0 --stack Once")
	scans("/message", 0)
	v.shows("/groups?stream=orders&list=1", "customer-7", "customer-8")
	scans("/groups?list=1", 1)

	if body := v.shows("/letters", "rejected", "orders bad", "no <b>", "once redrive --stack Once"); strings.Contains(body, "secret") || strings.Contains(body, "no <b>") {
		t.Errorf("the list of dead letters has a body, or markup of a sender: %s", body)
	} else if link := regexp.MustCompile(`/console(/letter\?id=[^"]+)"`).FindStringSubmatch(body); link == nil {
		t.Errorf("no link to a dead letter: %s", body)
	} else {
		v.shows(strings.ReplaceAll(link[1], "&amp;", "&")+"&body=1", "secret <b>")
	}
	v.shows("/totals", "orders", "ingress-dead")

	// It never writes, and pages that cost much are not renewed.
	for _, path := range []string{"/send", "/redrive", "/drop", "/skip"} {
		if status, text, _ := v.do(http.MethodPost, path, "", nil); status != http.StatusForbidden {
			t.Errorf("POST %s: %d %s, want 403", path, status, text)
		}
	}
	for _, path := range []string{"/groups?stream=orders&list=1", "/letters", "/letter?id=x", "/totals"} {
		if status, _, _ := v.do(http.MethodGet, path, "", map[string]string{"Accept": "text/event-stream"}); status != http.StatusNotAcceptable {
			t.Errorf("events of %s: %d, want 406", path, status)
		}
	}
	if status, _, _ := v.do(http.MethodGet, "", "attacker.example", nil); status != http.StatusForbidden {
		t.Errorf("a foreign host: %d, want 403", status)
	}

	// A page that is loaded again within five seconds reads nothing.
	v.shows("/group?stream=orders&group=customer-7&again=1")
	operations()
	v.shows("/group?stream=orders&group=customer-7&again=1")
	if reads := operations(); len(reads) > 0 {
		t.Errorf("the same page reads %v again", reads)
	}
	v.now = v.now.Add(6 * time.Second)
	v.shows("/group?stream=orders&group=customer-7&again=1")
	if reads := operations(); len(reads) == 0 {
		t.Error("the page is still the old one after 6 s")
	}
}

func TestTheConsoleOfAStackHasItsRatesFromCloudWatchOnceAMinute(t *testing.T) {
	w := newWorld(t)
	v := view(t, w)
	v.shows("", "The last 15 minutes as a table", "They are missing: read metrics:", "not authorized to perform")
	minute := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	w.aws.Metrics = map[stacktest.Metric][]stacktest.Value{
		"Once/Accepted//Sum": {{At: minute.Add(3 * time.Minute), Value: 120}, {At: minute.Add(2 * time.Minute), Value: 60}}, "Once/AcceptTime//p99": {{At: minute.Add(3 * time.Minute), Value: 0.25}},
		"Once/Processed/orders/Sum": {{At: minute.Add(3 * time.Minute), Value: 30}},
	}
	v.now = v.now.Add(time.Minute)
	v.shows("", "accepted in the last 15 minutes: 0/s now, 2/s at most", "p99 – now, 250 ms at most", "They are from CloudWatch", "2 2/s 0/s 0/s 0/s – 250 ms", "3 1/s")
	v.shows("/groups?stream=orders", "done in the last 15 minutes: 0/s now, 0.5/s at most")
	calls := w.aws.MetricCalls
	v.now = v.now.Add(30 * time.Second)
	v.shows("")
	if w.aws.MetricCalls != calls {
		t.Error("CloudWatch is asked again within a minute")
	}
	f := w.aws.Functions["process"]
	f.Environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://collector:4318"
	w.aws.Functions["process"] = f
	rates, err := w.stack.Rates(func() time.Time { return v.now }).Of(context.Background(), "")
	if err != nil || !strings.Contains(rates.Note, "send their metrics to the collector") || w.aws.MetricCalls != calls {
		t.Errorf("with a collector: %+v, %v", rates.Note, err)
	}
}

func TestTheConsoleOfAStackNeedsItsConfiguration(t *testing.T) {
	w := newWorld(t)
	w.aws.Denied = []string{"GetFunction"}
	system, err := w.stack.System(deployed.SystemOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := system.Streams(t.Context()); err == nil || !strings.Contains(err.Error(), "lambda:GetFunction") {
		t.Errorf("without the permission: %v", err)
	}
}
