package otlp_test

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "00-" + traceID + "-b7ad6b7169203331-01"
)

// secret must not be in anything that is exported.
const secret = "very-secret"

func message() record.Message {
	return record.Message{
		Principal: secret, Stream: "orders", ID: secret, Group: secret, Body: []byte(secret),
		Headers: map[string]string{"Traceparent": parent, "Tracestate": "v=1", "X-Kind": "push"},
	}
}

// run runs a handler as the engine does.
func run(t *testing.T, h record.Handler, m record.Message) (*record.Attempt, error) {
	t.Helper()
	a := &record.Attempt{ID: "a1", State: []byte("before")}
	return a, h.Run(t.Context(), a, m)
}

// spanOf is the span's id that a traceparent names.
func spanOf(t *testing.T, h map[string]string) string {
	t.Helper()
	parts := strings.Split(h["traceparent"], "-")
	if len(parts) != 4 || parts[1] != traceID || parts[3] != "01" {
		t.Fatalf("headers %v", h)
	}
	return parts[2]
}

func id(b []byte) string { return hex.EncodeToString(b) }

func TestAMessagesTraceGoesThroughItsHandlerToItsDestination(t *testing.T) {
	c := collecting(t)
	tm := exporting(t, telemetry.Options{})
	a, err := run(t, tm.Handler(dedup.ForwardTo([]string{"shop"})), message())
	if err != nil {
		t.Fatal(err)
	}
	effect := a.Effects()[0]
	if effect.Headers["tracestate"] != "v=1" || effect.Headers["X-Kind"] != "push" || len(effect.Headers) != 3 {
		t.Errorf("headers %v", effect.Headers)
	}
	var sent []record.Delivery
	sender := tm.Sender("shop", "webhook", sending(func(list []record.Delivery) []error { sent = list; return make([]error, len(list)) }))
	given := []record.Delivery{{Identity: "orders/" + secret + "/1", Stream: "orders", Group: secret, Effect: effect}}
	if errs := sender.Send(t.Context(), given); len(errs) != 1 || errs[0] != nil {
		t.Fatal(errs)
	}
	if diff := cmp.Diff(effect.Headers, given[0].Effect.Headers); diff != "" {
		t.Errorf("the caller's delivery was changed:\n%s", diff)
	}
	tm.Flush(t.Context(), nil)
	process, publish := c.span(t, "process orders"), c.span(t, "publish shop")
	if id(process.TraceId) != traceID || id(process.ParentSpanId) != "b7ad6b7169203331" || process.Kind != otlp.Span_SPAN_KIND_CONSUMER {
		t.Errorf("process %v", process)
	}
	if id(publish.TraceId) != traceID || id(publish.ParentSpanId) != id(process.SpanId) || publish.Kind != otlp.Span_SPAN_KIND_CLIENT {
		t.Errorf("publish %v", publish)
	}
	if spanOf(t, effect.Headers) != id(process.SpanId) || spanOf(t, sent[0].Effect.Headers) != id(publish.SpanId) {
		t.Errorf("the effect has %v, and what is sent %v", effect.Headers, sent[0].Effect.Headers)
	}
	m := message()
	if got := attributes(process.Attributes); got["once.group"] != m.GroupKey().String() || got["once.token"] != record.NewTokenKey(m.Principal, m.Stream, m.ID).String() || got["once.attempt"] != "a1" {
		t.Errorf("attributes %v", got)
	}
	if strings.Contains(c.raw.String(), secret) {
		t.Errorf("a key, a group or a body is told: %s", c.raw.String())
	}
}

type sending func([]record.Delivery) []error

func (s sending) Send(_ context.Context, list []record.Delivery) []error { return s(list) }

func TestEffectsOfAHandlerInheritTheTraceOfItsMessage(t *testing.T) {
	handler := func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.Send(record.Effect{To: []string{"x"}, Body: []byte("1")})
		a.Blob("k1", []byte("b1"))
		a.Send(record.Effect{To: []string{"y"}, Headers: map[string]string{"traceparent": "00-own"}})
		a.Blob("k2", []byte("b2"))
		a.Reply(record.Reply{Status: 201})
		a.State = []byte("after")
		return nil
	}
	for name, open := range map[string]func() *telemetry.Telemetry{
		"without a collector": func() *telemetry.Telemetry { return exporting(t, telemetry.Options{}) },
		"with a collector":    func() *telemetry.Telemetry { collecting(t); return exporting(t, telemetry.Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			a, err := run(t, open().Handler(handler), message())
			if err != nil {
				t.Fatal(err)
			}
			plain, err := run(t, handler, message())
			if err != nil {
				t.Fatal(err)
			}
			got, want := a.Effects(), plain.Effects()
			if spanOf(t, got[0].Headers) == "" || got[0].Headers["tracestate"] != "v=1" {
				t.Errorf("headers %v", got[0].Headers)
			}
			got[0].Headers = nil // all other fields are unchanged
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			staged := map[string]string{}
			for n, body := range a.Staged() {
				staged[n] = string(body)
			}
			if diff := cmp.Diff(map[string]string{"a1.0-" + a.Group.Mark(): "b1", "a1.1-" + a.Group.Mark(): "b2"}, staged); diff != "" {
				t.Errorf("blobs (-want +got):\n%s", diff)
			}
			if string(a.State) != "after" || a.Answer().Status != 201 {
				t.Errorf("state %s, reply %v", a.State, a.Answer())
			}
		})
	}
}

