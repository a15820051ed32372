package apigw

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func event(t *testing.T, name string) json.RawMessage {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// serve answers an event and returns the answer as the gateway reads it.
func serve(t *testing.T, name string, h http.HandlerFunc) map[string]any {
	t.Helper()
	answer, err := Handler(h)(t.Context(), event(t, name))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(text, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// seen has the parts of a request that a handler reads.
type seen struct {
	Method, Target, Path, Host, From, Body, Principal, ID string
	Length                                                int64
	Header                                                http.Header
}

func TestAnEventIsTheRequestThatWasSent(t *testing.T) {
	for name, want := range map[string]seen{
		"rest_iam": {
			Method: "PUT", Target: "/v1/streams/orders/requests/a%2Fb%3Fc?group=a%26b&twice=1&twice=2", Path: "/v1/streams/orders/requests/a/b?c",
			Host: "70ixmpl4fl.execute-api.us-east-2.amazonaws.com", From: "52.255.255.12", Body: `{"a":1}`, Length: 7,
			Principal: "iam:arn:aws:sts::123456789012:assumed-role/shop", ID: "77375676-xmpl-4b79-853a-f982474efe18",
			Header: http.Header{"Accept": {"*/*"}, "Content-Type": {"application/json"}, "Idempotency-Key": {"first", "second"}, "X-Forwarded-For": {"52.255.255.12"}},
		},
		"rest_cognito": {
			Method: "POST", Target: "/v1/streams/orders/messages", Path: "/v1/streams/orders/messages", Host: "api.example", From: "52.255.255.12",
			Body: "\xff\x00", Length: 2, Principal: "jwt:https://cognito-idp.us-east-2.amazonaws.com/us-east-2_x#user-1", ID: "r2",
			Header: http.Header{"Idempotency-Key": {"a"}, "Once-Principal": {"root"}},
		},
		"rest_key": {
			Method: "GET", Target: "/v1/streams/orders/messages/100%25", Path: "/v1/streams/orders/messages/100%", Host: "api.example", From: "52.255.255.12",
			Principal: "key:k1", ID: "r3", Header: http.Header{},
		},
		"rest_custom": {
			Method: "GET", Target: "/healthz", Path: "/healthz", Host: "api.example", From: "52.255.255.12", Principal: "custom:user|a1b2", ID: "r4", Header: http.Header{},
		},
		"http_jwt": {
			Method: "PUT", Target: "/v1/streams/orders/requests/a/b%20%2350%25?group=a%26b&twice=1&twice=2", Path: "/v1/streams/orders/requests/a/b #50%",
			Host: "r3pmxmplak.execute-api.us-east-2.amazonaws.com", From: "205.255.255.176", Body: "hello", Length: 5, Principal: "jwt:https://id.example#user-1", ID: "JKJaXmPLvHcESHA=",
			Header: http.Header{
				"Content-Type": {"text/plain;charset=UTF-8"}, "Date": {"Sat, 21 Nov 2026 14:00:00 GMT"}, "Idempotency-Key": {"a,b"}, "Cookie": {"c1=1; c2=2"},
				"X-Amzn-Trace-Id": {"Root=1-5e6722a7-cc56xmpl46db7ae02d4da47e"}, "X-Forwarded-For": {"205.255.255.176"},
			},
		},
		"http_old": {
			Method: "GET", Target: "/v1/streams/orders/messages/50%2525", Path: "/v1/streams/orders/messages/50%25", Host: "api.example", From: "205.255.255.176",
			Principal: "jwt:https://id.example#user-2", ID: "r6", Header: http.Header{},
		},
		"url_iam": {
			Method: "GET", Target: "/v1/streams/orders/messages/a%2Fb", Path: "/v1/streams/orders/messages/a/b", Host: "abcdefg.lambda-url.us-east-1.on.aws",
			From: "123.123.123.123", Principal: "iam:arn:aws:iam::123456789012:user/shop/alice", ID: "r7", Header: http.Header{},
		},
		"http_open": {
			Method: "GET", Target: "/healthz", Path: "/healthz", Host: "api.example", From: "205.255.255.176", ID: "r8", Header: http.Header{"X-Principal": {"root"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got seen
			serve(t, name, func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				principal, err := Principal(r)
				if err != nil {
					t.Error(err)
				}
				got = seen{r.Method, r.RequestURI, r.URL.Path, r.Host, r.RemoteAddr, string(body), principal, RequestID(r), r.ContentLength, r.Header}
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnAnswerHasTheFormatOfItsEvent(t *testing.T) {
	reply := func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["Content-Type"] = nil
		h["X-Why"] = []string{"a", "b"}
		h["Set-Cookie"] = []string{"a=1", "b=2"}
		w.WriteHeader(http.StatusConflict)
		h.Set("X-Late", "not sent")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "not enough money")
	}
	rest := map[string]any{
		"statusCode": 409.0, "headers": nil, "body": "not enough money",
		"multiValueHeaders": map[string]any{"X-Why": []any{"a", "b"}, "Set-Cookie": []any{"a=1", "b=2"}},
	}
	if diff := cmp.Diff(rest, serve(t, "rest_iam", reply)); diff != "" {
		t.Errorf("REST API: %s", diff)
	}
	v2 := map[string]any{
		"statusCode": 409.0, "headers": map[string]any{"X-Why": "a, b"}, "cookies": []any{"a=1", "b=2"}, "body": "not enough money", "multiValueHeaders": nil,
	}
	if diff := cmp.Diff(v2, serve(t, "http_jwt", reply)); diff != "" {
		t.Errorf("HTTP API: %s", diff)
	}
}

func TestABodyOfBytesIsEncoded(t *testing.T) {
	for _, name := range []string{"rest_iam", "http_jwt"} {
		got := serve(t, name, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0xff, 0x00}) })
		if got["body"] != "/wA=" || got["isBase64Encoded"] != true || got["statusCode"] != 200.0 {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestAnEmptyAnswerIs200(t *testing.T) {
	if got := serve(t, "http_open", func(http.ResponseWriter, *http.Request) {}); got["statusCode"] != 200.0 || got["body"] != "" {
		t.Errorf("got %v", got)
	}
}

func TestARequestHasTheInvocationsDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	want, _ := ctx.Deadline()
	_, err := Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if got, _ := r.Context().Deadline(); !got.Equal(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}))(ctx, event(t, "http_open"))
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnotherEventIsAnError(t *testing.T) {
	for _, text := range []string{`{"Records":[]}`, `[]`, `null`, `{"version":"2.0","rawPath":"/","isBase64Encoded":true,"body":"?"}`} {
		if answer, err := Handler(http.NotFoundHandler())(t.Context(), json.RawMessage(text)); err == nil {
			t.Errorf("%s: got %v", text, answer)
		}
	}
}

func TestALongPrincipalIsHashed(t *testing.T) {
	long := strings.Repeat("x", 300)
	a, b := principal("", "", "", long, ""), principal("", "", "", long+"y", "")
	if a == b || len(a) > maxPrincipal || !strings.HasPrefix(a, "custom:sha256:") {
		t.Errorf("got %s and %s", a, b)
	}
}
