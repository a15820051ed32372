package embedded_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/effectively-once/once/internal/system/embedded"
)

// serves sends messages, with a pause after each, until stop is closed. It fails the test if one is
// not accepted.
func (s *served) serves(stop <-chan struct{}, pause func()) (wait func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			got, err := s.try("POST", "/v1/streams/orders/messages", strings.NewReader("1"), asAnn, fmt.Sprint("Idempotency-Key: normal-", n))
			if err != nil || got.status != 202 {
				s.t.Errorf("message %d of a normal client: got %d %s, %v, want 202", n, got.status, got.body, err)
				return
			}
			pause()
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	return wg.Wait
}

func TestSlowClientsAreCutOffWhileOthersAreServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, closedShop, inMemory)
		head := "POST /v1/streams/orders/messages HTTP/1.1\r\nHost: " + s.address + "\r\nIdempotency-Key: slow\r\n"
		var slow, refused []net.Conn
		for range 200 {
			slow = append(slow,
				s.dial(""),
				s.dial("P"),
				s.dial(head+"X-Slow: "),
				s.dial(head+asAnn+"\r\nContent-Length: 1000\r\n\r\nhalf"),
				s.dial(head+asAnn+"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf"),
			)
			refused = append(refused, s.dial(head+"Content-Length: 1000\r\n\r\nhalf"))
		}
		stop := make(chan struct{})
		wait := s.serves(stop, func() { time.Sleep(time.Second) })
		for _, c := range refused { // without a key the body is not waited for
			line := make([]byte, len("HTTP/1.1 401"))
			if _, err := io.ReadFull(c, line); err != nil || string(line) != "HTTP/1.1 401" {
				t.Errorf("half a body without a key: got %q, %v, want 401", line, err)
			}
		}
		for _, c := range slow {
			s.ended(c, 2*time.Minute)
		}
		close(stop)
		wait()
	})
}

// most returns how many connections a test can make to a server in its own process, at most want.
func most(t *testing.T, want int) int {
	t.Helper()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	files.Cur = files.Max
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files) // the runtime has done so already, if it may
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if files.Cur > 1<<30 {
		return want
	}
	return min(want, (int(files.Cur)-2000)/2) // two files each, and those of the database
}

func TestTenThousandIdleConnectionsKeepNobodyAway(t *testing.T) {
	s := serve(t, closedShop)
	n := most(t, 10_000)
	t.Logf("%d idle connections", n)
	stop := make(chan struct{})
	wait := s.serves(stop, func() {})
	for range n {
		s.dial("")
	}
	close(stop)
	wait()
	s.want("a new client beside them", s.call("GET", "/healthz", ""), 200)
}

func TestBeyondTheBoundTheConnectionThatIsIdleForLongestIsClosedAndABusyOneIsNot(t *testing.T) {
	t.Parallel()
	s := serve(t, strings.Replace(closedShop, "server:", "server:\n  connections: 20", 1))
	waiting := s.dial("GET /v1/streams/orders/groups/g/log?wait=20 HTTP/1.1\r\nHost: " + s.address + "\r\n" + asAnn + "\r\n\r\n")
	idle := s.dial("GET /healthz HTTP/1.1\r\nHost: " + s.address + "\r\n\r\n") // idle after its answer
	for range 100 {
		s.dial("P")
		s.want("a client between them", s.call("GET", "/healthz", ""), 200)
	}
	if got := s.ended(idle, time.Minute); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("the first connection got %q, want an answer and then its end", got)
	}
	s.want("a message for the waiting reader", s.call("POST", "/v1/streams/orders/messages", `"hello"`, asAnn, "Idempotency-Key: a", "Once-Group: g", "Content-Type: application/json"), 202)
	line := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(waiting, line); err != nil || string(line) != "HTTP/1.1 200" {
		t.Errorf("the waiting reader got %q, %v, want its answer", line, err)
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	return copy(p, strings.Repeat("x", len(p))), nil
}

