package host

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/uuid"
)

// maxRequest is the largest request that Lambda accepts.
const maxRequest = 6 << 20

// Front serves HTTP with a function, as a function URL does, in payload format 2.0. If the function
// fails, the response is a 502. If the caller disconnects, the function continues.
func Front(invoke func(context.Context, []byte) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			http.Error(w, "request is too large", http.StatusRequestEntityTooLarge)
			return
		}
		event, err := json.Marshal(requestEvent(r, body))
		if err != nil {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		var response events.APIGatewayV2HTTPResponse
		answer, err := invoke(context.WithoutCancel(r.Context()), event)
		if err == nil {
			err = json.Unmarshal(answer, &response)
		}
		if err != nil {
			http.Error(w, "internal server error", http.StatusBadGateway)
			return
		}
		respond(w, &response)
	})
}

func requestEvent(r *http.Request, body []byte) events.APIGatewayV2HTTPRequest {
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	e := events.APIGatewayV2HTTPRequest{
		Version: "2.0", RouteKey: "$default", RawPath: r.URL.EscapedPath(), RawQueryString: r.URL.RawQuery, Headers: map[string]string{"host": r.Host},
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			RequestID: uuid.NewString(), Stage: "$default", DomainName: "local.lambda-url.local.on.aws",
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: r.Method, Path: r.URL.Path, Protocol: r.Proto, SourceIP: from, UserAgent: r.UserAgent()},
		},
	}
	for name, values := range r.Header {
		if name == "Cookie" {
			e.Cookies = values
			continue
		}
		e.Headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	if e.Body = string(body); !utf8.Valid(body) {
		e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return e
}

func respond(w http.ResponseWriter, response *events.APIGatewayV2HTTPResponse) {
	body := []byte(response.Body)
	if response.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(response.Body); err != nil {
			http.Error(w, "internal server error", http.StatusBadGateway)
			return
		}
	}
	for name, value := range response.Headers {
		w.Header().Set(name, value)
	}
	for _, cookie := range response.Cookies {
		w.Header().Add("Set-Cookie", cookie)
	}
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(body) // the caller may be gone
}
