package call

import (
	"context"
	"net/http"
	"net/url"
)

// FunctionError is the header of a response to Invoke that says that the function failed.
const FunctionError = "X-Amz-Function-Error"

// MappingsPath is the path of the event source mappings of Lambda.
const MappingsPath = "/2015-03-31/event-source-mappings"

// FunctionPath returns the escaped path of a function, by its name or ARN, or of a part of it.
func FunctionPath(function, part string) string {
	path := "/2015-03-31/functions/" + url.QueryEscape(function)
	if part != "" {
		path += "/" + part
	}
	return path
}

// Invoke invokes a function, and waits for its answer. The client must be one of [Lambda].
func (c *Client) Invoke(ctx context.Context, function string, payload []byte) (*Response, error) {
	return c.Do(ctx, Request{
		Operation: "Invoke", Method: http.MethodPost, Path: FunctionPath(function, "invocations"), Body: payload,
		Header: http.Header{"X-Amz-Invocation-Type": {"RequestResponse"}, "Content-Type": {"application/octet-stream"}},
	})
}
