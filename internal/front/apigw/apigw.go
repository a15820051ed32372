package apigw

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/front/inprocess"
)

// Handler returns a Lambda handler for an HTTP handler. It takes the events of REST APIs, of HTTP
// APIs in payload formats 1.0 and 2.0, and of function URLs, and answers in the format of the
// event. The request's context is the invocation's, with its deadline. If an event is none of
// these, it returns an error.
func Handler(h http.Handler) func(ctx context.Context, event json.RawMessage) (any, error) {
	return func(ctx context.Context, event json.RawMessage) (any, error) {
		var kind struct {
			Version    string `json:"version"`
			HTTPMethod string `json:"httpMethod"`
		}
		if err := json.Unmarshal(event, &kind); err != nil {
			return nil, fmt.Errorf("read event: %w", err)
		}
		switch {
		case kind.Version == "2.0":
			return serveV2(ctx, h, event)
		case kind.HTTPMethod != "":
			return serveV1(ctx, h, event, kind.Version == "1.0")
		default:
			return nil, fmt.Errorf("read event: not an event of API Gateway")
		}
	}
}

// serveV1 answers a REST API, or an HTTP API in the old format; the latter has decoded the path.
func serveV1(ctx context.Context, h http.Handler, event json.RawMessage, decoded bool) (any, error) {
	var e events.APIGatewayProxyRequest
	if err := json.Unmarshal(event, &e); err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	in := incoming{
		method: e.HTTPMethod, path: e.Path, decoded: decoded, query: queryV1(e), header: headerV1(e), host: e.RequestContext.DomainName,
		from: e.RequestContext.Identity.SourceIP, body: e.Body, base64: e.IsBase64Encoded,
		caller: caller{id: e.RequestContext.RequestID, principal: principalV1(e.RequestContext), claims: claimsV1(e.RequestContext)},
	}
	w, err := in.serve(ctx, h)
	if err != nil {
		return nil, err
	}
	body, encoded := bodyOf(w)
	return events.APIGatewayProxyResponse{StatusCode: w.Status, MultiValueHeaders: w.Sent, Body: body, IsBase64Encoded: encoded}, nil
}

// headerV1 takes the lists of values, and the single values of an event that has no lists.
func headerV1(e events.APIGatewayProxyRequest) http.Header {
	if len(e.MultiValueHeaders) > 0 {
		return canonical(e.MultiValueHeaders)
	}
	return canonical(listed(e.Headers))
}

// canonical returns headers as net/http does. If names differ in case only, they are one header,
// and all of their values count: otherwise the order of a map would choose one; the HTTP API
// refuses a header with two values if it allows only one.
func canonical(sent map[string][]string) http.Header {
	header := make(http.Header, len(sent)+1)
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		key := http.CanonicalHeaderKey(name)
		header[key] = append(header[key], sent[name]...)
	}
	return header
}

func listed(single map[string]string) map[string][]string {
	lists := make(map[string][]string, len(single))
	for name, value := range single {
		lists[name] = []string{value}
	}
	return lists
}

func queryV1(e events.APIGatewayProxyRequest) string {
	values := make(url.Values, len(e.MultiValueQueryStringParameters))
	for name, value := range e.QueryStringParameters {
		values.Set(name, value)
	}
	maps.Copy(values, e.MultiValueQueryStringParameters)
	return values.Encode()
}

// serveV2 answers an HTTP API or a function URL; of the two only the latter leaves the path as it
// was sent.
func serveV2(ctx context.Context, h http.Handler, event json.RawMessage) (any, error) {
	var e events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(event, &e); err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	header := canonical(listed(e.Headers))
	if len(e.Cookies) > 0 {
		header.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	c := e.RequestContext
	in := incoming{
		method: c.HTTP.Method, path: withoutStage(e.RawPath, c.Stage), decoded: !strings.Contains(c.DomainName, ".lambda-url."), query: e.RawQueryString,
		header: header, host: c.DomainName, from: c.HTTP.SourceIP, body: e.Body, base64: e.IsBase64Encoded,
		caller: caller{id: c.RequestID, principal: principalV2(c), claims: claimsV2(c)},
	}
	w, err := in.serve(ctx, h)
	if err != nil {
		return nil, err
	}
	answer := events.APIGatewayV2HTTPResponse{StatusCode: w.Status, Headers: make(map[string]string, len(w.Sent)), Cookies: w.Sent["Set-Cookie"]}
	for name, values := range w.Sent {
		if name != "Set-Cookie" {
			answer.Headers[name] = strings.Join(values, ", ")
		}
	}
	answer.Body, answer.IsBase64Encoded = bodyOf(w)
	return answer, nil
}

// withoutStage cuts the stage off, which HTTP APIs leave in front of the path.
func withoutStage(path, stage string) string {
	if rest, ok := strings.CutPrefix(path, "/"+stage+"/"); ok && stage != "" && stage != "$default" {
		return "/" + rest
	}
	return path
}

// incoming is a request as an event describes it.
type incoming struct {
	method, path, query string
	decoded             bool // the path is decoded
	header              http.Header
	host, from, body    string
	base64              bool
	caller              caller
}

func (in *incoming) serve(ctx context.Context, h http.Handler) (*inprocess.Recorder, error) {
	body := []byte(in.body)
	if in.base64 {
		var err error
		if body, err = base64.StdEncoding.DecodeString(in.body); err != nil {
			return nil, fmt.Errorf("decode body: %w", err)
		}
	}
	if host := in.header.Get("Host"); host != "" {
		in.host = host
	}
	in.header.Del("Host")
	target := in.target()
	r := &http.Request{
		Method: strings.ToUpper(in.method), URL: target, RequestURI: target.RequestURI(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: in.header, Host: in.host, RemoteAddr: in.from, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	w := inprocess.NewRecorder(0)
	h.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callerKey{}, in.caller)))
	w.WriteHeader(http.StatusOK) // unless the handler has called it
	maps.DeleteFunc(w.Sent, func(_ string, values []string) bool { return len(values) == 0 })
	return w, nil
}

// bodyOf returns the body of a response as the events hold it: text, or base64 if it is not UTF-8.
func bodyOf(w *inprocess.Recorder) (text string, encoded bool) {
	if utf8.Valid(w.Body) {
		return string(w.Body), false
	}
	return base64.StdEncoding.EncodeToString(w.Body), true
}

// target returns the URL of a path. If the path can't be decoded, it was decoded already.
func (in *incoming) target() *url.URL {
	u := &url.URL{Path: in.path, RawQuery: in.query}
	if in.decoded {
		return u
	}
	if path, err := url.PathUnescape(in.path); err == nil {
		u.Path, u.RawPath = path, in.path
	}
	return u
}
