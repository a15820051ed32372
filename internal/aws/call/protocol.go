package call

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"
)

// JSON calls an operation by the JSON protocol. It encodes in, and decodes the response to out
// unless that is nil. Numbers that are times are Unix seconds.
func (c *Client) JSON(ctx context.Context, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode %s: %w", operation, err)
	}
	header := http.Header{"Content-Type": {"application/x-amz-json-1.1"}, "X-Amz-Target": {c.service.Target + "." + operation}}
	return c.decode(ctx, Request{Operation: operation, Method: http.MethodPost, Path: "/", Header: header, Body: body}, json.Unmarshal, out)
}

// Get reads a resource of a REST API, and decodes its JSON to out.
func (c *Client) Get(ctx context.Context, operation, path string, query url.Values, out any) error {
	return c.decode(ctx, Request{Operation: operation, Method: http.MethodGet, Path: path, Query: query}, json.Unmarshal, out)
}

// Form calls an operation by the query protocol. It adds Action and Version to form, and decodes
// the XML of the response to out.
func (c *Client) Form(ctx context.Context, operation string, form url.Values, out any) error {
	form.Set("Action", operation)
	form.Set("Version", c.service.Version)
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	return c.decode(ctx, Request{Operation: operation, Method: http.MethodPost, Path: "/", Header: header, Body: []byte(form.Encode())}, xml.Unmarshal, out)
}

func (c *Client) decode(ctx context.Context, r Request, unmarshal func([]byte, any) error, out any) error {
	answer, err := c.Do(ctx, r)
	if err != nil || out == nil {
		return err
	}
	if err := unmarshal(answer.Body, out); err != nil {
		return &smithy.OperationError{ServiceID: c.service.ID, OperationName: r.Operation, Err: &smithy.DeserializationError{Err: err, Snapshot: answer.Body[:min(len(answer.Body), 1024)]}}
	}
	return nil
}

// errorOf returns the error in a response of any of the protocols.
func errorOf(r *http.Response, body []byte) error {
	var e struct {
		Type      string `json:"__type"`
		Code      string `json:"code"`
		Message   string `json:"message"` // or Message: names are compared without case
		XMLCode   string `json:"-" xml:"Error>Code"`
		XMLDetail string `json:"-" xml:"Error>Message"`
	}
	code, message := r.Header.Get("X-Amzn-Errortype"), ""
	if json.Unmarshal(body, &e) == nil {
		message = e.Message
		for _, other := range []string{e.Code, e.Type} {
			if code == "" {
				code = other
			}
		}
	} else if xml.Unmarshal(body, &e) == nil {
		code, message = e.XMLCode, e.XMLDetail
	}
	code, _, _ = strings.Cut(code, ":")
	code = code[strings.LastIndexByte(code, '#')+1:]
	if code == "" {
		code, message = "UnknownError", http.StatusText(r.StatusCode)
	}
	fault := smithy.FaultClient
	if r.StatusCode >= http.StatusInternalServerError {
		fault = smithy.FaultServer
	}
	return &smithy.GenericAPIError{Code: code, Message: message, Fault: fault}
}
