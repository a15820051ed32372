package sign_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/effectively-once/once/internal/aws/sign"
)

func TestTheRegionIsThatOfTheURLOrElseTheFallback(t *testing.T) {
	for text, want := range map[string]string{
		"https://abc.execute-api.eu-west-1.amazonaws.com/prod":     "eu-west-1",
		"https://abc.execute-api.cn-north-1.amazonaws.com.cn/prod": "cn-north-1",
		"https://us.example":                                        "here",
		"https://execute-api.eu-west-1.amazonaws.com":               "here",
		"https://abc.execute-api.eu-west-1.elsewhere.example.com/x": "here",
		"://": "here",
	} {
		if got := sign.RegionOf(text, "here"); got != want {
			t.Errorf("%s: %s, not %s", text, got, want)
		}
	}
}

func TestARequestIsSignedForTheAPIAndKeepsItsBody(t *testing.T) {
	var authorization, body string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		authorization, body = r.Header.Get("Authorization"), string(data)
	}))
	defer s.Close()
	credentials := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "hush"}, nil
	})
	c := &http.Client{Transport: sign.New(credentials, "eu-west-1", http.DefaultTransport)}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if body != "content" || !strings.HasPrefix(authorization, "AWS4-HMAC-SHA256 Credential=id/") || !strings.Contains(authorization, "/eu-west-1/execute-api/aws4_request") {
		t.Errorf("%q, %q", authorization, body)
	}
}
