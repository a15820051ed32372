package function

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

// A caller without an entry may send, and neither read the log nor end it.
func TestAFunctionHonoursTheRolesOfItsConfiguration(t *testing.T) {
	const roles = `
streams: {orders: {log: {}}}
server: {auth: {roles: {"iam:arn:aws:sts::1:assumed-role/reader": [read, operate]}}}
`
	settings, clients := emulated(t, roles)
	s, err := Open(Ingest, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		role, method, path, headers string
		status                      int
	}{
		{"shop", "POST", "messages", `"idempotency-key":"a","once-group":"g"`, 202},
		{"shop", "GET", "messages/a", "", 200},
		{"shop", "GET", "groups/g/log", "", 403},
		{"shop", "POST", "messages", `"idempotency-key":"b","once-group":"g","once-end":"true"`, 403},
		{"reader", "GET", "groups/g/log", "", 200},
		{"reader", "POST", "messages", `"idempotency-key":"c","once-group":"g"`, 403},
	} {
		event := `{"version":"2.0","rawPath":"/v1/streams/orders/` + c.path + `","headers":{` + c.headers + `},"body":"x","requestContext":{"requestId":"r","stage":"$default",` +
			`"authorizer":{"iam":{"userArn":"arn:aws:sts::1:assumed-role/` + c.role + `/s"}},"http":{"method":"` + c.method + `"}}}`
		answer, err := s.Handler()(t.Context(), json.RawMessage(event))
		if err != nil {
			t.Fatal(err)
		}
		got := answer.(events.APIGatewayV2HTTPResponse)
		if got.StatusCode != c.status || c.status == 403 && !strings.Contains(got.Body, `stream \"orders\"`) {
			t.Errorf("%s %s of %s: got %d %s, want %d", c.method, c.path, c.role, got.StatusCode, got.Body, c.status)
		}
	}
}
