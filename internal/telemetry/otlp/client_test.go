package otlp_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collectormetrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/otlp"
)

// processed counts a message.
func processed(tm *telemetry.Telemetry) {
	tm.Observe(record.Event{Name: record.EventProcessed, Stream: "s", Count: 1})
}

func TestTheVariablesOfASignalTakePrecedence(t *testing.T) {
	c := collecting(t)
	var got http.Header
	var path string
	c.answer = func(r *http.Request) int { got, path = r.Header, r.URL.Path; return 0 }
	for name, value := range map[string]string{
		"ENDPOINT": c.url + "/base/", "HEADERS": "api-key=all,", "METRICS_HEADERS": "Api-Key=a%20b%3D, x = y ", "COMPRESSION": "none", "METRICS_COMPRESSION": "gzip", "TIMEOUT": "1", "METRICS_TIMEOUT": "20000",
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
	}
	for _, endpoint := range []string{"", c.url + "/v1/metrics"} {
		t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint)
		tm := exporting(t, telemetry.Options{})
		processed(tm)
		tm.Flush(t.Context(), nil)
		want := "/base/v1/metrics"
		if endpoint != "" {
			want = "/v1/metrics"
		}
		if path != want || got.Get("Api-Key") != "a b=" || got.Get("X") != "y" || got.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s has the headers %v", path, got)
		}
	}
	if c.points["once.processed {message} s+"] != 1 {
		t.Errorf("the points are %v", c.points)
	}
}

func TestSettingsThatCanNotBeUsedAreErrorsThatNameTheVariable(t *testing.T) {
	for name, value := range map[string]string{
		"HEADERS": "no value", "METRICS_HEADERS": "a=%zz", "COMPRESSION": "zstd", "TIMEOUT": "1s", "CERTIFICATE": "nowhere.pem", "CLIENT_CERTIFICATE": "nowhere.pem", "METRICS_TEMPORALITY_PREFERENCE": "sum",
	} {
		t.Run(name, func(t *testing.T) {
			collecting(t)
			t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			if _, err := telemetry.Open(t.Context(), telemetry.Options{Collector: otlp.New}); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_"+name) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestDeltasAreSinceTheLastReportThatArrived(t *testing.T) {
	c := collecting(t)
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
	now := time.Unix(1700000000, 0)
	tm := exporting(t, telemetry.Options{Now: func() time.Time { return now }})
	var got []float64
	for _, status := range []int{0, 0, http.StatusBadGateway, 0} {
		c.answer = func(*http.Request) int { return status }
		processed(tm)
		now = now.Add(time.Minute)
		tm.Flush(t.Context(), nil)
		got = append(got, c.points["once.processed {message} s"])
	}
	if diff := cmp.Diff([]float64{1, 1, 1, 2}, got); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	if want := now.Add(-2 * time.Minute); !c.since.Equal(want) {
		t.Errorf("the last report is since %s, want %s", c.since, want)
	}
}

func TestACollectorThatAsksForTimeGetsIt(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for name, after := range map[string]string{"seconds": "60", "date": now.Add(time.Minute).UTC().Format(http.TimeFormat)} {
		t.Run(name, func(t *testing.T) {
			c := collecting(t)
			at := now
			tm := exporting(t, telemetry.Options{Now: func() time.Time { return at }})
			c.answer, c.header = func(*http.Request) int { return http.StatusTooManyRequests }, http.Header{"Retry-After": {after}}
			for range 4 {
				processed(tm)
				tm.Flush(t.Context(), nil)
				at = at.Add(19 * time.Second)
			}
			if c.requests != 1 {
				t.Errorf("%d requests within a minute", c.requests)
			}
			c.answer = func(*http.Request) int { return 0 }
			tm.Flush(t.Context(), nil)
			if c.points["once.processed {message} s+"] != 4 {
				t.Errorf("the points are %v", c.points)
			}
		})
	}
}

func TestACollectorDoesNotEndReportsByAWrongDate(t *testing.T) {
	at := time.Unix(1700000000, 0)
	for name, after := range map[string]string{"seconds": "999999999", "date": at.AddDate(10, 0, 0).UTC().Format(http.TimeFormat)} {
		c := collecting(t)
		now := at
		tm := exporting(t, telemetry.Options{Now: func() time.Time { return now }})
		c.answer, c.header = func(*http.Request) int { return http.StatusTooManyRequests }, http.Header{"Retry-After": {after}}
		processed(tm)
		tm.Flush(t.Context(), nil)
		now = now.Add(25 * time.Hour)
		tm.Flush(t.Context(), nil)
		if c.requests != 2 {
			t.Errorf("%s: %d requests within 25 hours, want 2", name, c.requests)
		}
	}
}

func TestWhatACollectorRejectsOfAReportIsLoggedAndNotSentAgain(t *testing.T) {
	c := collecting(t)
	answer, err := proto.Marshal(&collectormetrics.ExportMetricsServiceResponse{PartialSuccess: &collectormetrics.ExportMetricsPartialSuccess{RejectedDataPoints: 3, ErrorMessage: "too old"}})
	if err != nil {
		t.Fatal(err)
	}
	c.body = answer
	var log bytes.Buffer
	tm := exporting(t, telemetry.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	processed(tm)
	tm.Flush(t.Context(), nil)
	tm.Flush(t.Context(), nil)
	if got := log.String(); c.requests != 1 || strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "rejected=3") || !strings.Contains(got, "too old") {
		t.Errorf("%d requests, log %s", c.requests, got)
	}
}

func TestTheReasonOfARefusalIsInTheLog(t *testing.T) {
	c := collecting(t)
	c.answer, c.body = func(*http.Request) int { return http.StatusForbidden }, []byte("no such key")
	var log bytes.Buffer
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", strings.Replace(c.url, "http://", "http://me:hidden@", 1))
	tm := exporting(t, telemetry.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	processed(tm)
	tm.Flush(t.Context(), nil)
	if got := log.String(); !strings.Contains(got, "403 Forbidden") || !strings.Contains(got, "no such key") || strings.Contains(got, "hidden") {
		t.Errorf("log %s", got)
	}
}

func TestACollectorIsTrustedByItsAuthorityAndSeesTheClientsCertificate(t *testing.T) {
	c := collecting(t)
	server := httptest.NewUnstartedServer(c)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", file(t, "CERTIFICATE", server.Certificate().Raw))
	certificate, key := clientCertificate(t)
	t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", certificate)
	t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", key)
	if _, err := telemetry.Open(t.Context(), telemetry.Options{Collector: otlp.New}); err == nil || !strings.Contains(err.Error(), "not https") {
		t.Errorf("certificates for a collector without https: %v", err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	tm := exporting(t, telemetry.Options{})
	processed(tm)
	tm.Flush(t.Context(), nil)
	if c.points["once.processed {message} s+"] != 1 {
		t.Errorf("the points are %v", c.points)
	}
}

// clientCertificate returns the files of a new certificate and its key.
func clientCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, "CERTIFICATE", public), file(t, "PRIVATE KEY", encoded)
}

// file returns the path of a new file in PEM.
func file(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
