package embedded_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
)

// pair returns a certificate for this machine with a serial number, and its key.
func pair(t *testing.T, serial int64) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "once"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

const encryptedShop = `
streams: {orders: {log: {}}, chat: {}}
server:
  tls: {cert: DIR/tls.crt, key: DIR/tls.key}
  auth: {keys: "file:DIR/keys"}
`

// handshake returns the serial number of the certificate that a new connection gets.
func (s *served) handshake() int64 {
	s.t.Helper()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	c, err := d.DialContext(s.t.Context(), "tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestANewCertificateIsServedToTheNextConnectionAndABrokenOneKeepsTheOld(t *testing.T) {
	t.Parallel()
	write := func(s *served, serial int64) {
		cert, key := pair(t, serial)
		s.file("tls.crt", cert)
		s.file("tls.key", key)
	}
	s := serve(t, encryptedShop, func(_ *embedded.Options, s *served) { write(s, 1) })
	want := func(when string, serial int64) {
		t.Helper()
		if got := s.handshake(); got != serial {
			t.Errorf("%s: a connection gets certificate %d, want %d", when, got, serial)
		}
	}
	want("at first", 1)
	write(s, 2)
	want("after it was replaced", 2)
	good, err := os.ReadFile(filepath.Join(s.dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][2]string{
		"a certificate of another key": {"tls.crt", certificateOf(pair(t, 3))},
		"a key that is no key":         {"tls.key", "-----BEGIN PRIVATE KEY-----\n"},
		"an empty certificate":         {"tls.crt", ""},
	} {
		s.file(file[0], file[1])
		want("after "+name, 2)
		want("after "+name+", again", 2)
	}
	if n := strings.Count(s.log.String(), "the new TLS certificate can't be used"); n != 3 {
		t.Errorf("the log says %d times that a pair can't be used, want 3:\n%s", n, s.log.String())
	}
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "server.tls") {
		t.Errorf("a reload of a broken pair: got %v, want an error", err)
	}
	if err := os.Remove(filepath.Join(s.dir, "tls.crt")); err != nil {
		t.Fatal(err)
	}
	want("after the file was removed", 2)
	write(s, 4)
	want("after a good pair", 4)
	if strings.Contains(s.log.String(), strings.Split(string(good), "\n")[1]) {
		t.Error("the log has a private key")
	}
}

func certificateOf(cert, _ string) string { return cert }

func TestAServerWithTLSSpeaksHTTP2AndNothingOlderThanTLS12(t *testing.T) {
	t.Parallel()
	s := serve(t, encryptedShop, func(_ *embedded.Options, s *served) {
		cert, key := pair(t, 1)
		s.file("tls.crt", cert)
		s.file("tls.key", key)
	})
	cert, err := os.ReadFile(filepath.Join(s.dir, "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	h := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.address+"/v1/streams/orders/messages", strings.NewReader("1"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "a")
	r.Header.Set("X-Api-Key", annKey)
	resp, err := h.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted || resp.Proto != "HTTP/2.0" {
		t.Errorf("got %d by %s, want 202 by HTTP/2.0", resp.StatusCode, resp.Proto)
	}
	h.CloseIdleConnections()
	old := tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}}
	if c, err := old.DialContext(t.Context(), "tcp", s.address); err == nil {
		_ = c.Close()
		t.Error("TLS 1.1 was taken, want a refusal")
	}
	if got := s.ended(s.dial("GET /healthz HTTP/1.1\r\nHost: "+s.address+"\r\n\r\n"), time.Minute); !strings.HasPrefix(got, "HTTP/1.0 400") {
		t.Errorf("plain HTTP: got %.100q, want 400", got)
	}
	if got := s.log.String(); !strings.Contains(got, "level=DEBUG msg=\"http: TLS handshake error") || strings.Contains(got, "level=WARN msg=\"http: TLS") {
		t.Errorf("failed handshakes are not logged for debugging only:\n%s", got)
	}
}

func TestAServerWithoutItsCertificateOrKeysDoesNotStart(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		encryptedShop: "server.tls",
		"streams: {orders: {}}\nserver: {auth: {keys: \"file:DIR/nowhere\"}}":                                  "server.auth.keys",
		"streams: {orders: {}}\nserver: {auth: {keys: \"file:DIR/keys\"}, admin: {key: \"file:DIR/nowhere\"}}": "server.admin.key",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "keys"), []byte("ann "+annKey), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse("test", []byte(strings.ReplaceAll(text, "DIR", dir)))
		if err != nil {
			t.Fatal(err)
		}
		s, err := embedded.Open(embedded.Options{Config: c, Server: c.Server, DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("start: got %v, want an error about %s", err, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
