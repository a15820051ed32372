package faultproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Proxy forwards calls to a service, with the faults of its plan. It is an http.Handler. Late
// calls are pending until Drain.
type Proxy struct {
	target string
	plan   Plan
	client *http.Transport

	mu       sync.Mutex
	calls    []Call
	answered chan struct{} // closed at the next answer
	drained  chan struct{}
	closed   bool
	inFlight sync.WaitGroup
}

// Limit is the timeout for the service, from the connection to the end of the response.
const Limit = 30 * time.Second

// New returns a proxy to the service at a URL.
func New(target string, plan Plan) *Proxy {
	return &Proxy{
		target: strings.TrimSuffix(target, "/"), plan: plan, answered: make(chan struct{}), drained: make(chan struct{}),
		client: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16},
	}
}

// Calls returns the calls so far, in order.
func (p *Proxy) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Call(nil), p.calls...)
}

// Drain lets late calls continue and waits until the service has answered them. The client makes no
// calls afterwards.
func (p *Proxy) Drain() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.drained)
	}
	p.mu.Unlock()
	p.inFlight.Wait()
	p.client.CloseIdleConnections()
}

// An answer is a response of the service.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ServeHTTP forwards one call.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.inFlight.Add(1)
	defer p.inFlight.Done()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client closed the connection before it had sent the request
	}
	call := p.number(r)
	fault := p.plan(call)
	if refusal := fault.refusal(); refusal != nil {
		p.reply(w, refusal)
		return
	}
	switch fault {
	case ResetBefore:
		reset(w)
		return
	case Late:
		giveUp(w)
		p.waitForNext(r.Context())
	default:
	}
	got, err := p.forward(r, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	p.back(w, r, fault, got)
}

// back writes the response, unless the fault prevents it.
func (p *Proxy) back(w http.ResponseWriter, r *http.Request, fault Fault, got *answer) {
	switch fault {
	case ResetAfter:
		reset(w)
	case Dropped:
		panic(http.ErrAbortHandler) // the server closes the connection without a response
	case Cut:
		half := *got
		half.header = got.header.Clone()
		half.header.Set("Content-Length", strconv.Itoa(len(got.body)))
		half.body = got.body[:len(got.body)/2]
		p.reply(w, &half)
		panic(http.ErrAbortHandler)
	case Failed:
		p.reply(w, internalError())
	case Slow:
		giveUp(w)
		<-r.Context().Done()
	case Late: // the client has gone
	default:
		p.reply(w, got)
	}
}

func (p *Proxy) number(r *http.Request) Call {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	p.mu.Lock()
	defer p.mu.Unlock()
	c := Call{N: uint64(len(p.calls)) + 1, Operation: operation}
	p.calls = append(p.calls, c)
	return c
}

// waitForNext waits until the client has gone, and another call has been answered since.
func (p *Proxy) waitForNext(client context.Context) {
	<-client.Done()
	p.mu.Lock()
	next := p.answered
	p.mu.Unlock()
	select {
	case <-next:
	case <-p.drained:
	}
}

// forward calls the service, even if the client has gone.
func (p *Proxy) forward(r *http.Request, body []byte) (*answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), Limit)
	defer cancel()
	out, err := http.NewRequestWithContext(ctx, r.Method, p.target+r.URL.RequestURI(), bytes.NewReader(body)) //nolint:gosec // handing requests on is what it is for
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	out.Header, out.Host = r.Header.Clone(), r.Host
	response, err := p.client.RoundTrip(out)
	if err != nil {
		return nil, fmt.Errorf("ask service: %w", err)
	}
	defer response.Body.Close()
	got := &answer{status: response.StatusCode, header: response.Header}
	if got.body, err = io.ReadAll(response.Body); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return got, nil
}

func (p *Proxy) reply(w http.ResponseWriter, a *answer) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) //nolint:gosec // as the service said it; a client that has gone asks again
	_ = http.NewResponseController(w).Flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.answered)
	p.answered = make(chan struct{})
}

// reset ends the connection so that the client sees a reset.
func reset(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without this the client would see an orderly close
	}
	_ = connection.Close()
}
