package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/config"
)

// Errors of a client of another machine. A [*RemoteError] wraps one of them.
var (
	// ErrAddress says that the address or its scheme is wrong, or that it is not the one of an
	// admin API.
	ErrAddress = errors.New("wrong address")
	// ErrKey says that the server does not know the key, or that there is none.
	ErrKey = errors.New("wrong key")
	// ErrAway says that no server answers, or that the certificate of the server is not trusted.
	ErrAway = errors.New("server not reachable")
)

// A RemoteError is the error of a call that did not reach the operations of a server. Its text says
// what to do.
type RemoteError struct {
	kind error
	text string
	err  error // the cause, if there is one
}

func (e *RemoteError) Error() string {
	if e.err == nil {
		return e.text
	}
	return e.text + ": " + e.err.Error()
}

// Unwrap implements the interface of package errors.
func (e *RemoteError) Unwrap() []error {
	if e.err == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.err}
}

// RemoteOptions configure a client of another machine.
type RemoteOptions struct {
	// Key is the key of an operator. Required.
	Key string
	// Authorities are the certificates that the server's one is checked with. Defaults to those of
	// the machine.
	Authorities *x509.CertPool
}

const (
	dialTime      = 10 * time.Second
	handshakeTime = 10 * time.Second
)

// DialRemote returns a client of the admin API at an address, as https://host:9444. It makes no
// connection. The key is only sent encrypted, or to this machine.
func DialRemote(address string, o RemoteOptions) (*Client, error) {
	base, err := CheckRemote(address)
	if err != nil {
		return nil, err
	}
	if o.Key == "" {
		return nil, &RemoteError{kind: ErrKey, text: "the admin API at " + address + " needs the key of an operator"}
	}
	// a redirect could lead the key to another server
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{http: http.Client{Transport: Transport(o.Authorities), CheckRedirect: stay}, remote: base, key: o.Key}, nil
}

// CheckRemote returns an address without a slash at its end, or an error if a key must not be sent
// there.
func CheckRemote(address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil:
		return "", &RemoteError{kind: ErrAddress, text: "the address of an admin API must be https://HOST:PORT, without a path"}
	case u.Scheme == "http" && !config.Loopback(u.Host):
		return "", &RemoteError{kind: ErrAddress, text: "the key would be sent to " + u.Host + " without encryption: use https://"}
	}
	return u.Scheme + "://" + u.Host, nil
}

// Transport returns a transport to a server whose certificate is checked with authorities, or if
// they are nil with those of the machine.
func Transport(authorities *x509.CertPool) *http.Transport {
	dialer := net.Dialer{Timeout: dialTime}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: handshakeTime, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities},
	}
}

// Remote returns the address of the other machine, or nothing for a client of a unix socket.
func (c *Client) Remote() string { return c.remote }

// failed returns the error of a request without an answer.
func (c *Client) failed(err error) error {
	if c.remote == "" {
		return fmt.Errorf("ask running server: %w", err)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	cause := err
	if failed, ok := errors.AsType[*url.Error](err); ok {
		cause = failed.Err
	}
	switch {
	case errors.As(err, &unknown):
		return &RemoteError{ErrAway, "the certificate of " + c.remote + " is signed by an authority that is not known here: name the authority's certificate with --ca-file, or in SSL_CERT_FILE", cause}
	case errors.As(err, &name), errors.As(err, &invalid):
		return &RemoteError{ErrAway, "the certificate of " + c.remote + " is not valid for it", cause}
	case errors.As(err, new(tls.RecordHeaderError)), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return &RemoteError{ErrAddress, c.remote + " does not speak TLS: is it the right port?", cause}
	}
	return &RemoteError{ErrAway, "no admin API answers at " + c.remote, cause}
}

// foreign returns an error for an answer that is not of an admin API.
func (c *Client) foreign(resp *http.Response) error {
	known := resp.Header.Get(mark) != ""
	switch {
	case known && resp.StatusCode == http.StatusUnauthorized:
		return &RemoteError{kind: ErrKey, text: c.remote + " does not know this key: give one of admin.key of its configuration"}
	case known:
		return nil
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json"):
		return &RemoteError{kind: ErrAddress, text: c.remote + " is the address of the public HTTP API: give the one of admin.listen of its configuration"}
	case resp.StatusCode == http.StatusBadRequest && strings.HasPrefix(c.remote, "http:"):
		return &RemoteError{kind: ErrAddress, text: "no admin API answers at " + c.remote + ": if the server has a certificate, use https://"}
	}
	return &RemoteError{kind: ErrAddress, text: fmt.Sprintf("%s is not the address of an admin API: it answers %s", c.remote, resp.Status)}
}
