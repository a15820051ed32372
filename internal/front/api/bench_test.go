package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
)

// instant is an engine and a queue that return immediately, so that only the API is measured.
type instant struct{ api.Engine }

func (instant) Stream(name string) (record.Stream, bool) {
	return record.Stream{Name: name, Admission: record.ByKey}, true
}

func (instant) IssueAll(_ context.Context, messages []record.Message) []admission.Issued {
	results := make([]admission.Issued, len(messages))
	for i := range results {
		results[i] = admission.Issued{Token: record.Token{State: record.Issued}, Fresh: true}
	}
	return results
}

func (instant) EnqueueAll(_ context.Context, messages []record.Message) []error {
	return make([]error, len(messages))
}

// discard is a ResponseWriter that drops the answer.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func BenchmarkAccept(b *testing.B) {
	h := api.New(api.Options{Engine: instant{}, Queue: instant{}, Now: func() time.Time { return time.Time{} }})
	body := strings.NewReader(strings.Repeat("x", 1024))
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/streams/orders/messages", io.NopCloser(body))
	r.ContentLength = 1024
	r.Header.Set("Content-Type", "application/json")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_, _ = body.Seek(0, io.SeekStart)
		r.Header["Idempotency-Key"] = []string{strconv.Itoa(i)}
		h.ServeHTTP(&discard{http.Header{}}, r)
	}
}

// BenchmarkBatch measures a message of a batch of 100.
func BenchmarkBatch(b *testing.B) {
	h := api.New(api.Options{Engine: instant{}, Queue: instant{}, Now: func() time.Time { return time.Time{} }})
	const size = 100
	var lines strings.Builder
	for i := range size {
		lines.WriteString(`{"key":"` + strconv.Itoa(i) + `","body":{"text":"` + strings.Repeat("x", 1013) + "\"}}\n")
	}
	body := strings.NewReader(lines.String())
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/streams/orders/batch", io.NopCloser(body))
	r.ContentLength = body.Size()
	r.Header.Set("Content-Type", "application/x-ndjson")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%size == 0 { // each round counts as one message
			_, _ = body.Seek(0, io.SeekStart)
			h.ServeHTTP(&discard{http.Header{}}, r)
		}
	}
}
