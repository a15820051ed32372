package scrape_test

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/scrape"
)

// scraped returns the values of the series of once, by their names with labels.
func scraped(t *testing.T, handler http.Handler) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %s %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	values := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, "once_") {
			values[name] = value
		}
	}
	return values
}

func TestAScrapeHasEveryMetricAndTheDepthOfQueues(t *testing.T) {
	m := scrape.New(time.Now, func() []scrape.Depth { return []scrape.Depth{{Queue: "ingress", Ready: 3, InFlight: 2, Delayed: 1}} })
	tm := telemetry.Local(telemetry.Options{Also: m.Observe, Known: func(stream string) bool { return stream == "orders" }})
	for _, e := range events("orders") {
		tm.Observe(e)
	}
	tm.Observe(record.Event{Name: record.EventProcessed, Stream: "made-up", Count: 2})
	values := scraped(t, m.Handler())
	for _, name := range telemetry.Metrics() {
		series := scrape.Name(name)
		if name == telemetry.MetricAcceptTime {
			series += "_count"
		}
		if name == telemetry.MetricDenied { // it names no stream
			if values[series+`{reason="host"}`] != "1" {
				t.Errorf("no %s", series)
			}
			continue
		}
		if name == telemetry.MetricDeadLettered { // counted at the queues
			continue
		}
		if values[series+`{stream="orders"}`] == "" {
			t.Errorf("no %s", series)
		}
	}
	for series, want := range map[string]string{
		`once_processed_total{stream="~other"}`:                  "2",
		`once_queue_messages{queue="ingress",state="ready"}`:     "3",
		`once_queue_messages{queue="ingress",state="in_flight"}`: "2",
		`once_queue_messages{queue="ingress",state="delayed"}`:   "1",
	} {
		if values[series] != want {
			t.Errorf("%s is %q, want %s", series, values[series], want)
		}
	}
}

// events returns an event of each kind.
func events(stream string) (all []record.Event) {
	for _, name := range []record.EventName{
		record.EventProcessed, record.EventDuplicate, record.EventHeld, record.EventRetried, record.EventConflict, record.EventPublished, record.EventSkipped, record.EventDropped, record.EventGap,
		record.EventPending, record.EventHandlerFailed, record.EventAccepted, record.EventReplayed, record.EventRefused, record.EventFailed, record.EventStopped, record.EventTakeover,
		record.EventEndWaits, record.EventUnreadLate,
	} {
		all = append(all, record.Event{Name: name, Stream: stream, Count: 1, Age: 1500 * time.Millisecond})
	}
	all = append(all, record.Event{Name: record.EventDenied, Reason: "host", Count: 1})
	for _, reason := range []record.Reason{record.ReasonKeyReuse, record.ReasonUnknown} {
		all = append(all, record.Event{Name: record.EventRejected, Stream: stream, Count: 1, Reason: reason})
	}
	return all
}

func TestAnAgeIsScrapedForAMinuteAndNotForThree(t *testing.T) {
	now := time.Unix(1e9, 0)
	m := scrape.New(func() time.Time { return now }, func() []scrape.Depth { return nil })
	age := func() string { return scraped(t, m.Handler())[`once_gap_age_seconds{stream="orders"}`] }
	observe := func(d time.Duration) { m.Observe(&record.Event{Name: record.EventGap, Stream: "orders", Age: d}) }
	observe(9 * time.Second)
	observe(4 * time.Second)
	for range 2 { // every reader gets it
		if got := age(); got != "9" {
			t.Errorf("the age is %q", got)
		}
	}
	now = now.Add(61 * time.Second)
	observe(5 * time.Second)
	if got := age(); got != "9" {
		t.Errorf("after a minute the age is %q", got)
	}
	now = now.Add(60 * time.Second)
	if got := age(); got != "5" {
		t.Errorf("after two minutes the age is %q", got)
	}
	now = now.Add(3 * time.Minute)
	if got := age(); got != "" {
		t.Errorf("after five minutes the age is %q", got)
	}
}

func TestAReaderChoosesFormatCompressionAndMetrics(t *testing.T) {
	m := scrape.New(time.Now, func() []scrape.Depth { return []scrape.Depth{{Queue: "ingress", Ready: 3}} })
	m.Observe(&record.Event{Name: record.EventProcessed, Stream: "orders", Count: 2})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics?name[]=once_processed_total&name[]=go_goroutines", nil)
	r.Header.Set("Accept-Encoding", "deflate, gzip")
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,text/plain;q=0.5")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	plain, err := gzip.NewReader(w.Body)
	if err != nil || w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("headers %v, %v", w.Header(), err)
	}
	decoder := expfmt.NewDecoder(plain, expfmt.Format(w.Header().Get("Content-Type")))
	got := map[string]float64{}
	for {
		var family dto.MetricFamily
		if err := decoder.Decode(&family); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		got[family.GetName()] = family.GetMetric()[0].GetCounter().GetValue()
	}
	if len(got) != 2 || got["once_processed_total"] != 2 {
		t.Errorf("got %v", got)
	}
}