func TestWithoutACollectorATraceIsPassedOnAsItIs(t *testing.T) {
	tm := exporting(t, telemetry.Options{})
	a, err := run(t, tm.Handler(dedup.ForwardTo([]string{"shop"})), message())
	if err != nil {
		t.Fatal(err)
	}
	// spelled as receivers expect
	want := map[string]string{"traceparent": parent, "tracestate": "v=1", "X-Kind": "push"}
	if diff := cmp.Diff(want, a.Effects()[0].Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	untraced := message()
	untraced.Headers = map[string]string{"X-Kind": "push", "tracestate": "v=1"}
	if a, err = run(t, tm.Handler(dedup.ForwardTo([]string{"shop"})), untraced); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(untraced.Headers, a.Effects()[0].Headers); diff != "" {
		t.Errorf("headers of a message without a trace (-want +got):\n%s", diff)
	}
}

func TestANewTraceInheritsNothingFromABrokenOne(t *testing.T) {
	c := collecting(t)
	tm := exporting(t, telemetry.Options{})
	m := message()
	m.Headers["Traceparent"] = "00-1-2-01"
	a, err := run(t, tm.Handler(dedup.ForwardTo([]string{"shop"})), m)
	if err != nil {
		t.Fatal(err)
	}
	tm.Flush(t.Context(), nil)
	span := c.span(t, "process orders")
	want := map[string]string{"traceparent": "00-" + id(span.TraceId) + "-" + id(span.SpanId) + "-01", "X-Kind": "push"}
	if diff := cmp.Diff(want, a.Effects()[0].Headers); diff != "" || len(span.ParentSpanId) > 0 {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestFailuresAreMarkedWithoutTheirText(t *testing.T) {
	failures := map[string]record.Handler{
		"failed": func(context.Context, *record.Attempt, record.Message) error { return errors.New(secret) },
		"rejected": func(context.Context, *record.Attempt, record.Message) error {
			return &record.RejectError{Detail: secret}
		},
		"panic":   func(context.Context, *record.Attempt, record.Message) error { panic(secret) },
		"timeout": func(context.Context, *record.Attempt, record.Message) error { return context.DeadlineExceeded },
	}
	for kind, handler := range failures {
		t.Run(kind, func(t *testing.T) {
			c := collecting(t)
			tm := exporting(t, telemetry.Options{})
			if _, err := run(t, tm.Handler(handler), message()); err == nil {
				t.Error("no error")
			}
			tm.Flush(t.Context(), nil)
			span := c.span(t, "process orders")
			if span.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || attributes(span.Attributes)["error.type"] != kind {
				t.Errorf("span %v", span)
			}
			if strings.Contains(c.raw.String(), secret) {
				t.Errorf("the text of a failure is told: %s", c.raw.String())
			}
		})
	}
}

func TestEachDeliveryHasItsOwnSpanAndResult(t *testing.T) {
	c := collecting(t)
	tm := exporting(t, telemetry.Options{})
	refusal := &record.RefusedError{Reason: record.ReasonGone, Detail: secret}
	want := []error{nil, errors.New(secret), refusal}
	sender := tm.Sender("queue", "sqs", sending(func([]record.Delivery) []error { return want }))
	got := sender.Send(t.Context(), make([]record.Delivery, 3))
	if !slices.Equal(got, want) {
		t.Errorf("errors %v", got)
	}
	func() {
		defer func() { _ = recover() }()
		tm.Sender("broken", "sns", sending(func([]record.Delivery) []error { panic(secret) })).Send(t.Context(), make([]record.Delivery, 1))
	}()
	tm.Flush(t.Context(), nil)
	kinds := []string{}
	for _, s := range c.spans {
		kinds = append(kinds, s.Name+" "+attributes(s.Attributes)["error.type"]+attributes(s.Attributes)["once.reason"])
		if s.Kind != otlp.Span_SPAN_KIND_PRODUCER {
			t.Errorf("span %v", s)
		}
	}
	if diff := cmp.Diff([]string{"publish queue ", "publish queue failed", "publish queue refusedgone", "publish broken panic"}, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(c.raw.String(), secret) {
		t.Errorf("the text of a failure is told: %s", c.raw.String())
	}
}

func TestARequestIsASpanThatItsMessageIsPartOf(t *testing.T) {
	for name, c := range map[string]struct {
		sent   http.Header
		parent string
	}{
		"of a trace":                {http.Header{"Traceparent": {parent}, "Tracestate": {"v=1"}}, "b7ad6b7169203331"},
		"of no trace":               {http.Header{}, ""},
		"that names the message's":  {http.Header{"Traceparent": {"00-11111111111111111111111111111111-2222222222222222-01"}, "Once-Header-Traceparent": {parent}}, "b7ad6b7169203331"},
		"with a trace that is none": {http.Header{"Traceparent": {"00-1-2-01"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			collected := collecting(t)
			tm := exporting(t, telemetry.Options{})
			mux := http.NewServeMux()
			var seen http.Header
			mux.HandleFunc("POST /v1/streams/{stream}/requests/{id...}", func(w http.ResponseWriter, r *http.Request) {
				seen = r.Header
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			r := httptest.NewRequest(http.MethodPost, "/v1/streams/orders/requests/"+secret+"?q="+secret, strings.NewReader(secret))
			r.Header = c.sent.Clone()
			w := httptest.NewRecorder()
			tm.HTTP(mux).ServeHTTP(w, r)
			tm.Flush(t.Context(), nil)
			span := collected.span(t, "POST /v1/streams/{stream}/requests/{id...}")
			got := attributes(span.Attributes)
			if got["http.response.status_code"] != "503" || got["once.stream"] != "orders" || got["http.route"] != "/v1/streams/{stream}/requests/{id...}" || w.Code != 503 {
				t.Errorf("attributes %v", got)
			}
			if span.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
				t.Errorf("the status of an answer of 503 is %v", span.Status)
			}
			if span.Kind != otlp.Span_SPAN_KIND_SERVER || id(span.ParentSpanId) != c.parent || c.parent != "" && id(span.TraceId) != traceID {
				t.Errorf("span %v", span)
			}
			if want := "00-" + id(span.TraceId) + "-" + id(span.SpanId) + "-01"; seen.Get("Traceparent") != want || seen.Get("Once-Header-Traceparent") != "" {
				t.Errorf("the message's headers are %v", seen)
			}
			if diff := cmp.Diff(c.sent, r.Header); diff != "" {
				t.Errorf("the caller's request was changed:\n%s", diff)
			}
			if strings.Contains(collected.raw.String(), secret) {
				t.Errorf("a key is told: %s", collected.raw.String())
			}
		})
	}
}

func TestASpanNamesOnlyStreamsThatAreConfigured(t *testing.T) {
	collected := collecting(t)
	tm := exporting(t, telemetry.Options{Known: func(stream string) bool { return stream == "orders" }})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/{stream}/known", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/{stream}/unknown", func(http.ResponseWriter, *http.Request) {})
	for _, path := range []string{"/v1/orders/known", "/v1/" + secret + "/unknown"} {
		tm.HTTP(mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody))
	}
	tm.Flush(t.Context(), nil)
	for name, want := range map[string]string{"GET /v1/{stream}/known": "orders", "GET /v1/{stream}/unknown": ""} {
		if got := attributes(collected.span(t, name).Attributes)["once.stream"]; got != want {
			t.Errorf("%s: the stream is %q, want %q", name, got, want)
		}
	}
	if strings.Contains(collected.raw.String(), secret) {
		t.Errorf("a name that a caller made up is exported: %s", collected.raw.String())
	}
}

func TestTheStatusOfASpanIsTheFinalOne(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		status  string
		code    otlp.Status_StatusCode
	}{
		"early hints, then created": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
		}, "201", otlp.Status_STATUS_CODE_UNSET},
		"a body without a status": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }, "200", otlp.Status_STATUS_CODE_UNSET},
		"a mistake of the caller": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) }, "422", otlp.Status_STATUS_CODE_UNSET},
		"a fault":                 {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "500", otlp.Status_STATUS_CODE_ERROR},
	} {
		t.Run(name, func(t *testing.T) {
			collected := collecting(t)
			tm := exporting(t, telemetry.Options{})
			mux := http.NewServeMux()
			mux.HandleFunc("GET /x", c.handler)
			tm.HTTP(mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/x", http.NoBody))
			tm.Flush(t.Context(), nil)
			span := collected.span(t, "GET /x")
			if got := attributes(span.Attributes); got["http.response.status_code"] != c.status || span.Status.GetCode() != c.code {
				t.Errorf("status %s, %v", got["http.response.status_code"], span.Status)
			}
		})
	}
}
