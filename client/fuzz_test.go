package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
)

// always answers every request with the same answer, and expects one request of each call.
type always struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
	tries  int    // of the call
	end    func() // ends it
}

func (a *always) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.tries++; a.tries > 1 {
		a.t.Errorf("%d %v is asked again at once, after all the time that a call has", a.status, a.header)
		a.end()
	}
	return &http.Response{StatusCode: a.status, Header: a.header.Clone(), Body: io.NopCloser(bytes.NewReader(a.body)), Request: r}, nil
}

// FuzzAnswer sends a client any answer. Only a complete receipt of its own message acknowledges the
// message; every other answer is a refusal or no acknowledgement.
func FuzzAnswer(f *testing.F) {
	const problem = "application/problem+json"
	receipt := []byte(`{"id":"k","stream":"s","group":"g","status":"accepted"}`)
	f.Add(202, "application/json", "/v1/streams/s/messages/k", "", "", "", receipt, "k", uint(9), "")
	f.Add(200, "application/json", "", "", "wait=10", "", receipt, "", uint(0), "")
	f.Add(200, "application/json", "", "", "wait=10", "", []byte(`{"id":"new","stream":"s","group":"g","status":"done"}`), "", uint(0), "")
	f.Add(200, "application/json", "", "", "", "", []byte(`{"status":"ok"}`), "k", uint(3), "")
	f.Add(200, "application/json", "", "", "wait=1", "false", []byte(`{"status":"declined"}`), "kk", uint(3), "true")
	f.Add(202, "application/json", "", "", "", "", []byte(`{"id":"k","stream":"s","status":"queued"}`), "k", uint(3), "")
	f.Add(201, "application/json", "", "", "", "", []byte(`{"id":"k","status":"accepted"}`), "k", uint(3), "")
	f.Add(200, "text/plain", "", "", "wait=10", "true", []byte("done"), "kk", uint(1), "true")
	f.Add(200, "application/json", "", "", "", "no", []byte(`{"id":"k","stream":"s","status":"done","reply":{"status":200,"body_base64":"AA=="}}`), "k", uint(30), "")
	f.Add(200, "application/json", "", "", "", "", []byte(`{"id":"k","stream":"s","status":"done","reply":{"status":""}}`), "k", uint(30), "")
	f.Add(202, "application/json", "", "", "wait=10", "true", receipt[:20], "kk", uint(0), "")
	f.Add(409, problem, "", "", "wait=10", "true", []byte(`{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md#leased"}`), "kk", uint(0), "true")
	f.Add(200, problem, "", "", "", "", []byte(`{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md"}`), "k", uint(0), "")
	f.Add(422, problem, "", "", "", "", []byte(`{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md#key-reuse","title":"x"}`), "k", uint(2), "")
	f.Add(503, problem, "", "5", "", "", []byte(`{"type":"about:blank"}`), "k", uint(2), "")
	f.Add(503, "", "", "Fri, 13 Nov 2026 08:00:00 GMT", "", "false", []byte(nil), "k", uint(2), "")
	f.Add(503, "", "", "Fri, 12 Nov 9026 07:59:59 GMT", "", "", []byte(nil), "k", uint(2), "")
	f.Add(307, "", "http://elsewhere/%zz", "", "", "", []byte("{"), "k", uint(2), "")
	f.Add(308, "", "%", "", "", "", []byte("{"), "k", uint(2), "true")
	f.Fuzz(func(t *testing.T, status int, media, location, after, preference, replayed string, body []byte, key string, cut uint, mark string) {
		if len(key) > 256 || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			return // it is not sent
		}
		a := &always{t: t, status: status, header: http.Header{}, body: body}
		for name, value := range map[string]string{
			"Content-Type": media, "Location": location, "Retry-After": after, "Preference-Applied": preference, "Idempotent-Replayed": replayed, "Once-Reply": mark,
		} {
			if value != "" {
				a.header.Set(name, value)
			}
		}
		a.header.Set("Date", "Fri, 13 Nov 2026 07:59:59 GMT")
		got, acknowledged := a.send(t, key)
		if whole := bytes.TrimSpace(body); acknowledged && got.Reply == nil {
			a.body = whole[:cut%uint(len(whole))]
			if got, ok := a.send(t, key); ok && got.Reply == nil {
				t.Errorf("cut short to %q, it acknowledges: %+v", a.body, got)
			}
		}
		a.body = body
		a.ask(t)
	})
}

