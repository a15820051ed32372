// Package sign signs requests to API Gateway, as IAM authorization requires (Signature Version
// 4).
package sign

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// A Signer signs each request that it sends. It is an http.RoundTripper.
type Signer struct {
	credentials aws.CredentialsProvider
	signer      *v4.Signer
	region      string
	next        http.RoundTripper
	now         func() time.Time
}

// New returns a signer with credentials, for API Gateway in a region. It sends with next.
func New(credentials aws.CredentialsProvider, region string, next http.RoundTripper) *Signer {
	return &Signer{credentials: credentials, signer: v4.NewSigner(), region: region, next: next, now: time.Now}
}

// RegionOf returns the region in the URL of an API, or fallback if it has a domain of its own.
func RegionOf(text, fallback string) string {
	u, err := url.Parse(text)
	if err != nil {
		return fallback
	}
	// ID.execute-api.REGION.amazonaws.com, in China with .cn
	parts := strings.Split(u.Hostname(), ".")
	if len(parts) >= 5 && parts[1] == service && parts[3] == "amazonaws" {
		return parts[2]
	}
	return fallback
}

// service is API Gateway's name in signatures.
const service = "execute-api"

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
	if err := s.signer.SignHTTP(r.Context(), credentials, signed, hex.EncodeToString(sum[:]), service, s.region, s.now()); err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	return s.next.RoundTrip(signed)
}
