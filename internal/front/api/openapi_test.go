package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/problem"
)

// A contract checks answers against the OpenAPI document.
type contract struct{ doc *openapi3.T }

// document is the OpenAPI document, read and validated once.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI())
	if err == nil {
		err = doc.Validate(context.Background())
	}
	return doc, err
})

func newContract(t *testing.T) *contract {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	return &contract{doc}
}

// find returns the document's path for a request. The id is the last part and may contain slashes.
func (c *contract) find(path string) string {
	if found := sessionPath(path); found != "" {
		return found
	}
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 5)
	if len(parts) >= 4 && parts[0] == "v1" && parts[1] == "streams" {
		parts[2] = "{stream}"
		switch {
		case len(parts) == 5 && parts[3] == "groups" && strings.HasSuffix(parts[4], "/log"):
			parts[4] = "{group}/log"
		case len(parts) == 5:
			parts[4] = "{id}"
		}
	}
	return "/" + strings.Join(parts, "/")
}

// sessionPath returns the document's path for a path of sessions, and an empty text for another one.
func sessionPath(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	names := []string{"v1", "streams", "{stream}", "sessions", "{name}"}
	if len(parts) > 4 && parts[3] == "groups" {
		names = []string{"v1", "streams", "{stream}", "groups", "{group}", "sessions", "{name}"}
	}
	for i, name := range names {
		if i >= len(parts) {
			break
		}
		if name == "sessions" && parts[i] != name {
			return ""
		}
		parts[i] = name
	}
	if len(parts) < len(names)-1 {
		return ""
	}
	return "/" + strings.Join(parts, "/")
}

// check returns an error if the document does not allow an answer: its status, its headers, its
// content.
func (c *contract) check(r *http.Request, answer *http.Response, body []byte) error {
	path, method := c.find(r.URL.EscapedPath()), r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	item := c.doc.Paths.Value(path)
	if item == nil || item.GetOperation(method) == nil {
		return c.checkUnrouted(answer)
	}
	if r.Method == http.MethodHead {
		return nil // the headers of a content without the content
	}
	return openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: r,
			Route:   &routers.Route{Spec: c.doc, Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method)},
		},
		Status:  answer.StatusCode,
		Header:  answer.Header,
		Body:    io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
}

func (c *contract) checkUnrouted(answer *http.Response) error {
	if answer.StatusCode != http.StatusNotFound && answer.StatusCode != http.StatusMethodNotAllowed {
		return fmt.Errorf("a route that is not in the document answers %d", answer.StatusCode)
	}
	if got := answer.Header.Get("Content-Type"); got != "application/problem+json" {
		return fmt.Errorf("a route that is not in the document answers %s", got)
	}
	return nil
}

func TestTheDocumentAndTheRoutesAreTheSame(t *testing.T) {
	var documented []string
	for path, item := range newContract(t).doc.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+strings.Replace(path, "{id}", "{id...}", 1))
		}
	}
	served := api.Routes()
	slices.Sort(documented)
	slices.Sort(served)
	if diff := cmp.Diff(served, documented); diff != "" {
		t.Errorf("served (-) and documented (+) differ:\n%s", diff)
	}
}

func TestTheDocumentNamesEveryProblemType(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(api.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, typ := range problem.Types() {
		want = append(want, typ.URI())
	}
	if diff := cmp.Diff(want, doc.Components.Schemas["Problem"].Properties["type"].Enum); diff != "" {
		t.Error(diff)
	}
}

func TestTheDocumentIsServed(t *testing.T) {
	got := newWorld(t).send("GET", "/openapi.json", "")
	if got.status != 200 || got.body != string(api.OpenAPI()) {
		t.Errorf("got %d %.100s", got.status, got.body)
	}
}

func TestAnAnswerThatIsNotInTheDocumentIsNoticed(t *testing.T) {
	unavailable := `{"type":"` + problem.Unavailable.URI() + `","title":"Service is unavailable","status":503,"instance":"urn:uuid:1"}`
	receipt := `{"id":"1","stream":"orders","group":"1","status":"accepted"}`
	wrongStatus := strings.Replace(receipt, "accepted", "lost", 1)
	for _, c := range []struct {
		name, path, contentType, header, body string
		status                                int
		right                                 bool
	}{
		{"a receipt", "/v1/streams/orders/messages", "application/json", "Location: /v1/streams/orders/messages/1", receipt, 202, true},
		{"no location", "/v1/streams/orders/messages", "application/json", "", receipt, 202, false},
		{"a status of its own", "/v1/streams/orders/messages", "application/json", "Location: /v1/streams/orders/messages/1", wrongStatus, 202, false},
		{"a problem", "/v1/streams/orders/messages", "application/problem+json", "Retry-After: 1", unavailable, 503, true},
		{"no time to come again", "/v1/streams/orders/messages/1", "application/problem+json", "", unavailable, 503, false},
		{"a problem of another status", "/v1/streams/orders/messages", "application/problem+json", "Retry-After: 1", unavailable, 429, false},
		{"a route of its own", "/v2", "application/json", "", receipt, 202, false},
	} {
		method := http.MethodPost
		if strings.HasSuffix(c.path, "/1") {
			method = http.MethodGet
		}
		r := httptest.NewRequestWithContext(t.Context(), method, c.path, nil)
		header := http.Header{"Content-Type": {c.contentType}}
		if name, value, has := strings.Cut(c.header, ": "); has {
			header.Set(name, value)
		}
		err := newContract(t).check(r, &http.Response{StatusCode: c.status, Header: header}, []byte(c.body))
		if (err == nil) != c.right {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestEveryProblemTypeIsAnAnchorOfItsPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range problem.Types() {
		if !strings.Contains(string(page), fmt.Sprintf("\n### %s\n%d", typ, typ.Status())) {
			t.Errorf("%s is not documented with its status", typ)
		}
	}
}
