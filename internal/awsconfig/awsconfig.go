// Package awsconfig reads what every client of AWS starts from.
package awsconfig

import (
	"context"
	"io"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Load reads the environment and the shared files as every AWS tool does. Its clients don't cut their own answers off.
func Load(ctx context.Context, options ...func(*config.LoadOptions) error) (aws.Config, error) {
	return config.LoadDefaultConfig(ctx, append(slices.Clip(options), config.WithAPIOptions([]func(*middleware.Stack) error{keepConnections}))...)
}

// keepConnections sends bodies by Read alone. The SDK closes a request's body as soon as the head of the answer is there. Where the connection's writer is late, it comes
// upon a closed body then, whose WriteTo says io.EOF in place of nothing: net/http takes that for a write that failed and closes the connection, with the rest of the answer on it.
// What was asked is done, its answer is lost, and the SDK asks again; most easily with a large answer and little processor time. A closed body that is read just ends.
// The error is told of at https://github.com/aws/aws-sdk-go-v2/issues/2737.
func keepConnections(stack *middleware.Stack) error {
	return stack.Serialize.Add(middleware.SerializeMiddlewareFunc("KeepConnections", func(
		ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler,
	) (middleware.SerializeOutput, middleware.Metadata, error) {
		if request, ok := in.Request.(*smithyhttp.Request); ok {
			if stream, ok := request.GetStream().(io.ReadSeeker); ok {
				read, err := request.SetStream(struct{ io.ReadSeeker }{stream})
				if err != nil {
					return middleware.SerializeOutput{}, middleware.Metadata{}, err
				}
				*request = *read
			}
		}
		return next.HandleSerialize(ctx, in)
	}), middleware.After)
}
