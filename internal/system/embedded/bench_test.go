package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
)

// The two benchmarks report how many allocations the server needs for one message of 1 KiB by HTTP,
// from reading the request to writing the answer, and nothing of the client. The budgets compare
// them: go -C prove run ./check budget.

// BenchmarkMessageToFile measures a message that is processed, and written to the output file
// before the answer.
func BenchmarkMessageToFile(b *testing.B) {
	address := make(chan string, 1)
	s := opened(b, embedded.Options{Listen: "127.0.0.1:0", Ready: func(a string) { address <- a }})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			b.Error(err)
		}
	}()
	allocationsOf(b, <-address)
}

// BenchmarkMessageAccepted measures a message that is stored and answered with 202. No poller runs,
// so it is not processed.
func BenchmarkMessageAccepted(b *testing.B) {
	s := opened(b, embedded.Options{})
	server := httptest.NewServer(s.Handler())
	defer func() {
		server.Close()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	allocationsOf(b, server.Listener.Addr().String())
}

func opened(b *testing.B, o embedded.Options) *embedded.System {
	b.Helper()
	dir := b.TempDir()
	var err error
	o.Config, err = config.Parse("bench", fmt.Appendf(nil, "streams: {s: {destinations: [out]}}\ndestinations: {out: {file: %q}}\n", filepath.Join(dir, "out.jsonl")))
	if err != nil {
		b.Fatal(err)
	}
	o.DataDir = filepath.Join(dir, "data")
	s, err := embedded.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Start(nil); err != nil {
		b.Fatal(errors.Join(err, s.Close()))
	}
	return s
}

// block is how many messages are counted together.
const block = 50

// allocationsOf sends messages one after the other, and reports the median of the blocks: work that
// the system does by the clock, such as a flush, falls into few of them. The garbage collector is
// off, because it empties the pools of net/http, and one processor has one set of pools.
func allocationsOf(b *testing.B, address string) {
	b.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	send := allocationFree(b, conn, address)
	for range 2 * block {
		send()
	}
	var each []float64
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.ReadMemStats(&before)
		for range block {
			send()
		}
		runtime.ReadMemStats(&after)
		each = append(each, float64(after.Mallocs-before.Mallocs)/block)
	}
	slices.Sort(each)
	b.ReportMetric(math.Round(10*each[len(each)/2])/10, "allocs/message")
}

// allocationFree returns a client that sends the next message and reads the answer, and allocates nothing.
func allocationFree(b *testing.B, conn net.Conn, address string) (send func()) {
	b.Helper()
	body := `{"text":"` + strings.Repeat("x", 1013) + `"}`
	request := fmt.Appendf(nil, "POST /v1/streams/s/messages HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nIdempotency-Key: ", address, len(body))
	key := len(request)
	request = append(request, "00000000\r\n\r\n"+body...)
	accepted, end := []byte("HTTP/1.1 202 Accepted\r\n"), []byte(`"}`)
	answer, n := make([]byte, 4096), 0
	return func() {
		n++
		for i, rest := key+7, n; i >= key; i-- {
			request[i], rest = byte('0'+rest%10), rest/10
		}
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		read := 0
		for !bytes.HasSuffix(bytes.TrimSpace(answer[:read]), end) {
			more, err := conn.Read(answer[read:])
			if err != nil {
				b.Fatal(err)
			}
			read += more
		}
		if !bytes.HasPrefix(answer, accepted) {
			b.Fatalf("%s", answer[:read])
		}
	}
}