// client makes a client whose calls have no time for another try, and the context of its next call.
func (a *always) client(t *testing.T) (context.Context, *client.Client) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	a.tries, a.end = 0, end
	c, err := client.New("http://once", client.Options{
		HTTP: &http.Client{Transport: a}, MaxElapsed: time.Nanosecond, MinBackoff: time.Nanosecond, MaxBackoff: time.Nanosecond, NewKey: func() (string, error) { return "new", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, c
}

// send sends a message. It waits for the reply if its key is even.
func (a *always) send(t *testing.T, key string) (client.Receipt, bool) {
	t.Helper()
	m := client.Message{Stream: "s", Key: key, Group: "g"}
	if len(key)%2 == 0 {
		m.Wait = time.Second
	}
	ctx, c := a.client(t)
	r, err := c.Send(ctx, m)
	if err != nil {
		told(t, err)
		return r, false
	}
	if key == "" {
		key = "new"
	}
	replied := m.Wait > 0 && a.header.Get("Once-Reply") == "true" && r.Reply != nil && bytes.Equal(r.Reply.Body, a.body)
	if r.Status != "accepted" && r.Status != "done" || r.Stream != "s" || r.ID != key || r.Reply == nil && !a.names(key, "accepted", "done") || r.Reply != nil && !replied {
		t.Errorf("%d %v %q: %+v", a.status, a.header, a.body, r)
	}
	return r, true
}

// names reports whether the answer is a receipt of a message, by its status and all of its body.
func (a *always) names(key string, statuses ...string) bool {
	var read struct{ ID, Stream, Status string }
	return slices.Contains([]int{200, 201, 202}, a.status) && json.Unmarshal(a.body, &read) == nil &&
		read.ID == key && read.Stream == "s" && slices.Contains(statuses, read.Status)
}

// leadsNowhere reports whether the answer is a redirect to an address that net/http can't parse. It
// returns an error in place of such an answer.
func (a *always) leadsNowhere() bool {
	_, err := url.Parse(a.header.Get("Location"))
	return err != nil && slices.Contains([]int{301, 302, 303, 307, 308}, a.status)
}

// ask makes the other calls.
func (a *always) ask(t *testing.T) {
	t.Helper()
	ctx, c := a.client(t)
	s, err := c.Status(ctx, "s", "k")
	if told(t, err); err == nil && (a.status != http.StatusOK || s.ID != "k" || !a.names("k", "accepted", "held", "committed", "done", "rejected")) {
		t.Errorf("%d %q: %+v", a.status, a.body, s)
	}
	ctx, c = a.client(t)
	_, err = c.Put(ctx, client.Request{Stream: "s", ID: "k"})
	if told(t, err); err == nil && !a.names("k", "accepted", "done") {
		t.Errorf("%d %q: it is stored", a.status, a.body)
	}
	ctx, c = a.client(t)
	reply, err := c.Run(ctx, "s", "k")
	whole := json.Unmarshal(a.body, &client.Receipt{}) == nil
	answered := a.header.Get("Once-Reply") == "true" && !a.leadsNowhere() || a.names("k", "done") && whole
	if told(t, err); (err == nil) != answered {
		t.Errorf("%d %v %q: %+v", a.status, a.header, a.body, reply)
	}
	ctx, c = a.client(t)
	if err := c.Delete(ctx, "s", "k"); (err == nil) != (a.status == http.StatusNoContent) {
		t.Errorf("%d: %v", a.status, err)
	}
}

// told checks that an error says whether it is a refusal, and that only the refusal of a once
// server is unambiguous.
func told(t *testing.T, err error) {
	t.Helper()
	p, refused := errors.AsType[*client.Problem](err)
	_, open := errors.AsType[*client.UnacknowledgedError](err)
	if err != nil && refused == open {
		t.Errorf("an error of no kind, or of two: %v", err)
	}
	if refused && p.Ambiguous != (p.Type == "") {
		t.Errorf("%q after one try: ambiguous %v", p.Type, p.Ambiguous)
	}
}
