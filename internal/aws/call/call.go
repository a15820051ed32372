// Package call makes single calls of AWS services for which the SDK's clients are too large: each
// of them links all operations of its service, which takes longer to compile and to start than the
// rest of a function.
//
// The settings, retries, signatures and errors are those of the SDK: a client of this package is
// configured as the SDK's client of SQS is, which every program links anyway, and its calls run
// through the middleware of the SDK. A service's own endpoint is read as the SDK reads it, such as
// AWS_ENDPOINT_URL_SSM.
//
// # Errors
//
// An error of a service is a [smithy.APIError] within a [smithy.OperationError], with the status of
// the response and the id of the request.
//
// # Limits
//
// A response is read into memory, at most [MaxResponse] bytes of it. The clock of the machine is
// not corrected by that of the service.
package call

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// MaxResponse is the largest response that is read, in bytes.
const MaxResponse = 16 << 20

// A Service has the facts about a service that a client needs.
type Service struct {
	// ID is the SDK's name of the service, such as "Secrets Manager".
	ID string
	// Host is the first label of its endpoints, and its name in signatures.
	Host string
	// Target is the prefix of operations in the JSON protocol, Version the version of the API in the
	// query protocol.
	Target, Version string
	// OneDomain says that dual-stack requests use the host name for IPv4.
	OneDomain bool
	// Gov says which FIPS endpoints in GovCloud end in -fips. In other regions all do.
	Gov GovNames
}

// GovNames says which FIPS endpoints in GovCloud have names that end in -fips; the others have the
// usual name.
type GovNames int

// The names in GovCloud.
const (
	GovIPv6   GovNames = iota // those for IPv6
	GovAlways                 // all
	GovNever                  // none
)

// A Client calls one service. It may be used concurrently.
type Client struct {
	service  Service
	options  sqs.Options // Region, HTTPClient, Retryer and so on
	endpoint *string     // of the settings
	now      func() time.Time
}

// New returns a client with the settings of cfg. It makes no call.
func New(cfg aws.Config, s Service) *Client {
	return &Client{service: s, options: sqs.NewFromConfig(cfg).Options(), endpoint: endpointOf(cfg, s.ID), now: time.Now}
}

// In returns a client for another region. The empty region means the client's own.
func (c *Client) In(region string) *Client {
	if c == nil || region == "" || region == c.options.Region {
		return c
	}
	other := *c
	other.options.Region = region
	return &other
}

// Retrying returns a client with other retries.
func (c *Client) Retrying(r aws.Retryer) *Client {
	other := *c
	other.options.Retryer = r
	return &other
}

// Region returns the region of the client.
func (c *Client) Region() string { return c.options.Region }

// A Request is a call over HTTP. Path is escaped.
type Request struct {
	Operation, Method, Path string
	Query                   url.Values
	Header                  http.Header
	Body                    []byte
}

// A Response is the response to a call that succeeded.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do makes a call, and repeats it as the SDK does.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	out, err := c.do(ctx, r)
	if err != nil {
		return nil, &smithy.OperationError{ServiceID: c.service.ID, OperationName: r.Operation, Err: err}
	}
	return out, nil
}

func (c *Client) do(ctx context.Context, r Request) (*Response, error) {
	address, err := c.address(ctx)
	if err != nil {
		return nil, fmt.Errorf("resolve endpoint: %w", err)
	}
	if address, err = address.Parse(strings.TrimSuffix(address.Path, "/") + r.Path); err != nil {
		return nil, err
	}
	address.RawQuery = r.Query.Encode()
	stack := middleware.NewStack(r.Operation, smithyhttp.NewStackRequest)
	if err := c.addTo(stack, &r, address); err != nil {
		return nil, err
	}
	ctx = middleware.WithOperationName(middleware.WithServiceID(middleware.ClearStackValues(ctx), c.service.ID), r.Operation)
	ctx = middleware.SetLogger(ctx, c.options.Logger)
	out, _, err := middleware.DecorateHandler(smithyhttp.NewClientHandlerWithOptions(c.options.HTTPClient), stack).Handle(ctx, &r)
	if err != nil {
		return nil, err
	}
	return out.(*Response), nil
}

