package faultproxy_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/effectively-once/once/internal/testkit/faultproxy"
)

// A desk is a service that records the bodies of its requests, and answers them.
type desk struct {
	mu  sync.Mutex
	got []string
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got = append(d.got, string(body))
	_, _ = w.Write(body)
}

func (d *desk) list() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.got, " ")
}

// ask makes one call and returns the status, or the error.
func ask(t *testing.T, client faultproxy.Doer, url, body string) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	return response.StatusCode, err
}

func TestEachFaultDoesWhatItsNameSays(t *testing.T) {
	for _, c := range []struct {
		fault  faultproxy.Fault
		status int
		err    error
		after  string // the applied bodies when the call has ended
		end    string // and after the next call, when all work has ended
	}{
		{faultproxy.None, 200, nil, "first", "first second"},
		{faultproxy.Refused, 500, nil, "", "second"},
		{faultproxy.Throttled, 400, nil, "", "second"},
		{faultproxy.Limited, 400, nil, "", "second"},
		{faultproxy.ResetBefore, 0, syscall.ECONNRESET, "", "second"},
		{faultproxy.ResetAfter, 0, syscall.ECONNRESET, "first", "first second"},
		{faultproxy.Dropped, 0, io.EOF, "first", "first second"},
		{faultproxy.Cut, 200, io.ErrUnexpectedEOF, "first", "first second"},
		{faultproxy.Failed, 500, nil, "first", "first second"},
		{faultproxy.Slow, 0, os.ErrDeadlineExceeded, "first", "first second"},
		{faultproxy.Late, 0, os.ErrDeadlineExceeded, "", "second first"},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			service := &desk{}
			behind := httptest.NewServer(service)
			defer behind.Close()
			proxy := faultproxy.New(behind.URL, faultproxy.At(map[uint64]faultproxy.Fault{1: c.fault}))
			front := httptest.NewServer(proxy)
			defer front.Close()
			client := faultproxy.Impatient(front.Client())

			status, err := ask(t, client, front.URL, "first")
			if status != c.status || !errors.Is(err, c.err) {
				t.Errorf("got %d, %v, want %d, %v", status, err, c.status, c.err)
			}
			if got := service.list(); got != c.after {
				t.Errorf("applied %q, want %q", got, c.after)
			}
			if status, err := ask(t, client, front.URL, "second"); status != http.StatusOK || err != nil {
				t.Errorf("next call: %d, %v", status, err)
			}
			proxy.Drain()
			if got := service.list(); got != c.end {
				t.Errorf("applied in the end %q, want %q", got, c.end)
			}
		})
	}
}

func TestASeedPlansTheSameFaultsEachTime(t *testing.T) {
	plan := func(seed uint64) (out []faultproxy.Fault) {
		p := faultproxy.Seeded(seed, 0.5, 100)
		for n := range uint64(200) {
			out = append(out, p(faultproxy.Call{N: n + 1}))
		}
		return out
	}
	a, b, c, bad := plan(1), plan(1), plan(2), 0
	same, other := true, true
	for i := range a {
		same, other = same && a[i] == b[i], other && a[i] == c[i]
		if a[i] != faultproxy.None {
			bad++
		}
		if i >= 99 && a[i] != faultproxy.None {
			t.Errorf("fault at call %d", i+1)
		}
	}
	if !same || other || bad < 25 || bad > 75 {
		t.Errorf("same seed, same plan: %v; other seed, same plan: %v; %d faults of 99", same, other, bad)
	}
}
