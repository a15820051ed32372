package apigw

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// request returns the request that a handler gets for a changed event; change may be nil.
func request(t *testing.T, name string, change func(event map[string]any)) *http.Request {
	t.Helper()
	var e map[string]any
	if err := json.Unmarshal(event(t, name), &e); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(e)
	}
	changed, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var got *http.Request
	if _, err := Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	return got
}

func principalOf(t *testing.T, r *http.Request) string {
	t.Helper()
	p, err := Principal(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestHeadersWhoseNamesDifferInCaseAreOneHeaderWithAllOfTheirValues(t *testing.T) {
	want := []string{"one", "two", "three"}
	several := map[string]any{"Idempotency-Key": []any{"one"}, "IDEMPOTENCY-KEY": []any{}, "idempotency-Key": []any{"two"}, "idempotency-key": []any{"three"}}
	for range 20 { // the order of a map differs each time
		got := request(t, "rest_iam", func(e map[string]any) { e["multiValueHeaders"] = several }).Header["Idempotency-Key"]
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("REST API (-want +got):\n%s", d)
		}
		single := map[string]any{"Idempotency-Key": "one", "idempotency-Key": "two", "idempotency-key": "three"}
		for _, name := range []string{"http_jwt", "url_iam", "rest_iam"} {
			got := request(t, name, func(e map[string]any) { e["headers"] = single; delete(e, "multiValueHeaders") }).Header["Idempotency-Key"]
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%s (-want +got):\n%s", name, d)
			}
		}
	}
}

func TestNoHeaderMakesAPrincipal(t *testing.T) {
	forged := map[string]any{}
	lists := map[string]any{}
	for _, name := range []string{
		"Once-Principal", "once-principal", "X-Principal", "X-Forwarded-User", "X-Forwarded-For", "X-Amzn-Principal", "X-Amz-User-Arn", "X-Api-Key", "Authorization",
		"X-Amzn-Request-Context", "X-Amzn-Lambda-Context", "userArn", "Test-Principal", "From",
	} {
		value := `{"authorizer":{"iam":{"userArn":"arn:aws:iam::1:root"}},"identity":{"userArn":"arn:aws:iam::1:root"}}`
		forged[name], lists[name] = value, []any{value}
	}
	for _, name := range []string{"rest_iam", "rest_cognito", "rest_key", "rest_custom", "http_jwt", "http_old", "http_open", "url_iam"} {
		plain := principalOf(t, request(t, name, nil))
		got := principalOf(t, request(t, name, func(e map[string]any) {
			e["headers"], e["multiValueHeaders"], e["authorizer"], e["userArn"] = forged, lists, lists, "arn:aws:iam::1:root"
			e["queryStringParameters"] = map[string]any{"principal": "root"}
		}))
		if got != plain {
			t.Errorf("%s: headers made %q of %q", name, got, plain)
		}
	}
}

func TestUsersOfAnIdentityPoolArePrincipalsOfTheirOwn(t *testing.T) {
	pool := func(version, id string) string {
		return principalOf(t, request(t, version, func(e map[string]any) {
			c := e["requestContext"].(map[string]any)
			if version == "url_iam" {
				c["authorizer"].(map[string]any)["iam"].(map[string]any)["cognitoIdentity"] = map[string]any{"identityId": id, "identityPoolId": "p", "amr": []any{"authenticated"}}
				return
			}
			c["identity"].(map[string]any)["cognitoIdentityId"] = id
		}))
	}
	for _, version := range []string{"rest_iam", "url_iam"} {
		if got := pool(version, "us-east-1:ann"); got != "cognito:us-east-1:ann" || got == pool(version, "us-east-1:bob") {
			t.Errorf("%s: ann is %q, bob is %q", version, got, pool(version, "us-east-1:bob"))
		}
	}
}

func TestKindsOfPrincipalsCannotPassForEachOther(t *testing.T) {
	seen := map[string]string{}
	for kind, p := range map[string]string{
		"iam":     principal("jwt:issuer#subject", "", "", "", ""),
		"jwt":     principal("", "issuer", "subject", "", ""),
		"custom":  principal("", "", "", "issuer#subject", ""),
		"key":     principal("", "", "", "", "issuer#subject"),
		"cognito": cognito("issuer#subject"),
		"nobody":  principal("", "", "", "", ""),
	} {
		if other, twice := seen[p]; twice {
			t.Errorf("%s and %s are both %q", kind, other, p)
		}
		seen[p] = kind
	}
}

func TestTheStrongestKindOfPrincipalWins(t *testing.T) {
	// From the strongest to the weakest: each row lacks the kind above it.
	for _, c := range []struct{ arn, issuer, subject, custom, key, want string }{
		{"arn:aws:iam::1:user/a", "i", "s", "c", "k", "iam:arn:aws:iam::1:user/a"},
		{"", "i", "s", "c", "k", "jwt:i#s"},
		{"", "", "s", "c", "k", "jwt:#s"},
		{"", "i", "", "c", "k", "custom:c"},
		{"", "i", "", "", "k", "key:k"},
		{"", "i", "", "", "", ""},
	} {
		if got := principal(c.arn, c.issuer, c.subject, c.custom, c.key); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
