package console_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/front/console"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/telemetry/recent"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

// charted returns the first page with charts.
func charted(t *testing.T, rates func(context.Context, string) (console.Rates, error)) answer {
	t.Helper()
	w := newWorld(t, embedded.ConsoleOff)
	pages, err := console.Handler(console.Options{
		System: w.system, API: w.system.Handler(), Streams: func() []record.Stream { return nil }, Allowed: func(string) bool { return true }, Rates: rates,
		DataDir: w.data, Done: t.Context().Done(), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(pages)
	defer server.Close()
	w.server.Close()
	w.server = server
	return w.load("")
}

func TestAChartHasItsValuesAsALineInWordsAndInATable(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	a := charted(t, func(_ context.Context, stream string) (console.Rates, error) {
		if stream != "" {
			t.Errorf("the first page has the rates of stream %q", stream)
		}
		return console.Rates{Step: 30 * time.Second, Steps: 6, Note: "Only a test.", Charts: []console.Chart{
			{Name: "accepted", Unit: console.PerSecond, Lines: []console.Line{{Values: []float64{0, 100, 50, 0.25}}}},
			{Name: "handler", Unit: console.Seconds, Lines: []console.Line{{"p50", []float64{none, 0.0021, none, 0.5}}, {"p99", []float64{none, none, none, none}}}},
		}}, nil
	})
	for _, want := range []string{
		`aria-label="accepted in the last 3 minutes: 0.2/s now, 100/s at most"`,
		`d="M96.0 46.0L144.0 2.0L192.0 24.0L240.0 45.9"`, // the last value is at the right
		`d="M144.0 45.8h.1M240.0 2.0h.1"`,                // values with a hole between them
		`aria-label="handler in the last 3 minutes: p50 500 ms now, 500 ms at most; p99 – now, – at most"`,
		`<th scope="col">handler p50</th>`, `<th scope="row">1</th><td>25.1/s</td><td>500 ms</td><td>–</td>`,
		`<th scope="row">2</th><td>50/s</td><td>2.1 ms</td><td>–</td>`, `<th scope="row">3</th><td>–</td><td>–</td><td>–</td>`, "Only a test.",
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the page has no %s:\n%s", want, a.body)
		}
	}
	if a := charted(t, func(context.Context, string) (console.Rates, error) { return console.Rates{}, errors.New("no metrics") }); a.status != http.StatusInternalServerError {
		t.Errorf("charts that fail: %d, want 500", a.status)
	}
}

func TestTheRatesOfAStreamAreOnItsPage(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var later atomic.Int64
	w := newWorldAt(t, embedded.ConsoleRead, func() time.Time { return began.Add(time.Duration(later.Load())) })
	for _, key := range []string{"a", "b", "c"} {
		w.send(client.Message{Stream: "jobs", Key: key, Body: []byte("1")})
	}
	eventually.Succeeds(t, func() error {
		stats, err := w.system.Stats(t.Context())
		if err == nil && !stats.Idle {
			err = fmt.Errorf("not idle: %+v", stats)
		}
		return err
	})
	later.Store(int64(recent.Step))
	for _, chart := range []string{"accepted", "done"} {
		found := regexp.MustCompile(chart + ` in the last 10 minutes: \S+ now, 0\.6/s at most`)
		if page := w.get("/groups", "stream", "jobs").body; !found.MatchString(page) {
			t.Errorf("3 messages in one step make no rate of %s: %s", chart, page)
		}
	}
	a := w.get("/groups", "stream", "jobs")
	w.shows(a, "failed 0/s", "dead letters 0/s", "The last 10 minutes as a table")
	if !regexp.MustCompile(`handler in the last 10 minutes: p50 \S+( .s)? now, \d\S* .?s at most; p99`).MatchString(a.body) {
		t.Errorf("the page has no latency of the handler: %s", a.body)
	}
	w.shows(w.get("/groups", "stream", "room"), "accepted 0/s")
}
