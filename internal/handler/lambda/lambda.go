// Package lambdahandler calls handlers that are functions of AWS Lambda. The function is invoked
// with the request document as its event, and returns the answer document.
//
// # Errors
//
// Every error is a failed try, and its text names the function: a request or an answer that is too
// large for Lambda, a throttled or refused invocation, and the end of the context. If the function
// raised an error, its timeout included, the error is a [*handler.FailedError]. A function whose
// invocation was given up may still run to its end; its answer is lost.
//
// # Limits
//
// Lambda takes 6 MiB in each direction. An invocation is sent once more if its connection failed,
// because a function that was frozen between two events finds its connections closed. Everything
// else is left to the retry policy of the stream.
package lambdahandler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/aws/call"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/handler"
)

// MaxPayload is the largest request and the largest answer of Lambda, in bytes.
const MaxPayload = 6 << 20

// maxMessage is how much of the message of a function's error is kept, in bytes.
const maxMessage = 1000

// sends is how often an invocation is sent if its connection fails.
const sends = 2

var _ handler.Caller = (*Caller)(nil)

// A Caller calls one function. It may be used concurrently.
type Caller struct {
	client   *call.Client
	function string
}

// New returns a caller of a function: its name, NAME:QUALIFIER, where the qualifier is an alias or
// a version, or its ARN, with or without a qualifier. A name belongs to the account and the region
// of the client. New makes no call.
func New(client *call.Client, function string) (*Caller, error) {
	f, err := config.ParseFunction(function)
	if err != nil {
		return nil, err
	}
	return &Caller{function: function, client: client.In(f.Region).Retrying(retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.Retryables = sends, []retry.IsErrorRetryable{retry.RetryableConnectionError{}}
	}))}, nil
}

// Call invokes the function with the request and returns its answer. The attempt is in the request;
// Lambda needs it nowhere else.
func (c *Caller) Call(ctx context.Context, _ string, request []byte) ([]byte, error) {
	answer, err := c.call(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("call function %s: %w", c.function, err)
	}
	return answer, nil
}

func (c *Caller) call(ctx context.Context, request []byte) ([]byte, error) {
	if len(request) > MaxPayload {
		return nil, fmt.Errorf("the request has %d bytes, and Lambda takes %d: set a smaller batch, or keep less in the state", len(request), MaxPayload)
	}
	out, err := c.client.Invoke(ctx, c.function, request)
	switch {
	case err != nil:
		return nil, explain(ctx, err)
	case out.Header.Get(call.FunctionError) != "":
		return nil, raised(out.Body)
	case out.Status != http.StatusOK:
		return nil, fmt.Errorf("HTTP %d instead of %d", out.Status, http.StatusOK)
	case len(out.Body) > MaxPayload:
		return nil, fmt.Errorf("the answer has %d bytes, and Lambda returns at most %d", len(out.Body), MaxPayload)
	}
	return out.Body, nil
}

// explain shortens an error of the SDK to the message of the service.
func explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("no answer in time: %w", cause)
	}
	service, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err
	}
	status := 0
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		status = response.HTTPStatusCode()
	}
	return fmt.Errorf("%s: %s (HTTP %d)", service.ErrorCode(), cut(service.ErrorMessage()), status)
}

// raised returns the error of a function. Its payload has the type and the message, unless the
// runtime of the function makes other ones.
func raised(payload []byte) error {
	var e struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	if err := json.Unmarshal(payload, &e); err != nil {
		return handler.Failed("")
	}
	if e.Type == "" || e.Message == "" {
		return handler.Failed(e.Type + e.Message)
	}
	return handler.Failed(e.Type + ": " + e.Message)
}

// cut returns the beginning of a long text.
func cut(text string) string {
	if len(text) > maxMessage {
		text = text[:maxMessage] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
