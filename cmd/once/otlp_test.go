package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/effectively-once/once/internal/testkit/freeport"
)

// A collector takes metrics and spans by OTLP over HTTP, and keeps their names.
type collector struct {
	mu    sync.Mutex
	names []string
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.URL.Path {
	case "/v1/metrics":
		var m metricspb.ExportMetricsServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &m)
		}
		for _, of := range m.ResourceMetrics {
			for _, scope := range of.ScopeMetrics {
				for _, x := range scope.Metrics {
					c.names = append(c.names, x.Name)
				}
			}
		}
	case "/v1/traces":
		var m tracepb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &m)
		}
		for _, of := range m.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				for _, x := range scope.Spans {
					c.names = append(c.names, x.Name)
				}
			}
		}
	}
	if err != nil {
		c.names = append(c.names, "error: "+err.Error())
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// serveWith runs once dev or once serve with a collector, and sends it some messages. It stops the
// server, and returns its log.
func serveWith(t *testing.T, name, endpoint string, messages int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server := command(ctx, name, "--listen", "127.0.0.1:0")
	server.Dir = t.TempDir()
	server.Env = append(slices.DeleteFunc(server.Env, func(v string) bool { return strings.HasPrefix(v, "OTEL_") }), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint)
	out, err := server.StderrPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	lines := bufio.NewReader(out)
	url := ""
	for url == "" {
		line, err := lines.ReadString('\n')
		if log.WriteString(line); err != nil {
			t.Fatalf("the server ended: %s", &log)
		}
		if found := regexp.MustCompile(`(?:once is ready at |msg=ready url=)(\S+)`).FindStringSubmatch(line); found != nil {
			url = found[1]
		}
	}
	rest := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(lines) // an error ends the log
		rest <- string(all)
	}()
	for i := range messages {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/streams/messages/messages", strings.NewReader("1"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "m-"+string(rune('a'+i)))
		r.Header.Set("Prefer", "wait=10")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode >= 300 {
			t.Errorf("message %d: status %d", i, resp.StatusCode)
		}
	}
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	log.WriteString(<-rest)
	if err := server.Wait(); err != nil {
		t.Errorf("the server did not drain: %v\n%s", err, &log)
	}
	return log.String()
}

func TestDevAndServeSendTheMetricsAndSpansOfAMessageToTheCollectorInTheEnvironment(t *testing.T) {
	for _, name := range []string{"dev", "serve"} {
		t.Run(name, func(t *testing.T) {
			c := &collector{}
			receiver := httptest.NewServer(c)
			defer receiver.Close()
			log := serveWith(t, name, receiver.URL, 1)
			for _, want := range []string{"POST /v1/streams/{stream}/messages", "process messages", "publish file", "once.accepted", "once.processed", "once.accept_time"} {
				if !slices.Contains(c.names, want) {
					t.Errorf("the collector got %v, want %s; the log is\n%s", c.names, want, log)
				}
			}
		})
	}
}

// TestACollectorThatIsDownStopsNothing has one that refuses connections, and one that takes them
// and never answers. All messages are processed, and the server drains.
func TestACollectorThatIsDownStopsNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	silent := "http://" + listener.Addr().String()
	for name, endpoint := range map[string]string{"it never answers": silent, "it refuses connections": "http://" + freeport.Address(t)} {
		t.Run(name, func(t *testing.T) {
			if log := serveWith(t, "serve", endpoint, 20); !strings.Contains(log, "telemetry does not reach its collector") {
				t.Errorf("the log does not say that telemetry is lost:\n%s", log)
			}
		})
	}
}

func TestCollectorsThatCanNotBeUsedAreErrorsAtTheStart(t *testing.T) {
	for _, c := range []struct{ variable, value, want string }{
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318", "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL"},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "collector:4318", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is not a URL"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := command(ctx, "dev", "--listen", "127.0.0.1:0", "--data", t.TempDir())
		cmd.Dir = t.TempDir()
		cmd.Env = append(slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "OTEL_") }),
			"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318", c.variable+"="+c.value)
		out, err := cmd.CombinedOutput()
		cancel()
		if err == nil || strings.Contains(string(out), "panic") || !strings.Contains(string(out), c.want) {
			t.Errorf("%s=%s: %v, want an error with %q:\n%s", c.variable, c.value, err, c.want, out)
		}
	}
}