func gzipped(t *testing.T, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.CopyN(w, endless{}, int64(size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstdCompressed(t *testing.T, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, endless{}, int64(size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestABombIsRefusedAndTheServerGoesOn(t *testing.T) {
	t.Parallel()
	s := serve(t, closedShop)
	const large = 32 << 20 // eight times what a batch may have
	messages, batch, durable := "/v1/streams/orders/messages", "/v1/streams/orders/batch", "/v1/stream/orders/live"
	s.want("a stream of the protocol", s.call("PUT", durable, "", asAnn, "Content-Type: application/json"), 201)
	deep := strings.Repeat("[", 1<<20)
	lines := "Content-Type: application/x-ndjson"
	for _, c := range []struct {
		name, path string
		body       io.Reader
		headers    []string
		status     []int
	}{
		{"a body without an end", messages, endless{}, []string{"Idempotency-Key: a"}, []int{413}},
		{"a batch without an end", batch, endless{}, []string{lines}, []int{413}},
		{"an append without an end", durable, endless{}, []string{"Content-Type: application/json"}, []int{413}},
		{"a large body", messages, io.LimitReader(endless{}, large), []string{"Idempotency-Key: a"}, []int{413}},
		{"gzip in a batch", batch, bytes.NewReader(gzipped(t, large)), []string{lines, "Content-Encoding: gzip"}, []int{413}},
		{"zstd in a batch", batch, bytes.NewReader(zstdCompressed(t, large)), []string{lines, "Content-Encoding: zstd"}, []int{413}},
		{"gzip in gzip", batch, bytes.NewReader(gzipped(t, 1<<20)), []string{lines, "Content-Encoding: gzip, gzip"}, []int{415}},
		{"gzip in a message", messages, bytes.NewReader(gzipped(t, large)), []string{"Idempotency-Key: a", "Content-Encoding: gzip"}, []int{415}},
		{"deep JSON in a batch", batch, strings.NewReader(`{"key":"a","body":` + deep + "}\n"), []string{lines}, []int{200, 400}},
		{"deep JSON in an append", durable, strings.NewReader(deep[:500<<10]), []string{"Content-Type: application/json"}, []int{400}},
		{"deep JSON of a session", "/v1/streams/work/sessions/x", strings.NewReader(deep[:200<<10]), nil, []int{400, 413}},
	} {
		// The client may still write when the server has answered and closed.
		got, err := s.try("POST", c.path, c.body, append(c.headers, asAnn)...)
		refused := false
		for _, status := range c.status {
			refused = refused || got.status == status
		}
		if !refused && !closedEarly(err) {
			t.Errorf("%s: got %d %.200s, %v, want %v", c.name, got.status, got.body, err, c.status)
		}
	}
	long := strings.Repeat("x", 64<<10)
	for name, header := range map[string]string{
		"one large header": "X-Large: " + long + "\r\n",
		"many headers":     strings.Repeat("X-Many: 1\r\n", 10_000),
		"a large path":     "",
		"a large key":      "Authorization: Bearer " + long + "\r\n",
	} {
		path := messages
		if name == "a large path" {
			path += "/" + long
		}
		c := s.dial("")
		_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: "+s.address+"\r\n"+header+"\r\n") // the server may have closed
		if got := s.ended(c, time.Minute); got != "" && !strings.HasPrefix(got, "HTTP/1.1 431") {
			t.Errorf("%s: got %.100q, want 431", name, got)
		}
	}
	s.want("a normal client after that", s.call("POST", messages, "1", asAnn, "Idempotency-Key: normal"), 202)
}

// closedEarly reports whether a client has not read the answer, because the server has closed the
// connection under a body that it did not take.
func closedEarly(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrUnexpectedEOF)
}

func TestTwoReadingsOfOneRequestAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, closedShop)
	head := "POST /v1/streams/orders/messages HTTP/1.1\r\nHost: " + s.address + "\r\n" + asAnn + "\r\nIdempotency-Key: a\r\n"
	for name, request := range map[string]string{
		"two lengths":               head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n12",
		"an unknown coding":         head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"two hosts":                 head + "Host: once.example.com\r\nContent-Length: 1\r\n\r\n1",
		"a space before the colon":  head + "Content-Length : 1\r\n\r\n1",
		"a header with a line feed": head + "X-A: b\n c\r\n\rContent-Length: 1\r\n\r\n1",
		"a chunk with a sign":       head + "Transfer-Encoding: chunked\r\n\r\n+1\r\n1\r\n0\r\n\r\n",
	} {
		if got := s.ended(s.dial(request), time.Minute); !strings.HasPrefix(got, "HTTP/1.1 4") && !strings.HasPrefix(got, "HTTP/1.1 501") {
			t.Errorf("%s: got %.100q, want a refusal, and the end of the connection", name, got)
		}
	}
}

func TestNoNameForgesALineOfTheLogOrMarkupOfTheConsole(t *testing.T) {
	t.Parallel()
	s := serve(t, strings.Replace(closedShop, "orders: {log: {}}", "orders: {log: {}, admission: sequence}", 1), func(o *embedded.Options, _ *served) { o.LogKeys = true })
	const forged = "time=2026-01-01T00:00:00Z level=ERROR msg=forged"
	const markup, terminal = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`, "\x1b]0;owned\x07\x1b[31m"
	for _, name := range []string{"a\n" + forged, "a\r\n" + forged, terminal, markup, "a\u202eb", "a\u2028" + forged, strings.Repeat("é", 100), "%0a" + forged} {
		escaped := url.PathEscape(name)
		quoted := url.QueryEscape(name)
		for _, path := range []string{"/v1/streams/" + escaped + "/groups", "/v1/streams/orders/messages/" + escaped, "/v1/streams/orders/requests/" + escaped, "/v1/streams/orders/groups/" + escaped + "/log", "/v1/stream/orders/" + escaped, "/" + escaped, "/console/" + escaped} {
			for _, method := range []string{"GET", "PUT", "POST"} {
				s.call(method, path, "x", asAnn, "Content-Type: text/plain")
			}
		}
		if !strings.ContainsAny(name, "\n\r\x1b\x07") { // others can't be sent in a header at all
			s.call("POST", "/v1/streams/orders/messages", name, asAnn, "Once-Source: "+name, "Once-Group: "+name, "Once-Sequence: 2", "Idempotency-Key: "+name)
			s.call("POST", "/v1/streams/orders/messages", name, "Authorization: Bearer "+name)
			s.call("GET", "/v1/streams/orders/groups", "", asAnn, "Host: "+strings.ReplaceAll(quoted, "+", "-"))
		}
		line := fmt.Sprintf("{\"key\":%q,\"group\":%q,\"source\":%q,\"sequence\":3,\"body\":1}\n", name, name, name)
		s.call("POST", "/v1/streams/orders/batch", line, asAnn, "Content-Type: application/x-ndjson")
		s.call("POST", "/v1/streams/work/sessions/"+escaped, fmt.Sprintf(`{"holder":%q}`, name), asAnn)
	}
	for text := range strings.Lines(s.log.String()) {
		if !strings.HasPrefix(text, "time=") || strings.HasPrefix(text, forged) {
			t.Errorf("a line of the log that the server has not written: %q", text)
		}
		if strings.ContainsAny(text, "\x1b\x07\r") {
			t.Errorf("a line of the log with terminal escapes: %q", text)
		}
	}
	const operator = "Authorization: Basic eDphZG0tMDEyMzQ1Njc4OWFiY2RlZg==" // x:adminKey
	seen := false
	for _, path := range []string{"", "/groups?stream=orders", "/group?stream=orders&group=" + url.QueryEscape(markup), "/find?q=" + url.QueryEscape(markup), "/letters?stream=" + url.QueryEscape(markup), "/sessions", "/sessions?stream=work", "/log?stream=orders&group=" + url.QueryEscape(markup), "/" + url.PathEscape(markup), "/message?stream=orders&id=" + url.QueryEscape(terminal)} {
		got := s.call("GET", "/console"+path, "", operator)
		seen = seen || strings.Contains(got.body, "&lt;script&gt;alert(1)")
		if strings.Contains(got.body, "<script>alert") || strings.Contains(got.body, "<img") || strings.ContainsAny(got.body, "\x1b\x07") {
			t.Errorf("%s: the page has the markup or the escapes of a sender: %s", path, got.body)
		}
		if !strings.Contains(got.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: got the policy %q, want one that allows no foreign script", path, got.header.Get("Content-Security-Policy"))
		}
	}
	if !seen {
		t.Error("no page shows the group with markup: the test looks at the wrong pages")
	}
	for name, values := range s.call("GET", "/v1/streams/orders/messages/"+url.PathEscape("a\r\nX-Forged: 1"), "", asAnn).header {
		if name == "X-Forged" || strings.Contains(strings.Join(values, ""), "\n") {
			t.Errorf("a header of the answer is forged: %s %q", name, values)
		}
	}
}