// addTo adds the steps of a call to a stack, in the order of the SDK's clients.
func (c *Client) addTo(stack *middleware.Stack, r *Request, address *url.URL) error {
	s := &c.service
	agent := awsmiddleware.NewRequestUserAgent()
	agent.AddSDKAgentKeyValue(awsmiddleware.APIMetadata, strings.ReplaceAll(strings.ToLower(s.ID), " ", ""), "once")
	if c.options.AppID != "" {
		agent.AddSDKAgentKey(awsmiddleware.ApplicationIdentifier, c.options.AppID)
	}
	steps := []func(*middleware.Stack) error{
		func(s *middleware.Stack) error {
			return s.Initialize.Add(&awsmiddleware.RegisterServiceMetadata{ServiceID: c.service.ID, Region: c.options.Region, OperationName: r.Operation}, middleware.Before)
		},
		func(s *middleware.Stack) error {
			return s.Serialize.Add(serializer{r, address}, middleware.After)
		},
		awsmiddleware.AddClientRequestIDMiddleware,
		func(s *middleware.Stack) error { return s.Build.Add(agent, middleware.After) },
		func(s *middleware.Stack) error { return s.Finalize.Add(signer{c, r.Body}, middleware.After) },
		func(s *middleware.Stack) error {
			return retry.AddRetryMiddlewares(s, retry.AddRetryMiddlewaresOptions{Retryer: c.options.Retryer, LogRetryAttempts: c.options.ClientLogMode.IsRetries()})
		},
		func(s *middleware.Stack) error { return s.Deserialize.Add(deserializer{}, middleware.After) },
		awsmiddleware.AddRecordResponseTiming,
		awsmiddleware.AddRequestIDRetrieverMiddleware,
		awshttp.AddResponseErrorMiddleware,
	}
	for _, add := range append(steps, c.options.APIOptions...) {
		if err := add(stack); err != nil {
			return err
		}
	}
	return nil
}

// A serializer makes the HTTP request.
type serializer struct {
	request *Request
	address *url.URL
}

// ID implements [middleware.SerializeMiddleware].
func (serializer) ID() string { return "OperationSerializer" }

// HandleSerialize implements [middleware.SerializeMiddleware].
func (s serializer) HandleSerialize(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (middleware.SerializeOutput, middleware.Metadata, error) {
	r := in.Request.(*smithyhttp.Request)
	r.Method, r.URL = s.request.Method, s.address
	maps.Copy(r.Header, s.request.Header)
	if s.request.Body != nil {
		var err error
		if r, err = r.SetStream(bytes.NewReader(s.request.Body)); err != nil {
			return middleware.SerializeOutput{}, middleware.Metadata{}, err
		}
	}
	in.Request = r
	return next.HandleSerialize(ctx, in)
}

// A signer signs each try of a request.
type signer struct {
	client *Client
	body   []byte
}

// ID implements [middleware.FinalizeMiddleware]. Retries are placed before it.
func (signer) ID() string { return "Signing" }

// HandleFinalize implements [middleware.FinalizeMiddleware].
func (s signer) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	o := &s.client.options
	if o.Credentials == nil {
		return middleware.FinalizeOutput{}, middleware.Metadata{}, &v4.SigningError{Err: errors.New("there are no credentials of AWS")}
	}
	credentials, err := o.Credentials.Retrieve(ctx)
	if err == nil {
		sum := sha256.Sum256(s.body)
		err = v4.NewSigner().SignHTTP(ctx, credentials, in.Request.(*smithyhttp.Request).Request, hex.EncodeToString(sum[:]), s.client.service.Host, o.Region, s.client.now())
	}
	if err != nil {
		return middleware.FinalizeOutput{}, middleware.Metadata{}, &v4.SigningError{Err: fmt.Errorf("sign request: %w", err)}
	}
	return next.HandleFinalize(ctx, in)
}

// A deserializer reads the response.
type deserializer struct{}

// ID implements [middleware.DeserializeMiddleware]. Others are ordered by it.
func (deserializer) ID() string { return "OperationDeserializer" }

// HandleDeserialize implements [middleware.DeserializeMiddleware].
func (deserializer) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, metadata, err := next.HandleDeserialize(ctx, in)
	if err != nil {
		return out, metadata, err
	}
	r, ok := out.RawResponse.(*smithyhttp.Response)
	if !ok {
		return out, metadata, &smithy.DeserializationError{Err: fmt.Errorf("unknown transport type %T", out.RawResponse)}
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxResponse+1))
	switch {
	case err != nil:
		return out, metadata, &smithy.DeserializationError{Err: fmt.Errorf("read response: %w", err)}
	case r.StatusCode/100 != 2:
		return out, metadata, errorOf(r.Response, body)
	case len(body) > MaxResponse:
		return out, metadata, &smithy.DeserializationError{Err: fmt.Errorf("the response has more than %d bytes", MaxResponse)}
	}
	out.Result = &Response{Status: r.StatusCode, Header: r.Header, Body: body}
	return out, metadata, nil
}
