package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/aws/aws-lambda-go/events"

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
