package deployed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// A Signer signs requests to the API, as IAM authorization requires (Signature Version 4), and
// signs each try. It is an http.RoundTripper.
type Signer struct {
	credentials aws.CredentialsProvider
	signer      *v4.Signer
	region      string
	next        http.RoundTripper
	now         func() time.Time
}

// Signer returns a signer with the credentials of the stack's caller. It keeps up to 100
// connections.
func (s *Stack) Signer() *Signer {
	next := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConns: 100, MaxIdleConnsPerHost: 100,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
	}
	return &Signer{credentials: s.config.Credentials, signer: v4.NewSigner(), region: s.Region, next: next, now: time.Now}
}

// signedService is API Gateway's name in signatures.
const signedService = "execute-api"

// RoundTrip signs a copy of the request and sends it.
func (s *Signer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("sign request: %w", err)
		}
		_ = r.Body.Close() // reading has consumed it
	}
	credentials, err := s.credentials.Retrieve(r.Context())
	if err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	signed := r.Clone(r.Context())
	signed.Body, signed.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	sum := sha256.Sum256(body)
	if err := s.signer.SignHTTP(r.Context(), credentials, signed, hex.EncodeToString(sum[:]), signedService, s.region, s.now()); err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	return s.next.RoundTrip(signed)
}
