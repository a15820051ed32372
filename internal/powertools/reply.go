package powertools

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
)

// A Reply is the kind of all results.
type Reply string

// The kinds of results.
const (
	// AutoReply takes an object with a numeric statusCode for an answer of HTTP, as API Gateway
	// does, and every other result for JSON.
	AutoReply Reply = "auto"
	// HTTPReply takes every result for an answer of HTTP: an object with statusCode, headers, body.
	HTTPReply Reply = "http"
	// JSONReply keeps the result as a body of JSON, with the status 200.
	JSONReply Reply = "json"
)

// Valid returns an error if r is none of the kinds.
func (r Reply) Valid() error {
	switch r {
	case AutoReply, HTTPReply, JSONReply:
		return nil
	}
	return fmt.Errorf("reply %q is neither %q nor %q nor %q", string(r), AutoReply, HTTPReply, JSONReply)
}

// A proxied answer is the result of a function behind API Gateway.
type proxied struct {
	Status  *json.Number     `json:"statusCode"`
	Headers map[string]any   `json:"headers"`
	Multi   map[string][]any `json:"multiValueHeaders"`
	Body    *string          `json:"body"`
	Base64  bool             `json:"isBase64Encoded"`
}

func replyOf(l Language, as Reply, v types.AttributeValue) (*record.Reply, error) {
	result, err := resultOf(l, v)
	if err != nil {
		return nil, err
	}
	if as != JSONReply {
		reply, err := httpReply(result)
		if err == nil || as == HTTPReply {
			return reply, err
		}
	}
	if result == nil {
		return &record.Reply{Status: http.StatusOK}, nil
	}
	return &record.Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: result}, nil
}

func httpReply(result []byte) (*record.Reply, error) {
	var p proxied
	d := json.NewDecoder(bytes.NewReader(result))
	d.UseNumber()
	if err := d.Decode(&p); err != nil || p.Status == nil {
		return nil, errors.New("it is no answer of HTTP: an object with statusCode, headers and body")
	}
	status, err := p.Status.Int64()
	if err != nil || status < 200 || status > 599 {
		return nil, fmt.Errorf("statusCode %s is no status", *p.Status)
	}
	r := &record.Reply{Status: int(status), Header: http.Header{}}
	for name, v := range p.Headers {
		p.set(r.Header, name, []any{v})
	}
	for name, values := range p.Multi {
		p.set(r.Header, name, values)
	}
	if p.Body != nil {
		r.Body = []byte(*p.Body)
	}
	if p.Base64 {
		if r.Body, err = base64.StdEncoding.DecodeString(string(r.Body)); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
	}
	if _, typed := r.Header["Content-Type"]; !typed && len(r.Body) > 0 {
		r.Header["Content-Type"] = []string{"application/json"} // as API Gateway adds
	}
	return r, nil
}

func (*proxied) set(h map[string][]string, name string, values []any) {
	name = http.CanonicalHeaderKey(strings.TrimSpace(name))
	if !record.IsKeptHeader(name) { // as the middleware keeps them
		return
	}
	var texts []string
	for _, v := range values {
		if v != nil {
			texts = append(texts, fmt.Sprint(v))
		}
	}
	if len(texts) > 0 {
		h[name] = texts
	}
}

// encode1 encodes a value without a line break, and without escapes for HTML.
func encode1(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
