package room

import (
	"bytes"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// A network connects the parties of a simulation. Everything that it does is drawn from the seed.
type network struct {
	seed  uint64
	hosts map[string]http.Handler
	cuts  []cut
	// answered may change an answer, for mistakes.
	answered func(r *http.Request, out *recorder)
}

// A cut is a time in which nothing passes between two parties, or between one and all others.
type cut struct {
	a, b       string // b may be empty
	begin, end time.Time
}

func (n *network) cutOff(a, b string, now time.Time) bool {
	for _, c := range n.cuts {
		between := c.a == a && (c.b == "" || c.b == b) || c.a == b && (c.b == "" || c.b == a)
		if between && !now.Before(c.begin) && now.Before(c.end) {
			return true
		}
	}
	return false
}

// A connection is the connection of one party to a host. It implements http.RoundTripper.
type connection struct {
	net          *network
	from, to     string
	base, jitter time.Duration // of one direction
	lose, twice  float64       // of the requests and of the answers; of the requests

	mu  sync.Mutex
	rnd *rand.Rand
}

func (n *network) connect(from, to, purpose string, base time.Duration) *connection {
	h := fnv.New64a()
	_, _ = io.WriteString(h, from+">"+to+" "+purpose)
	return &connection{net: n, from: from, to: to, base: base, jitter: base / 2, lose: 0.01, twice: 0.01, rnd: rand.New(rand.NewPCG(n.seed, h.Sum64()))}
}

// draws are the fate of one request.
type draws struct {
	there, back, fails    time.Duration
	lost, lostBack, twice bool
}

func (w *connection) draw() draws {
	w.mu.Lock()
	defer w.mu.Unlock()
	latency := func() time.Duration { return w.base + time.Duration(w.rnd.Int64N(int64(w.jitter)+1)) }
	return draws{
		there: latency(), back: latency(), fails: 50*time.Millisecond + time.Duration(w.rnd.Int64N(int64(200*time.Millisecond))),
		lost: w.rnd.Float64() < w.lose, lostBack: w.rnd.Float64() < w.lose, twice: w.rnd.Float64() < w.twice,
	}
}

var errNetwork = errors.New("connection reset by the simulation")

// grid is where requests begin: a retry of a client has a jitter of nanoseconds that no seed sets.
const grid = time.Millisecond

func toGrid() {
	if past := time.Duration(time.Now().UnixNano() % int64(grid)); past > 0 {
		sleep(grid - past)
	}
}

// fail waits until a failure is known, and returns it shortly after a point of the grid, so that
// the retry begins at the next one.
func (w *connection) fail(d draws) (*http.Response, error) {
	sleep(d.fails)
	toGrid()
	sleep(grid / 2)
	return nil, errNetwork
}

// RoundTrip implements http.RoundTripper.
func (w *connection) RoundTrip(r *http.Request) (*http.Response, error) {
	toGrid()
	d := w.draw()
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	if d.lost || w.net.cutOff(w.from, w.to, time.Now()) {
		return w.fail(d)
	}
	sleep(d.there)
	if d.twice { // a copy that comes later
		late := r.Clone(r.Context())
		go func() {
			sleep(d.fails)
			_ = w.serve(late, body).Body.Close()
		}()
	}
	answer := w.serve(r, body)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	sleep(d.back)
	if d.lostBack || w.net.cutOff(w.from, w.to, time.Now()) {
		return w.fail(d)
	}
	return answer, nil
}

// bodyOf reads the body of a request.
func bodyOf(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer func() { _ = r.Body.Close() }()
	if r.ContentLength <= 0 {
		return io.ReadAll(r.Body)
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

func (w *connection) serve(r *http.Request, body []byte) *http.Response {
	in := r.Clone(r.Context())
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	in.RequestURI, in.RemoteAddr = in.URL.RequestURI(), w.from
	in.Host = in.URL.Host
	out := &recorder{header: http.Header{}, status: http.StatusOK}
	w.net.hosts[w.to].ServeHTTP(out, in)
	if w.net.answered != nil {
		w.net.answered(in, out)
	}
	return &http.Response{
		Status: http.StatusText(out.status), StatusCode: out.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: out.header, Body: io.NopCloser(&out.body), ContentLength: int64(out.body.Len()), Request: r,
	}
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
