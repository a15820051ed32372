package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/apigw"
)

func TestTheContractHoldsBehindAGateway(t *testing.T) {
	var handler http.Handler
	w := newWorld(t, func(_ *world, o *api.Options) {
		o.Principal, o.RequestID = apigw.Principal, apigw.RequestID
		handler = api.New(*o)
	})
	serve := func(event string) events.APIGatewayV2HTTPResponse {
		t.Helper()
		answer, err := apigw.Handler(handler)(t.Context(), json.RawMessage(event))
		if err != nil {
			t.Fatal(err)
		}
		return answer.(events.APIGatewayV2HTTPResponse)
	}
	const context = `"requestContext":{"requestId":"r-1","stage":"$default","domainName":"api.example","authorizer":{"jwt":{"claims":{"sub":"alice"}}},"http":`

	sent := serve(`{"version":"2.0","rawPath":"/v1/streams/orders/messages","headers":{"idempotency-key":"a/b","prefer":"wait=10"},"body":"reply",` +
		context + `{"method":"POST"}}}`)
	if sent.StatusCode != http.StatusConflict || sent.Body != "not enough money\x00" || sent.Headers["X-Why"] != "a, b" {
		t.Errorf("got %+v", sent)
	}
	if got := w.queue.message(); got.Principal != "jwt:#alice" {
		t.Errorf("principal %q", got.Principal)
	}
	found := serve(`{"version":"2.0","rawPath":"/v1/streams/orders/messages/a/b",` + context + `{"method":"GET"}}}`)
	if found.StatusCode != http.StatusOK {
		t.Errorf("got %+v", found)
	}
	folded := serve(`{"version":"2.0","rawPath":"/v1/streams/orders/messages","headers":{"idempotency-key":"a,b"},` + context + `{"method":"POST"}}}`)
	var p struct{ Instance string }
	if err := json.Unmarshal([]byte(folded.Body), &p); err != nil || folded.StatusCode != http.StatusBadRequest || p.Instance != "urn:once:request:r-1" {
		t.Errorf("got %+v", folded)
	}
}

// TestRolesHoldBehindAGateway sends events of each kind of caller through the functions' front.
func TestRolesHoldBehindAGateway(t *testing.T) {
	var options api.Options
	newWorld(t, func(_ *world, o *api.Options) { options = *o })
	const issuer = "https://id.example"
	open := config.Server{Auth: &config.Auth{OIDC: &config.OIDC{Issuer: issuer, Audience: "once"}}}
	closed := config.Server{Auth: &config.Auth{
		Roles: map[string][]string{"iam:arn:aws:sts::1:assumed-role/reader": {"read"}, "jwt:" + issuer + "#eve": {"read"}},
		OIDC:  &config.OIDC{Issuer: issuer, Audience: "once", Roles: "scope", Streams: "streams"},
	}}
	iam := func(role string) string {
		return `{"iam":{"userArn":"arn:aws:sts::1:assumed-role/` + role + `/session"}}`
	}
	jwt := func(issuer, scope string) string {
		return `{"jwt":{"claims":{"iss":"` + issuer + `","sub":"eve","scope":"` + scope + `","streams":"[orders chat]"}}}`
	}
	for _, c := range []struct {
		who         string
		config      *config.Server
		authorizer  string
		sends, logs bool
	}{
		{"no block for servers", nil, iam("shop"), true, true},
		{"no roles", &open, iam("shop"), true, true},
		{"no roles, a token", &open, jwt(issuer, "send"), true, true},
		{"a role without an entry", &closed, iam("shop"), true, false},
		{"a role with an entry", &closed, iam("reader"), false, true},
		{"nobody", &closed, `{}`, true, false},
		{"a token", &closed, jwt(issuer, "[read:or* openid]"), false, true},
		{"a token for another stream", &closed, jwt(issuer, "send,read:chat"), true, false},
		{"a token without roles", &closed, jwt(issuer, ""), false, false},
		{"a token of another issuer, with the claim", &closed, jwt("https://evil.example", "read"), true, false},
	} {
		o := options
		o.Principal, o.Allow = apigw.Principal, apigw.Allow(c.config)
		handler := apigw.Handler(api.New(o))
		status := func(method, path string) int {
			t.Helper()
			event := `{"version":"2.0","rawPath":"` + path + `","headers":{"idempotency-key":"k"},"requestContext":{"requestId":"r","stage":"$default","authorizer":` + c.authorizer + `,"http":{"method":"` + method + `"}}}`
			answer, err := handler(t.Context(), json.RawMessage(event))
			if err != nil {
				t.Fatal(err)
			}
			return answer.(events.APIGatewayV2HTTPResponse).StatusCode
		}
		sends, logs := status("POST", "/v1/streams/orders/messages") != http.StatusForbidden, status("GET", "/v1/streams/orders/groups/g/log") != http.StatusForbidden
		if sends != c.sends || logs != c.logs {
			t.Errorf("%s: sends %t, reads logs %t; want %t and %t", c.who, sends, logs, c.sends, c.logs)
		}
		if ends := status("POST", "/v1/streams/orders/end") != http.StatusForbidden; ends && c.config == &closed {
			t.Errorf("%s ends the stream", c.who)
		}
	}
}
