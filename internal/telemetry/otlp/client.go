package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/effectively-once/once/internal/telemetry"
)

// A client posts reports of one signal to a collector, by OTLP over HTTP. It does not retry, because
// callers wait for a report, and the next one has the counts. It may be used concurrently.
type client struct {
	http   *http.Client
	url    string
	header http.Header
	gzip   bool
	now    func() time.Time
	log    *slog.Logger
	busy   atomic.Int64 // Unix milliseconds until which the collector asked not to be called
}

const (
	contentType = "application/x-protobuf"
	// maxAnswer limits the part of an answer that is read.
	maxAnswer = 64 << 10
)

// newClient returns a client for METRICS or TRACES, configured by OTEL_EXPORTER_OTLP_…. It makes no
// call.
func newClient(signal string, o telemetry.Options) (*client, error) {
	v := variables(signal)
	c := &client{now: o.Now, log: o.Log, header: http.Header{"Content-Type": {contentType}, "User-Agent": {"once"}}}
	var err error
	if c.url, err = v.url(); err != nil {
		return nil, err
	}
	if err := v.headers(c.header); err != nil {
		return nil, err
	}
	name, compression := v.get("COMPRESSION")
	switch compression {
	case "gzip":
		c.gzip = true
		c.header.Set("Content-Encoding", "gzip")
	case "", "none":
	default:
		return nil, fmt.Errorf("read environment: %s is %q, not gzip or none", name, compression)
	}
	secure, err := v.tls(c.url)
	if err != nil {
		return nil, err
	}
	timeout, err := v.timeout()
	// Not the default transport: the program may have replaced it by one that makes spans.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second}
	c.http = &http.Client{Transport: transport, Timeout: timeout}
	return c, err
}

// post sends a report.
func (c *client) post(ctx context.Context, report message) error {
	if until := c.busy.Load(); c.now().UnixMilli() < until {
		return fmt.Errorf("the collector asked not to be called before %s", time.UnixMilli(until).UTC().Format(time.RFC3339))
	}
	body, err := c.compress(report)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = c.header.Clone()
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case answer.StatusCode/100 != 2:
		c.wait(answer)
		return fmt.Errorf("%s answered %s: %.200q", r.URL.Redacted(), answer.Status, text)
	case err != nil:
		return err
	}
	if answer.Header.Get("Content-Type") == contentType {
		c.partial(text)
	}
	return nil
}

func (c *client) compress(report message) ([]byte, error) {
	if !c.gzip {
		return report, nil
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(report)
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}

// longestWait is the longest time, in seconds, for which a collector is not called.
const longestWait = 24 * 60 * 60

// wait stores until when an overloaded collector does not want to be called.
func (c *client) wait(answer *http.Response) {
	after := answer.Header.Get("Retry-After")
	now := c.now()
	until, err := http.ParseTime(after)
	if seconds, wrong := strconv.Atoi(after); wrong == nil && seconds > 0 {
		until, err = now.Add(time.Duration(min(seconds, longestWait))*time.Second), nil
	}
	if err == nil {
		c.busy.Store(min(until.UnixMilli(), now.Add(longestWait*time.Second).UnixMilli()))
	}
}

// partial logs the rejected part of an accepted report. It must not be sent again, so this is no error.
func (c *client) partial(answer []byte) {
	detail, _ := field(answer, 1, protowire.ConsumeBytes)
	rejected, _ := field(detail, 1, protowire.ConsumeVarint)
	if text, _ := field(detail, 2, protowire.ConsumeString); rejected != 0 || text != "" {
		c.log.Warn("telemetry is incomplete", "rejected", rejected, "detail", text)
	}
}

// field returns the last value of a field of a message, and false if it has none.
func field[T any](message []byte, number protowire.Number, consume func([]byte) (T, int)) (value T, found bool) {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return value, found
		}
		message = message[size:]
		if n == number {
			if v, size := consume(message); size >= 0 {
				value, found = v, true
			}
		}
		if size = protowire.ConsumeFieldValue(n, kind, message); size < 0 {
			return value, found
		}
		message = message[size:]
	}
	return value, found
}

// variables read those of a signal, which take precedence over those for all signals.
type variables string

// get returns the variable that is set, and its value.
func (v variables) get(name string) (variable, value string) {
	const all = "OTEL_EXPORTER_OTLP_"
	own := all + string(v) + "_" + name
	if value := strings.TrimSpace(os.Getenv(own)); value != "" {
		return own, value
	}
	return all + name, strings.TrimSpace(os.Getenv(all + name))
}

// url returns the address of the collector: for all signals a folder, for one the whole path.
func (v variables) url() (string, error) {
	name, value := v.get("ENDPOINT")
	u, err := url.Parse(value)
	if err != nil {
		return "", fmt.Errorf("read environment: %s: %w", name, err)
	}
	if !strings.Contains(name, string(v)) {
		u.Path = path.Join("/", u.Path, "v1", strings.ToLower(string(v)))
	}
	return u.String(), nil
}

func (v variables) headers(to http.Header) error {
	name, value := v.get("HEADERS")
	for pair := range strings.SplitSeq(value, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		header, text, found := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(text)
		if err != nil || !found {
			return fmt.Errorf("read environment: %s is not a list such as name=value,name=value with escaped values", name)
		}
		to.Set(strings.TrimSpace(header), strings.TrimSpace(decoded))
	}
	return nil
}

// timeout returns the limit of a request.
func (v variables) timeout() (time.Duration, error) {
	name, value := v.get("TIMEOUT")
	if value == "" {
		return 10 * time.Second, nil
	}
	ms, err := strconv.Atoi(value)
	if err != nil || ms < 0 {
		return 0, fmt.Errorf("read environment: %s is %q, not a number of milliseconds", name, value)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// tls returns nil if no certificate is set.
func (v variables) tls(url string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	name, authority := v.get("CERTIFICATE")
	if authority != "" {
		pem, err := os.ReadFile(authority) //nolint:gosec // the operator names it
		if err != nil {
			return nil, fmt.Errorf("read environment: %s: %w", name, err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read environment: %s: %s has no certificate", name, authority)
		}
	}
	name, certificate := v.get("CLIENT_CERTIFICATE")
	_, key := v.get("CLIENT_KEY")
	if certificate != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("read environment: %s: %w", name, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	switch {
	case c.RootCAs == nil && c.Certificates == nil:
		return nil, nil
	case !strings.HasPrefix(url, "https:"):
		return nil, fmt.Errorf("read environment: %s is set, and the address of the collector is not https", name)
	default:
		return c, nil
	}
}
