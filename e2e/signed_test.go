package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// A gateway admits only requests that are signed with the credentials of the environment, as API
// Gateway does with IAM authorization, and passes them on.
type gateway struct {
	*httptest.Server
	admitted, refused atomic.Int64
}

func newGateway(t *testing.T, target string) *gateway {
	t.Helper()
	u, err := url.Parse(target)
	must(t, err)
	g := &gateway{}
	pass := httputil.NewSingleHostReverseProxy(u)
	pass.ErrorLog = log.New(io.Discard, "", 0) // the target is killed
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isSigned(r) {
			g.refused.Add(1)
			http.Error(w, `{"message":"Forbidden"}`, http.StatusForbidden)
			return
		}
		g.admitted.Add(1)
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

// isSigned signs a request again, over the headers that its signature names, and compares.
func isSigned(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	given := r.Header.Get("Authorization")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	now := time.Now()
	if err != nil || at.Before(now.Add(-5*time.Minute)) || at.After(now.Add(5*time.Minute)) {
		return false
	}
	_, rest, _ := strings.Cut(given, "SignedHeaders=")
	list, _, _ := strings.Cut(rest, ",")
	names := strings.Split(list, ";")
	if !slices.Contains(names, "host") {
		return false
	}
	again := &http.Request{Method: r.Method, URL: r.URL, Host: r.Host, Header: http.Header{}, ContentLength: int64(len(body))}
	for _, name := range names {
		if values := r.Header.Values(name); len(values) > 0 {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	sum := sha256.Sum256(body)
	credentials := aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}
	if v4.NewSigner().SignHTTP(r.Context(), credentials, again, hex.EncodeToString(sum[:]), "execute-api", os.Getenv("AWS_REGION"), at) != nil {
		return false
	}
	return given != "" && again.Header.Get("Authorization") == given
}
